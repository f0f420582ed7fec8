"""Multi-label classification: any number of labels apply to a sample, each yes or no."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.metric import Measure, Metric, mean_loss
from moso.tasks.regression import check_targets
from moso.tasks.task import Answers, Task

LABELS_RIGHT = Measure("labels right")


def _labels_right(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, marks = batch
    right: torch.Tensor = (model(inputs) > 0) == (marks > 0.5)
    return right.double().mean(1)


@dataclass(frozen=True, kw_only=True)
class MultiLabel(Task):
    """Multi-label classification with mean binary cross-entropy, measured by the share of correct labels.

    A sample belongs to no single class, so nothing is balanced or stratified unless the user gives classes as well.

    Example:
        >>> task, marks = MultiLabel().read([[0, 1, 1], [1, 0, 0]])
        >>> task.outputs, task.learned, marks.shape
        (3, '3 labels, each yes or no', (2, 3))
    """

    name: ClassVar[str] = "multi-label"
    counted_as: ClassVar[tuple[str, str]] = ("label, yes or no", "labels, each yes or no")

    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean binary cross-entropy over a sample's labels, shape `[batch]`."""
        inputs, marks = batch
        return F.binary_cross_entropy_with_logits(model(inputs), marks, reduction="none").mean(1)

    def usual_metric(self, answers: Answers) -> Metric:
        """Return the share of correct labels; with a user's loss, the mean of that loss."""
        return Metric(LABELS_RIGHT, _labels_right) if self.own_loss is None else mean_loss(self.own_loss)

    def read(self, answers: ArrayLike) -> tuple[Self, NDArray[np.float32]]:
        """Check marks, 0 or 1, of shape `[n, labels]`.

        Raises:
            LabelInvalid: The marks are not a row of 0 and 1 per sample.
            ValuesNotFinite: A mark is missing.
        """
        marks = check_targets(answers)
        if marks.ndim != 2 or not np.isin(marks, (0, 1)).all():
            raise errors.LabelInvalid(
                "several labels per sample are written as a row of 0 and 1 per sample, one per label"
            )
        return replace(self, width=marks.shape[1]), marks
