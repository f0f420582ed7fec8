"""The steps of a training run, known before it begins: batches, learning rates and their order.

The samples of each batch are a function of (seed, epoch, sample id), and the learning rate is a function of the step's
number. A run can therefore start at any step, and can be walked forwards, backwards and repeatedly: the training loop,
the adjoint and exact leave-one-out all walk the same plan.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import take
from moso.data.views import View, load, split_evenly
from moso.randomness import hash_order
from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class TrainingData:
    """The training samples: a view, the positions in it that take part, and the samples' keys.

    Attributes:
        view: Samples, as the network learns from them.
        positions: Positions that take part, shape `[positions]`.
        keys: One 64-bit key per sample of the view, shape `[samples]`.
    """

    view: View
    positions: Positions
    keys: NDArray[np.uint64]

    def epoch_batches(self, batch_size: int, epoch: int, seed: int) -> list[Positions]:
        """Return the batches of an epoch: positions in the order of hash(seed, epoch, id)."""
        order = hash_order(take(self.keys, self.positions), seed, "order", epoch)
        return split_evenly(take(self.positions, order), batch_size)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Return the number of updates per epoch."""
        return max(1, -(-len(self.positions) // batch_size))


@dataclass(frozen=True)
class Step:
    """One update of a run.

    Attributes:
        number: Number of the update, counted from 1.
        epoch: Epoch, counted from 0.
        rate: Learning rate.
        positions: Positions of the batch's samples, shape `[batch]`.
    """

    number: int
    epoch: int
    rate: float
    positions: Positions


@dataclass(frozen=True)
class StepPlan:
    """All steps of a run: the recipe's epochs, or exactly `total_steps` updates.

    Raises:
        SettingInvalid: The run would have no step.

    Example:
        >>> from moso.data.views import as_view
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> plan = StepPlan(data, recipe, seed=0)
        >>> plan.total, plan.per_epoch
        (6, 2)
        >>> [(step.number, step.epoch) for step, batch in plan.walk(range(4, 1, -1))]
        [(4, 1), (3, 1), (2, 0)]
    """

    data: TrainingData
    recipe: TrainingRecipe
    seed: int
    total_steps: int | None = None

    def __post_init__(self) -> None:
        if self.total < 1:
            raise errors.SettingInvalid(f"{self.total} training steps were asked for; at least 1 is needed")

    @cached_property
    def per_epoch(self) -> int:
        """Updates per epoch."""
        return self.data.steps_per_epoch(self.recipe.batch_size)

    @cached_property
    def total(self) -> int:
        """Updates of the whole run."""
        return self.recipe.epochs * self.per_epoch if self.total_steps is None else self.total_steps

    def rate(self, number: int) -> float:
        """Return the learning rate of update `number`, counted from 1."""
        # With `total_steps` the schedule stretches: an epoch of the recipe is an equal share of the run.
        return learning_rate(self.recipe, number, self.total, max(1, round(self.total / self.recipe.epochs)))

    def batches(self, epoch: int) -> list[Positions]:
        """Return the batches of an epoch, counted from 0, in the order of training."""
        return self.data.epoch_batches(self.recipe.batch_size, epoch, self.seed)

    def walk(
        self,
        numbers: Sequence[int],
        loader_workers: int = 0,
        share: Callable[[Positions], Positions] = lambda positions: positions,
    ) -> Iterator[tuple[Step, Any]]:
        """Yield the steps of these numbers in this order, each with its batch.

        Args:
            numbers: Numbers of steps, counted from 1; ascending or descending, so that every epoch is planned once.
            loader_workers: Processes that load batches ahead.
            share: Selects the part of a batch that is loaded; a step's `positions` are those of the whole batch.

        Yields:
            The step, and its batch as the view gives it.
        """
        per_epoch = self.per_epoch
        for epoch, own in groupby(numbers, key=lambda number: (number - 1) // per_epoch):
            batches = self.batches(epoch)
            steps = [Step(one, epoch, self.rate(one), batches[(one - 1) % per_epoch]) for one in own]
            shares = [share(step.positions) for step in steps]
            yield from zip(steps, load(self.data.view, shares, epoch, loader_workers), strict=True)
