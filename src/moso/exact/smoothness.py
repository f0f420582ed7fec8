"""Whether derivatives of a training run mean anything: the run repeated with weights of samples nudged, twice.

A derivative with respect to the weights of samples says what a small change of weights does. It is worth something
only if the outcome changes about twice as much when the weights are nudged twice as far. With weights `1`, `1 + h v`
and `1 + 2 h v` (`v` a random sign per sample) and the outcomes `f_0`, `f_1`, `f_2` (all parameters of the trained
network):

    first = f_1 - f_0        second = f_2 - f_1
    agreement = sum |first| sign(first) sign(second) / sum |first|
    bend      = |second - first| / |first|

A run that is linear in the weights has 1 and 0. A chaotic run, whose three outcomes are unrelated, has -1/3 and
sqrt(3) = 1.7. Two more trainings tell, before an adjoint is computed over hours.

Source: the agreement is the empirical metasmoothness of Engstrom et al., Optimizing ML Training with Metagradient
Descent, arXiv 2503.13751. Where it was below 0.9, scores by differentiated training hardly predicted what leaving
samples out does (measurements of others: 0.78 and 0.88 with correlations of -0.02 and 0.17, 0.99 with 0.86 and more).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.adjoint.reverse_sweep import window_updates
from moso.gradients import Loss
from moso.progress import Progress, silent
from moso.randomness import hashes
from moso.training.callback import Callback, TrainingRun
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import ShowProgress
from moso.training.step_plan import Step

# Above, derivatives can be trusted; below the second, they cannot.
TRUSTED, DOUBTFUL = 0.95, 0.8
NUDGE = 0.02
Trust = Literal["trusted", "doubtful", "not to be trusted"]


@dataclass(frozen=True)
class Smoothness:
    """How far a run is from being linear in the weights of its samples.

    Attributes:
        agreement: Share of the change that goes the same way when the nudge is repeated, in ``[-1, 1]``.
        bend: Length of the change of the change, in units of the change; 0 for a run that is linear.
        nudge: The nudge `h`.
        window: Share of the updates, the last ones, in which weights are nudged.
    """

    agreement: float
    bend: float
    nudge: float
    window: float = 1.0

    @property
    def trust(self) -> Trust:
        """Whether derivatives of the run can be trusted.

        Example:
            >>> [Smoothness(agreement, 0.1, 0.02).trust for agreement in (0.99, 0.9, 0.3)]
            ['trusted', 'doubtful', 'not to be trusted']
        """
        if self.agreement >= TRUSTED:
            return "trusted"
        return "doubtful" if self.agreement >= DOUBTFUL else "not to be trusted"

    def sentence(self) -> str:
        """Return the verdict in one sentence, with what to try."""
        where = "" if self.window == 1 else f" over the last {self.window:.0%} of its updates"
        said = f"derivatives of this run{where} are {self.trust}: agreement {self.agreement:.2f}, bend {self.bend:.2f}"
        if self.trust == "trusted":
            return said
        return said + "; try a lower rate, fewer epochs, larger batches, or a --window over the last epochs"


class _Weighted(Callback):
    """Multiplies the losses of samples by weights, after the first `begin` updates."""

    def __init__(self, weights: NDArray[np.float64], begin: int) -> None:
        self.weights, self.begin = weights, begin

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """Return the weighted loss of a step."""
        if step.number <= self.begin:
            return loss
        own = torch.from_numpy(self.weights[step.positions])

        def weighted(model: nn.Module, batch: Any) -> torch.Tensor:
            found = loss(model, batch)
            return found * own.to(found)

        return weighted


def measure_smoothness(
    build: Callable[[], nn.Module],
    data: TrainingData,
    recipe: TrainingRecipe,
    seed: int,
    *,
    loss: Loss,
    nudge: float = NUDGE,
    window: float = 1.0,
    loader_workers: int = 0,
    progress: Progress = silent,
) -> Smoothness:
    """Train three times with weights nudged further and further, and compare the changes.

    Args:
        build: Returns the network with its initial weights, the same each time.
        data: The training data.
        recipe: The training recipe.
        seed: Seed of batches, augmentations and of the direction of the nudge.
        loss: One loss per sample of a batch.
        nudge: Change of the weights, in ``(0, 0.5)``.
        window: Share of the updates, the last ones, in which weights are nudged.
        loader_workers: Processes that load batches ahead.
        progress: Called as training advances.

    Raises:
        SettingInvalid: `nudge` or `window` is out of range.
        NothingToMeasure: The nudge changes nothing in the trained network.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=1, batch_size=4, learning_rate=0.1, schedule="constant")
        >>> def build():
        ...     torch.manual_seed(0)
        ...     return nn.Linear(4, 2)
        >>> measure_smoothness(build, data, recipe, 0, loss=cross_entropy).trust
        'trusted'
    """
    if not 0 < nudge < 0.5:
        raise errors.SettingInvalid(f"nudge = {nudge:g} must be above 0 and below 0.5, so that no weight is negative")
    plan = StepPlan(data, recipe, seed)
    begin = plan.total - window_updates(window, plan.total, plan.per_epoch)
    signs = 1.0 - 2.0 * (hashes(data.keys, seed, "smoothness") >> np.uint64(63)).astype(np.float64)
    outcomes = []
    for number in range(3):
        model = build()
        callbacks = [_Weighted(1.0 + number * nudge * signs, begin), ShowProgress(progress)]
        label = f"training {number + 1}/3 with nudged weights"
        train(model, plan, loss=loss, callbacks=callbacks, label=label, loader_workers=loader_workers)
        outcomes.append(torch.cat([one.detach().double().flatten().cpu() for one in model.parameters()]))
    first, second = outcomes[1] - outcomes[0], outcomes[2] - outcomes[1]
    size = float(first.abs().sum())
    if size == 0:
        raise errors.NothingToMeasure("nudged weights of samples change nothing in the trained network")
    agreement = float((first * torch.sign(second)).sum()) / size
    return Smoothness(agreement, float((second - first).norm() / first.norm()), nudge, window)
