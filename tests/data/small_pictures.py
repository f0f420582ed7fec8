"""Pictures of one colour, encoded: the smallest thing that is a picture."""

import io

from PIL import Image


def encoded(
    colour: object = (200, 30, 60), size: tuple[int, int] = (8, 8), mode: str = "RGB", kind: str = "PNG"
) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind)
    return stream.getvalue()
