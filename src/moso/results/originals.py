"""The samples of a run as their source has them, by id: pictures, texts and encoded bytes, without decoding everything.

A run may hold its data in memory, decoded and resized; whoever wants a picture to look at, or the file itself,
goes back to the source.
"""

from functools import cached_property
from pathlib import Path

from PIL import Image

from moso import errors
from moso.configuration import CUSTOM, Configuration
from moso.data.dataset import DataSet, open_dataset
from moso.data.images import EncodedReader
from moso.data.samples import StoredSamples
from moso.data.sources.registry import open_source


class Originals:
    """One split of a run's source, by sample id.

    >>> originals = Originals.open(Configuration.resolve({"dataset": "digits"}))
    >>> originals.picture(0).size, originals.class_name(0), originals.encoded(0) is None
    ((8, 8), '0', True)
    """

    def __init__(self, samples: StoredSamples) -> None:
        self.samples = samples

    @classmethod
    def open(cls, configuration: Configuration, test: bool = False) -> "Originals":
        """The source's training split; for the test, its test split, or the training split it was held out of."""
        if configuration.dataset == CUSTOM:
            raise errors.DataInMemory("the run was made from data in memory, which only its maker can open again")
        train, own_test = open_source(configuration.dataset, configuration.resize, configuration.memory_limit_bytes)
        return cls(own_test if test and own_test is not None else train)

    @cached_property
    def _positions(self) -> dict[int | str, int]:
        return {sample_id: position for position, sample_id in enumerate(self.samples.ids.to_pylist())}

    def position(self, sample_id: int | str) -> int:
        """Where the source has this sample."""
        found = self._positions.get(sample_id)
        if found is None:
            raise errors.DataChanged(
                f"the data no longer has sample {sample_id!r}; it is not what it was when the run was made"
            )
        return found

    def class_name(self, sample_id: int | str) -> str:
        """What the source labels this sample."""
        return self.samples.classes[int(self.samples.labels[self.position(sample_id)])]

    def picture(self, sample_id: int | str) -> Image.Image | None:
        """The sample in its original size, or None where samples are no pictures."""
        return self.samples.picture(self.position(sample_id))

    def text(self, sample_id: int | str) -> str | None:
        """The sample as a text, or None where samples are no texts."""
        return self.samples.text(self.position(sample_id))

    def encoded(self, sample_id: int | str) -> Path | bytes | None:
        """The file or the bytes that the sample was decoded from, or None where it was not encoded."""
        reader = self.samples.reader
        return reader.encoded(self.position(sample_id)) if isinstance(reader, EncodedReader) else None


def load_data(configuration: Configuration) -> DataSet:
    """The data of a configuration."""
    c = configuration
    return open_dataset(
        c.dataset,
        resize=c.resize,
        on_broken=c.on_broken,
        labels=c.labels,
        label_noise=c.label_noise,
        seed=c.seed,
        test_share=c.test_share,
        memory_limit=c.memory_limit_bytes,
        validation=c.validation,
        validation_share=c.validation_share,
    )
