"""Baselines that cost as much as a pruned training and prune nothing, for a fair comparison beside random selection.

A pruned training is cheaper because it makes fewer updates. Would the same number of updates have done better on
data that was not pruned at all?

- `rs2`: every epoch trains on a fresh random subset of the size that pruning keeps. Samples are drawn without
  replacement over epochs: a random order of all data is cut into epochs, and then a new order is drawn.
  Okanovic et al., "Repeated Random Sampling for Minimizing the Time-to-Accuracy of Learning", ICLR 2024
  (arXiv 2305.18424), the variant without replacement.
- `infobatch`: easy samples are skipped at random and those that are met count for them (`training/soft_pruning.py`),
  for exactly as many updates as the pruned training makes, the last eighth of them on everything. Passes are as long as
  they turn out to be; how many there were, and how many samples were met, is recorded with the result.
- `full-fewer-steps`: all data in every epoch, and as many updates as the pruned training makes, with the learning-rate
  schedule compressed to that number. If retraining makes equal steps (`match = "steps"`), this is the training on all
  data.

Because RS2 draws without replacement, it differs from `full-fewer-steps` in little more than the boundaries of epochs.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.data.views import split_evenly
from moso.randomness import hashes
from moso.training.loop import TrainingData

Baseline = Literal["rs2", "infobatch", "full-fewer-steps"]
RS2: Baseline = "rs2"
INFOBATCH: Baseline = "infobatch"
FEWER_STEPS: Baseline = "full-fewer-steps"
BASELINES: dict[str, str] = {
    RS2: "a fresh random subset of the kept size every epoch, without replacement over epochs",
    INFOBATCH: "half of the easy samples skipped in every pass, for as many updates as the pruned training makes",
    FEWER_STEPS: "all data, for as many updates as the pruned training makes",
}


@dataclass(frozen=True)
class FreshSubsets(TrainingData):
    """The training data of RS2: a fresh subset of `size` positions in every epoch, a function of (seed, epoch).

    No sample occurs twice in an epoch, and none a third time before all samples have occurred twice.

    Example:
        >>> from moso.data.views import as_view
        >>> view = as_view((np.eye(5), [0, 1, 0, 1, 0]))
        >>> data = FreshSubsets(view, np.arange(5), np.arange(5, dtype=np.uint64), size=2)
        >>> seen = np.concatenate([data.subset(epoch, seed=0) for epoch in range(5)])
        >>> np.bincount(seen)
        array([2, 2, 2, 2, 2])
    """

    size: int = 1
    _last: dict[tuple[int, int], NDArray[np.int64]] = field(default_factory=dict, compare=False, repr=False)

    def subset(self, epoch: int, seed: int) -> NDArray[np.int64]:
        """Return the positions of an epoch in random order, shape ``[size]``."""
        begin, end = epoch * self.size, (epoch + 1) * self.size
        number, last = begin // len(self.positions), (end - 1) // len(self.positions)
        first = begin - number * len(self.positions)
        order = self._order(number, seed)
        if number == last:
            return order[first : first + self.size]
        following = self._order(number + 1, seed)
        return np.concatenate([order[first:], following[: end - last * len(self.positions)]])

    def epoch_batches(self, batch_size: int, epoch: int, seed: int) -> list[NDArray[np.int64]]:
        """Return the batches of an epoch's subset, as positions."""
        return split_evenly(self.subset(epoch, seed), batch_size)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Return the number of updates per epoch."""
        return max(1, -(-self.size // batch_size))

    def _order(self, number: int, seed: int) -> NDArray[np.int64]:
        """Return the order of a pass over all data.

        An epoch that spans two passes has no sample twice, so each order depends on the one before; recent orders are
        cached.
        """
        known = max((one for one, own in self._last if own == seed and one <= number), default=-1)
        for one in range(known + 1, number + 1):
            self._last[one, seed] = self._next_order(one, seed)
        for old in [key for key in self._last if key[0] < number - 1]:
            del self._last[old]
        return self._last[number, seed]

    def _next_order(self, number: int, seed: int) -> NDArray[np.int64]:
        drawn = np.argsort(hashes(self.keys[self.positions], seed, "fresh-subsets", number), kind="stable")
        order = self.positions[drawn]
        left = number * len(self.positions) % self.size  # the epoch's samples from the end of the previous pass
        if not left:
            return order
        taken = np.isin(order, self._last[number - 1, seed][-left:])
        begins = np.zeros(len(order), dtype=bool)
        begins[np.flatnonzero(~taken)[: self.size - left]] = True
        return np.concatenate([order[begins], order[~begins]])
