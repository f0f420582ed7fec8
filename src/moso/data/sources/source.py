"""What a data source is: a name, and a function from what follows it to a training and a test split.

A source lists samples, labels and classes, and says where the inputs are. It decodes nothing: that, label
noise, held-out tests and normalisation are the same for all of them and live in `moso.data.dataset`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from moso.data.readers import MEMORY_LIMIT_BYTES
from moso.data.samples import StoredSamples

# The training split, and the test split if the source has one.
Opened = tuple[StoredSamples, StoredSamples | None]


@dataclass(frozen=True)
class Request:
    """What a source is asked to open: `location` is what the user wrote after the source's name and a colon."""

    location: str = ""
    resize: int | None = None
    memory_limit: int = MEMORY_LIMIT_BYTES


@dataclass(frozen=True)
class Source:
    """A data source: how it is typed (`parquet:PATH`), what it is, and how it is opened.

    Attributes:
        usage: How a user writes it; what stands before the colon is its name.
        description: What it is, for the listing.
        open: From a request to the training split, and the test split if there is one.
        numbers: Its answers are numbers to predict; elsewhere `?target=COLUMN` says so.
        fits: The network and the recipe that fit it, if others than those of pictures or numbers.
        pictures: Its inputs may be pictures.
    """

    usage: str
    description: str
    open: Callable[[Request], Opened]
    numbers: bool = False
    fits: tuple[str, str] | None = None
    pictures: bool = True

    @property
    def name(self) -> str:
        """What stands before the colon.

        >>> Source("parquet:PATH", "", lambda request: NotImplemented).name
        'parquet'
        """
        return self.usage.partition(":")[0]
