"""Views whose batches bring a bank of negatives along, for tasks that compare a pair with strangers.

The bank of an epoch are the samples of the split with the lowest hashes at the address (seed, epoch), so it depends on
neither the order of the data nor on the batch, and training and scoring of the same epoch meet the same one.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moso.batch import Batch, Item
from moso.data.views import View
from moso.randomness import hash_order
from moso.tasks import Task
from moso.tasks.contrastive import Bank, Contrastive


@dataclass(frozen=True)
class BankView:
    """A view of pairs whose batches are `(inputs, texts, bank)`.

    Attributes:
        inner: View of the pairs, with batches `(inputs, texts)`.
        keys: One key per sample, `[n]`.
        task: Says how large the bank is, and the seed of its draws.
    """

    inner: View
    keys: NDArray[np.uint64]
    task: Contrastive
    _banks: dict[int, Bank] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def streamed(self) -> bool:
        """Whether inputs are decoded when read."""
        return self.inner.streamed

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, position: int) -> Item:
        return self.inner[position]

    def members(self, epoch: int) -> NDArray[np.int64]:
        """Return the positions of the epoch's bank, in the order of their hashes.

        Example:
            >>> from moso.data.views import as_view
            >>> keys = np.arange(3, dtype=np.uint64)
            >>> view = BankView(as_view(([[0.0], [1.0], [2.0]], [0, 1, 1])), keys, Contrastive())
            >>> sorted(view.members(0).tolist())
            [0, 1, 2]
        """
        return hash_order(self.keys, self.task.bank_seed, "negatives", epoch)[: self.task.bank]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> Batch:
        """Return the pairs at these positions, and the bank of the epoch."""
        if epoch not in self._banks:
            self._banks.clear()
            self._banks[epoch] = Bank(*self.inner.batch(self.members(epoch), epoch)[:2])
        return (*self.inner.batch(positions, epoch)[:2], self._banks[epoch])


def with_bank(view: View, task: Task, keys: NDArray[np.uint64]) -> View:
    """Return a view whose batches have what the task's loss needs: a bank of negatives, or nothing more.

    Args:
        view: View of the samples.
        task: The task.
        keys: One key per sample, shape `[n]`.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.tasks import Classification
        >>> view = as_view(([[0.0], [1.0]], [0, 1]))
        >>> with_bank(view, Classification(), np.zeros(2, dtype=np.uint64)) is view
        True
    """
    return BankView(view, keys, task) if isinstance(task, Contrastive) else view
