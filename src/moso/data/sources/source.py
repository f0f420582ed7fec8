"""The type of a data source: a name, and a function from a request to a training and a test split.

A source lists samples, labels and classes, and says where the inputs are. It decodes nothing: decoding, label noise,
held-out splits and normalisation are the same for all sources and live in `moso.data.dataset`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from moso.data.readers import MEMORY_LIMIT_BYTES
from moso.data.samples import StoredSamples
from moso.tasks import Classification, Task

# Default networks and recipes of tables of numbers, and of vectors that a network computed.
NUMBERS, VECTORS = ("mlp-w32", "table"), ("linear", "linear-probe")
# The training split, and the test split if the source has one.
Opened = tuple[StoredSamples, StoredSamples | None]


@dataclass(frozen=True)
class Request:
    """A request to open a data set.

    Attributes:
        location: What the user wrote after the source's name and a colon.
        resize: Side in pixels to which images are scaled and cropped.
        memory_limit: Inputs larger than this many bytes stay on disk.
        task: Name of the task; if empty, the source decides.
    """

    location: str = ""
    resize: int | None = None
    memory_limit: int = MEMORY_LIMIT_BYTES
    task: str = ""


@dataclass(frozen=True)
class Source:
    """A data source: how its name is written (`parquet:PATH`), what it is, and how it is opened.

    Attributes:
        usage: How a user writes it; the part before the colon is its name.
        description: What it is, for the listing.
        open: Maps a request to the training split, and the test split if there is one.
        task: The task that is learned from it; `?target=COLUMN` makes it a regression.
        fits: Default network and recipe, if they differ from those for pictures or numbers.
        looks: Looks at a location without opening it, and returns the default network and recipe, if it can tell.
        pictures: Whether its inputs may be pictures.
        vectors: Whether its inputs are feature vectors, which are their own embedding.
        unlabelled: Whether it opens data that has no labels; the labels of other sources are left out.
    """

    usage: str
    description: str
    open: Callable[[Request], Opened]
    task: Task = field(default_factory=Classification)
    fits: tuple[str, str] | None = None
    looks: Callable[[str], tuple[str, str] | None] | None = None
    pictures: bool = True
    vectors: bool = False
    unlabelled: bool = False

    @property
    def name(self) -> str:
        """The part of `usage` before the colon.

        Example:
            >>> Source("parquet:PATH", "", lambda request: NotImplemented).name
            'parquet'
        """
        return self.usage.partition(":")[0]
