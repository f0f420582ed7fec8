"""Regression: an answer is one number or several."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.metric import R_SQUARED, Metric, mean_loss
from moso.tasks.task import Answers, Task


def squared_error(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return one mean squared error per sample, shape `[batch]`; the default loss for numbers.

    Args:
        model: The network.
        batch: `(inputs, targets)`.

    Raises:
        ModelUnsuitable: The network does not give one output per number to predict.

    Example:
        >>> squared_error(nn.Linear(2, 1), (torch.zeros(4, 2), torch.zeros(4))).shape
        torch.Size([4])
    """
    inputs, targets = batch
    squares: torch.Tensor = (like(model(inputs), targets) - targets).square()
    return squares if squares.ndim == 1 else squares.flatten(1).mean(1)


def like(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Reshape outputs to the shape of targets: with one output, `[batch, 1]` becomes `[batch]`.

    Raises:
        ModelUnsuitable: There is not one output per number to predict.
    """
    if outputs.numel() != targets.numel():
        raise errors.ModelUnsuitable(
            f"the network gives {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}; "
            "there must be one output per number to predict"
        )
    return outputs.reshape(targets.shape)


def r_squared(targets: Answers) -> Metric:
    """Return the metric R², the explained share of the test targets' variance, averaged over the numbers of a sample.

    R² is the mean over samples of `1 - error^2 / variance`.

    Args:
        targets: Targets of the whole test split, `[n]` or `[n, numbers]`, in the units of batches.

    Raises:
        NothingToMeasure: All targets are equal.
    """
    variance = torch.as_tensor(np.asarray(targets, dtype=np.float64).var(axis=0))
    if (variance <= 0).any():
        raise errors.NothingToMeasure(
            f"all {len(targets)} test targets are equal, so there is nothing to explain and no R²"
        )

    def explained(model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, answers = batch
        residuals = like(model(inputs), answers).cpu().double() - answers.cpu().double()
        shares: torch.Tensor = 1 - residuals.square() / variance
        return shares if shares.ndim == 1 else shares.flatten(1).mean(1)

    return Metric(R_SQUARED, explained)


@dataclass(frozen=True, kw_only=True)
class Regression(Task):
    """Regression with squared error, measured by R²; one output per number.

    Example:
        >>> task, targets = Regression().read([[0.5, 1], [1.5, 2]])
        >>> task.outputs, task.learned, targets.dtype
        (2, '2 numbers to predict', dtype('float32'))
    """

    name: ClassVar[str] = "regression"
    answers_are_normalised: ClassVar[bool] = True
    counted_as: ClassVar[tuple[str, str]] = ("number to predict", "numbers to predict")
    losses = staticmethod(squared_error)

    def usual_metric(self, answers: Answers) -> Metric:
        """Return R²; with a user's loss its mean, because outputs may then be rates, quantiles or logits."""
        return r_squared(answers) if self.loss is squared_error else mean_loss(self.loss)

    def read(self, answers: ArrayLike) -> tuple[Self, NDArray[np.float32]]:
        """Check numbers of shape `[n]` or `[n, numbers]`.

        Raises:
            ShapeMismatch: Targets have another shape.
            LabelInvalid: Targets are not numbers.
            ValuesNotFinite: A target is missing or infinite.
        """
        targets = check_targets(answers)
        return replace(self, width=int(np.prod(targets.shape[1:], dtype=np.int64))), targets


def check_targets(targets: ArrayLike) -> NDArray[np.float32]:
    """Return numbers to predict as float32, `[n]` or `[n, numbers]`, after checking them.

    Raises:
        ShapeMismatch: Targets have another shape.
        LabelInvalid: Targets are not numbers.
        ValuesNotFinite: A target is missing or infinite.

    Example:
        >>> check_targets([1, 2.5])
        array([1. , 2.5], dtype=float32)
    """
    array = np.asarray(targets)
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise errors.ShapeMismatch(
            f"targets must be one number per sample or a row of them, not of shape {array.shape}"
        )
    if array.dtype.kind not in "iufb":
        raise errors.LabelInvalid(f"targets must be numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    bad = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if bad.any():
        raise errors.ValuesNotFinite(
            f"target of sample {int(np.argmax(bad))} is missing or infinite ({int(bad.sum())} are in all)"
        )
    return numbers
