"""Numeric inputs that stay on disk: one memory-mapped npy file."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from moso.columns import Array, take
from moso.randomness import generator


@dataclass(frozen=True)
class MappedReader:
    """Rows of a memory map, all of them or those in `rows`; only row numbers are held in memory.

    Example:
        >>> reader = MappedReader(np.arange(6, dtype=np.uint8).reshape(3, 2)).take(np.array([2, 0]))
        >>> len(reader), reader.read(np.array([0])).tolist()
        (2, [[4.0, 5.0]])
    """

    inputs: Array
    rows: NDArray[np.int64] | None = None
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.inputs.shape[1:])

    def __len__(self) -> int:
        return len(self.inputs if self.rows is None else self.rows)

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Read the inputs at these positions into memory, float32 `[n, ...]`."""
        rows = positions if self.rows is None else self.rows[positions]
        # In the order of the file, so that each page is read once.
        order = np.argsort(rows, kind="stable")
        found = np.empty((len(rows), *self.shape), dtype=self.inputs.dtype)
        found[order] = self.inputs.view(np.ndarray)[rows[order]]
        if found.dtype == np.float16:  # the same numbers as by `astype`, which takes several times as long
            return torch.from_numpy(found).to(torch.float32).numpy()
        return found.astype(np.float32, copy=False)

    def picture(self, position: int) -> None:
        """Return None: numeric inputs are not pictures."""
        return

    def take(self, positions: NDArray[np.int64]) -> "MappedReader":
        """Return the reader of a subset, still on disk."""
        return replace(self, rows=positions if self.rows is None else take(self.rows, positions))

    def fingerprint(self) -> str:
        """Return a hash of 4,096 rows drawn by address; hashing all rows would take too long."""
        count = len(self)
        digest = hashlib.blake2b(repr((count, self.shape)).encode(), digest_size=16)
        chosen = generator("fingerprint", count).choice(count, min(4096, count), replace=False)
        digest.update(self.read(np.sort(chosen)).tobytes())
        return digest.hexdigest()
