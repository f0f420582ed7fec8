"""Classification: an answer is one class of several. Pictures, tables and texts (token ids) share this task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.label_noise import NoiseKind, add_label_noise
from moso.tasks.metric import ACCURACY, Metric
from moso.tasks.task import Answers, Task

# Numbered classes of a data set, most of them without samples, that are still taken for classes.
_MOST_NUMBERED = 100_000


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return one cross-entropy per sample, shape `[batch]`; the default loss.

    Args:
        model: The network.
        batch: `(inputs, labels)`; inputs that are a mapping are the network's keyword arguments.

    Raises:
        ModelUnsuitable: The network gives no tensor `[batch, classes]`, or has no output for a label.

    Example:
        >>> cross_entropy(nn.Linear(2, 3), (torch.zeros(4, 2), torch.tensor([0, 1, 2, 0]))).shape
        torch.Size([4])
    """
    inputs, labels = unpacked(batch)
    logits = class_outputs(model, inputs)
    if logits.ndim != 2 or len(logits) != len(labels):
        raise errors.ModelUnsuitable(
            f"the network gives {tuple(logits.shape)} for {len(labels)} samples; cross-entropy needs one output per "
            "class, [batch, classes]: give a network with such outputs, or loss="
        )
    try:
        return F.cross_entropy(logits, labels, reduction="none")
    except IndexError as problem:
        raise errors.ModelUnsuitable(
            f"a label has no output of the network, which gives {logits.shape[1]}, for the classes 0 to "
            f"{logits.shape[1] - 1} ({problem}); give a network with more outputs, or correct the labels"
        ) from problem


def unpacked(batch: Batch) -> tuple[Any, torch.Tensor]:
    """Return a batch as inputs and labels.

    Raises:
        LossInvalid: The batch is no pair of inputs and a tensor of labels.
    """
    if isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[1], torch.Tensor):
        return batch[0], batch[1]
    found = f"the names {', '.join(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
    if isinstance(batch, tuple | list):
        found = f"{len(batch)} parts ({', '.join(type(part).__name__ for part in batch)})"
    raise errors.LossInvalid(
        f"the default loss takes batches (inputs, labels), and this one has {found}; give loss=, a function of the "
        "network and the batch that returns one number per sample"
    )


def class_outputs(model: nn.Module, inputs: Any) -> torch.Tensor:
    """Return the logits `[batch, classes]` that a network gives; an output object gives its `logits`.

    Raises:
        ModelUnsuitable: The output is no tensor and has no logits.

    Example:
        >>> class_outputs(nn.Linear(2, 3), {"input": torch.zeros(4, 2)}).shape
        torch.Size([4, 3])
    """
    found = model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
    if isinstance(found, torch.Tensor):
        return found
    logits = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise errors.ModelUnsuitable(
            f"the network returns {type(found).__name__}, and cross-entropy needs a tensor [batch, classes] or an "
            "output with logits; give loss=, a function of the network and the batch that returns one number per sample"
        )
    return logits


def _is_right(model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, labels = unpacked(batch)
    right: torch.Tensor = class_outputs(model, inputs).argmax(1) == labels
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
        """Check class indices or names; names get numbers in their sorted order, or that of `classes`.

        Raises:
            ClassesMismatch: A name is none of `classes`.
            ShapeMismatch: Labels are not one number per sample.
            LabelsMissing: A label is missing.
            LabelInvalid: A label is not a whole number in range.
        """
        if is_names(answers):
            return self._named(np.asarray(answers).astype(str))
        labels = check_labels(answers, len(self.classes) or None)
        names = self.classes or tuple(str(number) for number in range(int(labels.max(initial=-1)) + 1))
        return replace(self, classes=names), labels

    def _named(self, names: NDArray[np.str_]) -> tuple[Self, NDArray[np.int64]]:
        classes = self.classes or tuple(np.unique(names).tolist())
        numbers = {name: number for number, name in enumerate(classes)}
        strangers = sorted(set(names.tolist()) - numbers.keys())
        if strangers:
            raise errors.ClassesMismatch(
                f"label {strangers[0]!r} is none of the {len(classes)} known classes ({', '.join(classes[:5])}"
                f"{', ...' if len(classes) > 5 else ''})"
            )
        return replace(self, classes=classes), np.array([numbers[name] for name in names.tolist()], dtype=np.int64)

    def labels(self, targets: Answers) -> NDArray[np.int64]:
        """Return the answers themselves."""
        return targets

    def noisy(
        self, targets: Answers, keys: NDArray[np.uint64], rate: float, seed: int, kind: NoiseKind = "symmetric"
    ) -> tuple[Answers, NDArray[np.bool_]]:
        """Return labels of which a share is drawn from all classes, or is of the next class; and which were drawn."""
        return add_label_noise(targets, keys, len(self.classes), rate, seed, kind)

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


def is_names(answers: ArrayLike) -> bool:
    """Return whether answers are names of classes and not numbers.

    Example:
        >>> is_names(["cat", "dog"]), is_names([0, 1])
        (True, False)
    """
    array = np.asarray(answers)
    return (
        array.ndim == 1
        and (array.dtype.kind in "UT" or array.dtype == object)
        and all(isinstance(one, str) for one in array.tolist())
    )


def numbered_classes(labels: NDArray[np.int64], where: str) -> tuple[str, ...]:
    """Return the names of classes that are only numbered: 0 up to the largest label.

    Args:
        labels: One class index per sample, shape `[n]`.
        where: Name of the labels in errors.

    Raises:
        LabelInvalid: The largest number would make far more classes than there are samples.

    Example:
        >>> numbered_classes(np.array([0, 2]), "labels.npy")
        ('0', '1', '2')
    """
    count = int(labels.max(initial=-1)) + 1
    if count > max(_MOST_NUMBERED, 10 * len(labels)):
        raise errors.LabelInvalid(
            f"{where} has the label {count - 1}, so {count} classes for {len(labels)} samples; number the classes from "
            "0 without gaps, or write their names"
        )
    return tuple(map(str, range(count)))


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
