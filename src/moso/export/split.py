"""One split to export: the samples, their labels, and their original content from the source."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
    """One exported sample.

    Attributes:
        id: Id of the sample.
        label: Index of the class that it was trained as; 0 without classes.
        answer: Target as the task stores it: a class, a number or a list.
        weight: How many samples it stands for; None where the selection has no weights.
    """

    id: int | str
    label: int
    answer: Any
    weight: float | None = None


@dataclass(frozen=True)
class Split:
    """The exported samples of one split: `positions` of `samples`, the originals in the source, and weights if any."""

    samples: Samples
    originals: Originals
    positions: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def blocks(self) -> Iterator[list[Row]]:
        """Yield all rows in dataset order, at most `BLOCK` at a time."""
        for start in range(0, len(self.positions), BLOCK):
            positions = self.positions[start : start + BLOCK]
            weights = [None] * len(positions) if self.weights is None else self.weights[start : start + BLOCK].tolist()
            ids, labels = self.samples.ids.take(pa.array(positions)).to_pylist(), self.samples.labels[positions]
            answers = self.samples.targets[positions]
            yield [Row(*row) for row in zip(ids, labels.tolist(), answers.tolist(), weights, strict=True)]

    @property
    def has_pictures(self) -> bool:
        """Whether the samples are images."""
        return self.originals.samples.picture(0) is not None

    @property
    def has_texts(self) -> bool:
        """Whether the samples are texts."""
        return self.originals.samples.text(0) is not None

    def image(self, sample_id: int | str) -> tuple[Path | bytes, str]:
        """Return an image and the suffix of its file.

        The image is the file or the bytes of the source; if the source has neither, a PNG of its pixels.
        """
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
        """Return the original inputs of rows of numbers, ``[rows, ...]``."""
        positions = np.array([self.originals.position(row.id) for row in rows])
        return self.originals.samples.reader.read(positions).astype(np.float32)


def check_unchanged(run: Run, samples: Samples, split: Literal["train", "test"]) -> None:
    """Refuse data that has changed since the run was made.

    Raises:
        MosoError: ``data-changed``.
    """
    if samples.fingerprint() != run.manifest["dataset"]["fingerprint"][split]:
        raise errors.DataChanged(
            f"the data of {run.configuration.dataset} is not what it was when {run.directory} was made "
            "(its fingerprint differs), so the kept samples cannot be found in it"
        )
