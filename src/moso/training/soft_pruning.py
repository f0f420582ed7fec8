"""Pruning during training: easy samples are skipped at random, and those that are met count for the skipped ones.

Before every pass over the data, with H(z) the loss of a sample when training last met it and m their mean over all
samples:

    H(z) < m:  skipped with probability r; otherwise its loss is multiplied by 1 / (1 - r)
    H(z) >= m, or never met:  kept, its loss as it is

so that the expected sum of gradients over a pass is that of all samples. The last eighth of training is on everything.
Qin et al., InfoBatch: Lossless Training Speed Up by Unbiased Dynamic Data Pruning, ICLR 2024 (r = 0.5). Its code skips
exactly r of the easy samples; here each is skipped by hash of (seed, pass, id), as the paper's text has it.

`SoftPrunedPlan` is the plan of a training with a fixed number of updates: passes are as long as they turn out to be,
and the last one is cut off. `SoftPruning` is its memory: a callback that records losses, weighs them, and is part of
every checkpoint, from which training resumes bit for bit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.batch import Batch
from moso.columns import take
from moso.data.views import load, split_evenly
from moso.gradients import Loss
from moso.randomness import hash_order, uniforms
from moso.training.callback import Callback, TrainingRun
from moso.training.step_plan import Positions, Step, StepPlan
from moso.training.team import ALONE, Team

RATIO = 0.5
# One of so many updates or epochs, the last ones, is on all samples.
ON_EVERYTHING = 8


def soft_weights(
    losses: NDArray[np.float32], keys: NDArray[np.uint64], ratio: float, seed: int, number: int
) -> NDArray[np.float32]:
    """Return what each sample's loss is multiplied by in a pass, shape ``[samples]``; 0 for samples that are skipped.

    Args:
        losses: Last known loss of each sample, shape ``[samples]``; NaN if training has not met it.
        keys: One 64-bit key per sample, shape ``[samples]``.
        ratio: Probability of skipping an easy sample, in ``[0, 1)``.
        seed: Seed of the draws.
        number: Number of the pass.

    Example:
        >>> keys = np.arange(4, dtype=np.uint64)
        >>> soft_weights(np.array([0.1, 0.1, 0.1, 9.0], dtype=np.float32), keys, ratio=0.5, seed=0, number=1)
        array([2., 2., 0., 1.], dtype=float32)
        >>> soft_weights(np.full(4, np.nan, dtype=np.float32), keys, ratio=0.5, seed=0, number=0)
        array([1., 1., 1., 1.], dtype=float32)
    """
    met = ~np.isnan(losses)
    # In the numbers' own precision, so that equal losses are not below their mean.
    mean = np.float32(losses[met].mean(dtype=np.float64)) if met.any() else np.float32(0)
    with np.errstate(invalid="ignore"):
        easy = losses < mean  # false for NaN
    skipped = easy & (uniforms(keys, seed, "soft-pruning", number) < ratio)
    return np.where(skipped, 0, np.where(easy, 1 / (1 - ratio), 1)).astype(np.float32)


class SoftPruning(Callback):
    """The memory of a soft-pruned training: the losses, and the pass in progress.

    Attributes:
        passes: Passes over the data that have begun.
        visits: Samples that training has met so far, counted as often as it met them.
    """

    name = "soft-pruning"

    def __init__(self, samples: int, team: Team = ALONE) -> None:
        """Start with nothing known.

        Args:
            samples: Number of samples of the view.
            team: Processes that share every batch.
        """
        self.team = team
        self.latest = np.full(samples, np.nan, dtype=np.float32)
        self.known = self.latest.copy()  # as they were when the pass in progress began
        self.weights = np.ones(samples, dtype=np.float32)
        self.first, self.passes, self.visits = 1, 0, 0

    def begin(self, first: int) -> None:
        """Begin the next pass, with update number `first`."""
        self.known, self.first, self.passes = self.latest.copy(), first, self.passes + 1

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """Return the loss of a step, which remembers the losses of its samples and returns them weighed."""
        own = self.team.share(step.positions)

        def weighed(model: nn.Module, batch: Batch) -> torch.Tensor:
            values = loss(model, batch)
            found = self.team.gathered(values.detach().float().cpu().numpy())
            self.latest[step.positions] = np.concatenate(found)
            self.visits += len(step.positions)
            return values * torch.from_numpy(self.weights[own]).to(values)

        return weighed

    def state(self) -> dict[str, torch.Tensor]:
        """Return losses and counters."""
        found = {"latest": torch.from_numpy(self.latest.copy()), "known": torch.from_numpy(self.known.copy())}
        return {**found, "counters": torch.tensor([self.first, self.passes, self.visits])}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Resume from what `state` returned."""
        self.latest, self.known = (state[name].numpy().copy() for name in ("latest", "known"))
        self.first, self.passes, self.visits = (int(one) for one in state["counters"])


@dataclass(frozen=True)
class SoftPrunedPlan(StepPlan):
    """The steps of a soft-pruned training of exactly `total_steps` updates.

    The batches of a pass are known when it begins. An `epoch` of a step is what it is without pruning, an equal share
    of the updates, so that learning rates and histories mean the same.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.training.recipe import TrainingRecipe
        >>> from moso.training.step_plan import TrainingData
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> plan = SoftPrunedPlan(data, recipe, 0, 5, pruning=SoftPruning(4))
        >>> [step.number for step, batch in plan.walk(range(1, 6))], plan.pruning.passes
        ([1, 2, 3, 4, 5], 3)
    """

    pruning: SoftPruning = field(kw_only=True)
    ratio: float = field(default=RATIO, kw_only=True)

    @property
    def softly(self) -> int:
        """Number of updates before the last part, which is on everything."""
        return self.total - self.total // ON_EVERYTHING

    def walk(
        self,
        numbers: Sequence[int],
        loader_workers: int = 0,
        share: Callable[[Positions], Positions] = lambda positions: positions,
    ) -> Iterator[tuple[Step, Batch]]:
        """Yield successive steps, each with its batch; the losses of one pass decide the batches of the next."""
        while len(numbers):
            batches = self._current(numbers[0])
            count = len(batches) - (numbers[0] - self.pruning.first)
            own, numbers = numbers[:count], numbers[count:]
            steps = [
                Step(one, (one - 1) // self.per_epoch, self.rate(one), batches[one - self.pruning.first]) for one in own
            ]
            shares = [share(step.positions) for step in steps]
            yield from zip(steps, load(self.data.view, shares, self.pruning.passes - 1, loader_workers), strict=True)

    def _current(self, number: int) -> list[Positions]:
        """Return the batches of the pass that holds an update, which begins if the one before is over."""
        batches = self._batches() if self.pruning.passes else []
        if number - self.pruning.first >= len(batches):
            self.pruning.begin(number)
            batches = self._batches()
        return batches

    def _batches(self) -> list[Positions]:
        own, keys, positions = self.pruning, self.data.keys, self.data.positions
        if own.first <= self.softly:
            weights = soft_weights(own.known[positions], take(keys, positions), self.ratio, self.seed, own.passes)
        else:
            weights = np.ones(len(positions), dtype=np.float32)
        own.weights[positions] = weights
        kept = positions[weights > 0]
        order = hash_order(take(keys, kept), self.seed, "order", own.passes - 1)
        batches = split_evenly(take(kept, order), self.recipe.batch_size)
        # What is left of a pass where the last part begins is cut off.
        return batches[: self.softly - own.first + 1] if own.first <= self.softly else batches
