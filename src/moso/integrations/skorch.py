"""skorch: record a net's `fit` with one callback, and score its samples by its own criterion.

record = MosoCallback("runs/trajectory")
net = NeuralNetClassifier(Module, callbacks=[record], max_epochs=10)
net.fit(X, y)
scores = score(net, X, y, trajectory=record.trajectory)
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.api import score as score_samples
from moso.api.trajectory_scores import Combination
from moso.evidence import Trajectory
from moso.integrations.framework_recording import Recording
from moso.integrations.needed import needed
from moso.scores import Score

with needed("skorch"):
    from skorch import NeuralNet
    from skorch.callbacks import Callback


class MosoCallback(Callback):  # type: ignore[misc] # skorch is not type-checked
    """Records the training of a net: give it as `NeuralNet(..., callbacks=[MosoCallback("runs/trajectory")])`.

    skorch does not know the number of updates in advance, so a uniform sample of however many is kept. `partial_fit`
    and `warm_start` continue the recording; a `fit` from the beginning replaces it.

    Args:
        folder: Where the sampled steps are written. Clones of a net, as in a grid search, share it and are refused.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        trainable_only: Write only what training changes. None does so if a parameter is frozen, as under an adapter.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Example:
        >>> MosoCallback("runs/trajectory", samples=20).get_params()["samples"]
        20
    """

    def __init__(
        self,
        folder: Path | str,
        samples: int = 10,
        seed: int = 0,
        trainable_only: bool | None = None,
        overwrite: bool = False,
        moments: bool = False,
    ) -> None:
        self.folder = folder
        self.samples = samples
        self.seed = seed
        self.trainable_only = trainable_only
        self.overwrite = overwrite
        self.moments = moments

    def initialize(self) -> "MosoCallback":
        """Note that the net starts anew: the next training is a first one."""
        if not hasattr(self, "recording_"):
            self.recording_ = Recording(
                self.folder,
                samples=self.samples,
                seed=self.seed,
                trainable_only=self.trainable_only,
                overwrite=self.overwrite,
                moments=self.moments,
            )
        self.begun_ = False
        return self

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory of the last training (`Recording.trajectory`)."""
        if not hasattr(self, "recording_"):
            raise errors.RecorderMisused("nothing was recorded by this callback; fit the net first")
        return self.recording_.trajectory

    def on_train_begin(self, net: NeuralNet, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Begin the recording, or continue it after an earlier `partial_fit`."""
        if self.begun_:
            self.recording_.proceed(net.module_, [net.optimizer_])
        else:
            self.recording_.begin(net.module_, [net.optimizer_], total_steps=None)
        self.begun_ = True

    def on_epoch_begin(
        self, net: NeuralNet, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any
    ) -> None:
        """Note the epoch of the next updates."""
        self.recording_.at_epoch(len(net.history) - 1)

    def on_train_end(self, net: NeuralNet, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """End the recording."""
        self.recording_.end()


def score(
    net: NeuralNet,
    X: Any,
    y: Any = None,
    *,
    trajectory: Trajectory,
    method: Combination | Score = "moso",
    batch_size: int | None = None,
) -> NDArray[np.float64]:
    """Score every sample by a recorded trajectory, with the loss of the net: its criterion, through `net.get_loss`.

    `NeuralNetClassifier` takes the logarithm of the module's probabilities, and the scores do the same; with
    `moso.score` and its cross-entropy, such a module would be scored by a loss that it was not trained with.

    Args:
        net: The fitted net.
        X: Inputs in any form that the net fits.
        y: Targets, unless `X` is a dataset that has them.
        trajectory: What `MosoCallback` recorded.
        method: Name of a score that is computed from step terms, or a `Score` that needs no other evidence.
        batch_size: Samples per batch; None finds a size that suits the network and the device.

    Returns:
        One float64 per sample, in the order of `X`, shape ``[samples]``.

    Raises:
        MosoError: ``loss-invalid`` if the criterion cannot give one loss per sample, and those of `moso.score`.
    """
    unreduced = _unreduced(net)

    def loss(module: nn.Module, batch: Any) -> torch.Tensor:
        inputs, targets = batch
        outputs = module(**inputs) if isinstance(inputs, Mapping) else module(inputs)
        losses: torch.Tensor = unreduced.get_loss(outputs, targets, X=inputs, training=False)
        return losses.flatten(1).mean(1) if losses.ndim > 1 else losses

    return score_samples(
        net.module_, net.get_dataset(X, y), trajectory, loss=loss, method=method, batch_size=batch_size
    )


def _unreduced(net: NeuralNet) -> NeuralNet:
    """Return a shallow copy of the net whose criterion does not average over samples."""
    criterion = copy.copy(net.criterion_)
    if not hasattr(criterion, "reduction"):
        raise errors.LossInvalid(
            f"the criterion {type(criterion).__name__} has no attribute 'reduction' to switch off; score with "
            "moso.score(net.module_, ..., loss=), a function (module, batch) -> [batch]"
        )
    criterion.reduction = "none"
    other = object.__new__(type(net))  # skorch's own copy would pickle the module
    vars(other).update(vars(net), criterion_=criterion)
    return other
