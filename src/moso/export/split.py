"""What is exported of one split: which samples, under which labels, and their content as the source has it."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.data.images import naming_broken_image, open_image
from moso.data.samples import Samples
from moso.data.sources.folder import IMAGE_SUFFIXES
from moso.results.originals import Originals
from moso.results.reading import Run

BLOCK = 1_000
_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WEBP": ".webp", "BMP": ".bmp", "GIF": ".gif", "TIFF": ".tif"}


@dataclass(frozen=True)
class Row:
    """One exported sample: its id, and the index of the class it was trained as, or the numbers to predict."""

    id: int | str
    label: int
    target: float | list[float] | None = None


@dataclass(frozen=True)
class Split:
    """The samples of one split that are exported, `positions` of `samples`, and where their originals are."""

    samples: Samples
    originals: Originals
    positions: NDArray[np.int64]

    def blocks(self) -> Iterator[list[Row]]:
        """All rows, some at a time, in dataset order."""
        for start in range(0, len(self.positions), BLOCK):
            positions = self.positions[start : start + BLOCK]
            ids, labels = self.samples.ids.take(pa.array(positions)).to_pylist(), self.samples.labels[positions]
            targets = self.samples.targets
            numbers = [None] * len(ids) if targets is None else targets[positions].tolist()
            yield [Row(*row) for row in zip(ids, labels.tolist(), numbers, strict=True)]

    @property
    def has_pictures(self) -> bool:
        """Whether the samples are images."""
        return self.originals.samples.picture(0) is not None

    @property
    def has_texts(self) -> bool:
        """Whether the samples are texts."""
        return self.originals.samples.text(0) is not None

    def image(self, sample_id: int | str) -> tuple[Path | bytes, str]:
        """An image and the suffix of its file: the source's own file or bytes, or else a PNG of its pixels."""
        encoded = self.originals.encoded(sample_id)
        if isinstance(encoded, Path):
            if encoded.suffix.lower() in IMAGE_SUFFIXES:
                return encoded, encoded.suffix
            encoded = encoded.read_bytes()
        if encoded is not None:
            with naming_broken_image(str(sample_id)), open_image(encoded) as image:
                if image.format in _SUFFIXES:
                    return encoded, _SUFFIXES[image.format]
        picture, stream = self.originals.picture(sample_id), io.BytesIO()
        assert picture is not None, "only splits of pictures are asked for images"
        picture.save(stream, "PNG")
        return stream.getvalue(), ".png"

    def numbers(self, rows: list[Row]) -> NDArray[np.float32]:
        """The inputs of some rows where they are no images, as the source has them."""
        positions = np.array([self.originals.position(row.id) for row in rows])
        return self.originals.samples.reader.read(positions).astype(np.float32)


def check_unchanged(run: Run, samples: Samples, split: Literal["train", "test"]) -> None:
    """Refuse data that is not what it was when the run was made."""
    if samples.fingerprint() != run.manifest["dataset"]["fingerprint"][split]:
        raise errors.DataChanged(
            f"the data of {run.configuration.dataset} is not what it was when {run.directory} was made "
            "(its fingerprint differs), so what was kept cannot be found in it"
        )
