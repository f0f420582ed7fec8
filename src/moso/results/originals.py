"""The original samples of a run by id, read from the source: images, texts and encoded bytes.

A run may hold its data in memory, decoded and resized. Code that shows an image or copies its file reads the source
again, without decoding the other samples.
"""

from functools import cached_property
from pathlib import Path

from PIL import Image

from moso import errors
from moso.configuration import CUSTOM, Configuration
from moso.data.images import EncodedReader
from moso.data.samples import StoredSamples
from moso.data.sources.features_folder import original_name
from moso.data.sources.registry import open_source


class Originals:
    """One split of a run's source, by sample id.

    Example:
        >>> originals = Originals.open(Configuration.resolve({"dataset": "digits"}))
        >>> originals.picture(0).size, originals.encoded(0) is None
        ((8, 8), True)
    """

    def __init__(self, samples: StoredSamples) -> None:
        self.samples = samples

    @classmethod
    def open(cls, configuration: Configuration, test: bool = False) -> "Originals":
        """Open the training split of the source, or the split that the test samples come from.

        Args:
            configuration: The configuration of the run.
            test: Open the test split; if the source has none, the training split, from which tests were held out.

        Raises:
            MosoError: ``data-in-memory`` if the run was made from arrays or a dataset object.
        """
        if configuration.dataset == CUSTOM:
            raise errors.DataInMemory("the run was made from data in memory, which only its maker can open again")
        # The pictures or texts that features were computed from have the same ids.
        name = original_name(configuration.dataset) or configuration.dataset
        train, own_test = open_source(name, configuration.resize, configuration.memory_limit_bytes, configuration.task)
        return cls(own_test if test and own_test is not None else train)

    @cached_property
    def _positions(self) -> dict[int | str, int]:
        return {sample_id: position for position, sample_id in enumerate(self.samples.ids.to_pylist())}

    def position(self, sample_id: int | str) -> int:
        """Return the position of a sample in the source.

        Raises:
            MosoError: ``data-changed`` if the source no longer has the sample.
        """
        found = self._positions.get(sample_id)
        if found is None:
            raise errors.DataChanged(
                f"the data no longer has sample {sample_id!r}; it is not what it was when the run was made"
            )
        return found

    def picture(self, sample_id: int | str) -> Image.Image | None:
        """Return the image of a sample in its original size, or None if samples are not images."""
        return self.samples.picture(self.position(sample_id))

    def text(self, sample_id: int | str) -> str | None:
        """Return the text of a sample, or None if samples are not texts."""
        return self.samples.text(self.position(sample_id))

    def encoded(self, sample_id: int | str) -> Path | bytes | None:
        """Return the file or the bytes that a sample is decoded from, or None if it is not encoded."""
        reader = self.samples.reader
        return reader.encoded(self.position(sample_id)) if isinstance(reader, EncodedReader) else None
