"""Baselines that cost what a pruned training costs and prune nothing: what an honest comparison needs beside random.

A pruned training is cheaper because it makes fewer updates. Would the same number of updates have done better on
data that was not pruned at all?

- `rs2`: every epoch trains on a fresh random subset as large as what pruning keeps. Over the epochs samples are drawn
  without replacement: a pass over a random order of all data is cut into epochs, and then comes another order.
  Okanovic et al., "Repeated Random Sampling for Minimizing the Time-to-Accuracy of Learning", ICLR 2024
  (arXiv 2305.18424), the variant without replacement.
- `full-fewer-steps`: all data in every epoch, and just as many updates as the pruned training makes, the schedule of
  the learning rate squeezed into them. Where retraining on less gets equal steps, that is training on all data itself.

Without replacement, the two differ in little more than where an epoch of batches ends.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.data.views import split_evenly
from moso.randomness import hashes
from moso.training.loop import TrainingData

Baseline = Literal["rs2", "full-fewer-steps"]
RS2: Baseline = "rs2"
FEWER_STEPS: Baseline = "full-fewer-steps"
BASELINES: dict[str, str] = {
    RS2: "a fresh random subset of the kept size every epoch, without replacement over epochs",
    FEWER_STEPS: "all data, for as many updates as the pruned training makes",
}


@dataclass(frozen=True)
class FreshSubsets(TrainingData):
    """What RS2 learns from: `size` of the positions in every epoch, addressed by (seed, epoch).

    No sample comes twice in an epoch, and none a third time before all have come twice.

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
        """The positions of an epoch, in their random order."""
        begin, end = epoch * self.size, (epoch + 1) * self.size
        number, last = begin // len(self.positions), (end - 1) // len(self.positions)
        first = begin - number * len(self.positions)
        order = self._order(number, seed)
        if number == last:
            return order[first : first + self.size]
        following = self._order(number + 1, seed)
        return np.concatenate([order[first:], following[: end - last * len(self.positions)]])

    def epoch_batches(self, batch_size: int, epoch: int, seed: int) -> list[NDArray[np.int64]]:
        """The batches of an epoch's own subset."""
        return split_evenly(self.subset(epoch, seed), batch_size)

    def steps_per_epoch(self, batch_size: int) -> int:
        """How many updates an epoch makes."""
        return max(1, -(-self.size // batch_size))

    def _order(self, number: int, seed: int) -> NDArray[np.int64]:
        """The order of a pass over all data; the epoch it shares with the pass before has no sample twice."""
        known = max((one for one, own in self._last if own == seed and one <= number), default=-1)
        for one in range(known + 1, number + 1):
            self._last[one, seed] = self._next_order(one, seed)
        for old in [key for key in self._last if key[0] < number - 1]:
            del self._last[old]
        return self._last[number, seed]

    def _next_order(self, number: int, seed: int) -> NDArray[np.int64]:
        drawn = np.argsort(hashes(self.keys[self.positions], seed, "fresh-subsets", number), kind="stable")
        order = self.positions[drawn]
        left = number * len(self.positions) % self.size  # what the last epoch of the pass before took from its end
        if not left:
            return order
        taken = np.isin(order, self._last[number - 1, seed][-left:])
        begins = np.zeros(len(order), dtype=bool)
        begins[np.flatnonzero(~taken)[: self.size - left]] = True
        return np.concatenate([order[begins], order[~begins]])
