"""`WeighLosses`: training on a weighted subset; the loss of every sample counts as often as its weight says.

With w_z the weights divided by their mean over the samples that are trained on, the loss of a batch B is

    1 / |B| sum_{z in B} w_z loss(z)

so an epoch has the loss scale, and the learning rate its meaning, of a training without weights.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.batch import Batch
from moso.gradients import Loss
from moso.training.callback import Callback, TrainingRun
from moso.training.step_plan import Positions, Step


class WeighLosses(Callback):
    """Multiplies the loss of every sample by its weight; it has no state, so a checkpoint needs nothing of it.

    Args:
        positions: Positions of the samples that are trained on, shape ``[kept]``.
        weights: One positive weight per position.
        share: Selects the part of a batch that this process trains on (`Team.share`).

    Example:
        >>> weighing = WeighLosses(np.array([2, 0]), np.array([3.0, 1.0]))
        >>> weighing.weights_of(np.array([0, 2, 0]))
        array([0.5, 1.5, 0.5])
    """

    def __init__(
        self,
        positions: Positions,
        weights: NDArray[np.float64],
        share: Callable[[Positions], Positions] = lambda positions: positions,
    ) -> None:
        order = np.argsort(positions)
        self._positions, self._weights = positions[order], (weights / weights.mean())[order]
        self._share = share

    def weights_of(self, positions: Positions) -> NDArray[np.float64]:
        """Return the weights, of mean 1 over all samples, at these positions."""
        return np.asarray(self._weights[np.searchsorted(self._positions, positions)])

    def losses(self, run: TrainingRun, step: Step, loss: Loss) -> Loss:
        """Return the loss whose values are weighted."""
        weights = torch.from_numpy(self.weights_of(self._share(step.positions)))

        def weighted(model: nn.Module, batch: Batch) -> torch.Tensor:
            values = loss(model, batch)
            return values * weights.to(values)

        return weighted
