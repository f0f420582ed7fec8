"""What is known of a user's data, whatever its kind: its samples, its answers, and how to take some of it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.data.readers import Reader
from moso.data.views import tree_bytes
from moso.randomness import generator

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Given:
    """A user's data.

    Attributes:
        kind: What it is, in a few words, for messages.
        count: Number of samples.
        dataset: The samples as `dataset[i]`, structured as the user's loss takes them.
        take: Returns the same kind of data with the samples at these positions only.
        answers: One answer per sample as the user has them (numbers, names, rows of numbers); None if there are none.
        classes: Names of the classes by index, where the data says them.
        reader: The inputs as arrays, pictures or texts, where moso can read them by itself; None if only the dataset
            knows how a sample is made.
        columns: Names of the columns that make up an input, in order, where the data has names.
        pairs: Whether an item is `(input, answer)`.
        trained_as_given: Whether a network could have been trained on what `dataset` gives; not so for pictures that
            are not tensors yet, and for texts.
    """

    kind: str
    count: int
    dataset: Any
    take: Callable[[Positions], Any] = field(repr=False)
    answers: Any = None
    classes: tuple[str, ...] = ()
    reader: Reader | None = None
    columns: tuple[str, ...] = ()
    pairs: bool = True
    trained_as_given: bool = True

    def fingerprint(self, content: bool = True) -> str:
        """Return a hash of the number of samples and of the content of 64 of them, drawn by address.

        Args:
            content: Whether to look at the content; a dataset that augments gives other content each time.
        """
        digest = hashlib.blake2b(str(self.count).encode(), digest_size=16)
        if not content:
            return digest.hexdigest()
        chosen = generator("given", self.count).choice(self.count, min(64, self.count), replace=False)
        for position in np.sort(chosen).tolist():
            digest.update(tree_bytes(self.dataset[position]))
        return digest.hexdigest()
