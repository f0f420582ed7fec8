"""Classification: an answer is one class of several. Pictures, tables and texts (token ids) share this task."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.label_noise import add_label_noise
from moso.tasks.metric import ACCURACY, Metric
from moso.tasks.task import Answers, Task


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return one cross-entropy per sample, shape `[batch]`; the default loss.

    Args:
        model: The network.
        batch: `(inputs, labels)`.

    Example:
        >>> cross_entropy(nn.Linear(2, 3), (torch.zeros(4, 2), torch.tensor([0, 1, 2, 0]))).shape
        torch.Size([4])
    """
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels, reduction="none")


def _is_right(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, labels = batch
    right: torch.Tensor = model(inputs).argmax(1) == labels
    return right


def accuracy() -> Metric:
    """Return the metric of whether the class with the highest output is the label."""
    return Metric(ACCURACY, _is_right)


@dataclass(frozen=True, kw_only=True)
class Classification(Task):
    """Classification with cross-entropy, measured by accuracy; one output per class.

    Example:
        >>> task, labels = Classification().read([0, 1, 1])
        >>> task.classes, task.outputs, labels
        (('0', '1'), 2, array([0, 1, 1]))
    """

    name: ClassVar[str] = "classification"
    answers_are_classes: ClassVar[bool] = True
    # The function itself and not a method: callers test `loss is cross_entropy`, because its second derivatives have a
    # closed form.
    losses = staticmethod(cross_entropy)

    def usual_metric(self, answers: Answers) -> Metric:
        """Return accuracy."""
        return accuracy()

    def read(self, answers: ArrayLike) -> tuple[Self, NDArray[np.int64]]:
        """Check class indices; without names, classes are named by their numbers.

        Raises:
            ShapeMismatch: Labels are not one number per sample.
            LabelsMissing: A label is missing.
            LabelInvalid: A label is not a whole number in range.
        """
        labels = check_labels(answers, len(self.classes) or None)
        names = self.classes or tuple(str(number) for number in range(int(labels.max(initial=-1)) + 1))
        return replace(self, classes=names), labels

    def labels(self, targets: Answers) -> NDArray[np.int64]:
        """Return the answers themselves."""
        return targets

    def noisy(
        self, targets: Answers, keys: NDArray[np.uint64], rate: float, seed: int
    ) -> tuple[Answers, NDArray[np.bool_]]:
        """Return labels of which a share is drawn uniformly from all classes, and which samples were drawn."""
        return add_label_noise(targets, keys, len(self.classes), rate, seed)

    def check_learnable(self, targets: Answers, name: str) -> None:
        """Refuse a training split of one class.

        Raises:
            TooFewClasses: All samples are of one class.
        """
        present = np.flatnonzero(np.bincount(targets))
        if len(present) < 2:
            raise errors.TooFewClasses(
                f"all {len(targets)} training samples of {name} are of one class ({self.classes[present[0]]}); "
                "there must be at least two to tell apart"
            )


def check_labels(labels: ArrayLike, classes: int | None = None) -> NDArray[np.int64]:
    """Return labels as int64, shape `[n]`, after checking them.

    Args:
        labels: One number per sample.
        classes: Number of classes; without it, labels have no upper bound.

    Raises:
        ShapeMismatch: Labels are not one number per sample.
        LabelsMissing: A label is NaN.
        LabelInvalid: A label is not a whole number in range.

    Example:
        >>> check_labels([0, 1, 1.0])
        array([0, 1, 1])
        >>> check_labels([0, 1.5])
        Traceback (most recent call last):
        ...
        moso.errors.LabelInvalid: label 1.5 of sample 1 is not a whole number
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise errors.ShapeMismatch(f"labels must be one number per sample, not of shape {array.shape}")
    if array.dtype == object or array.dtype.kind not in "iufb":
        raise errors.LabelInvalid(f"labels must be whole numbers, not {array.dtype}; map class names to 0..C-1 first")
    if array.dtype.kind == "f":
        if np.isnan(array).any():
            raise errors.LabelsMissing(f"label of sample {int(np.argmax(np.isnan(array)))} is missing")
        fractional = array != np.floor(array)
        if fractional.any():
            first = int(np.argmax(fractional))
            raise errors.LabelInvalid(f"label {array[first]} of sample {first} is not a whole number")
    whole = array.astype(np.int64, copy=False)
    upper = np.iinfo(np.int64).max if classes is None else classes
    if len(whole) and (whole.min() < 0 or whole.max() >= upper):
        first = int(np.argmax((whole < 0) | (whole >= upper)))
        end = "..." if classes is None else f"{upper - 1}"
        raise errors.LabelInvalid(f"label {whole[first]} of sample {first} is out of range 0..{end}")
    return whole
