"""The type of a task: what a network is to learn, and what an answer is.

A data set owns a task. All other code asks the task and does not inspect answers itself: for the loss and the metric,
the number of outputs of a network, the classes if there are any, noise in answers, how an answer appears in a table and
a sample on the page, and what the run directory notes. A new task is a subclass in a file of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self, TypedDict

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.columns import Array
from moso.tasks.label_noise import NoiseKind
from moso.tasks.metric import Metric, PerSample, mean_loss

Loss = PerSample
# One answer per sample, `[n, ...]`.
Answers = Array
# Number of outputs of a network per sample, or the shape of its output.
Outputs = int | tuple[int, ...]


class TaskNote(TypedDict, total=False):
    """What a run directory stores of a task.

    Attributes:
        task: Name of the task.
        classes: Names of the classes, by index.
        outputs: Number of outputs of a network per sample, or the shape of its output.
        numbers: In notes of older runs, which have no name, whether numbers are predicted.
    """

    task: str
    classes: list[str]
    outputs: int | tuple[int, ...] | list[int]
    numbers: bool


class Previewed(Protocol):
    """The part of samples that a preview needs."""

    def picture(self, position: int) -> Image.Image | None:
        """Return a sample as a picture, or None if it is not one."""

    def text(self, position: int) -> str | None:
        """Return a sample as a text, or None if it is not one."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What is learned; a subclass defines `name` and `losses`, and overrides these defaults as needed.

    Attributes:
        name: Name in the run directory and of `--task`.
        answers_are_classes: Whether an answer *is* the class of its sample.
        answers_are_normalised: Whether networks meet answers normalised with statistics of the training split.
        answers_are_texts: Whether answers are texts, which networks meet as token ids.
        answers_survive_crops: Whether an answer stays right when its picture is cropped or mirrored; a mask does not.
        answers_are_read: Whether answers are read as a column; otherwise only the loss looks at them, inside samples.
        has_answers: Whether samples have answers at all; without them nothing is retrained or measured.
        counted_as: Singular and plural of what a network predicts, for display.
        classes: Names of the classes that samples belong to, by index; empty if there are no classes.
        width: Number of numbers per answer, or shape of a network's output; 0 if an answer is a class.
        own_loss: The user's loss, in place of the task's.
        judge: The user's metric, in place of the task's.
    """

    name: ClassVar[str]
    answers_are_classes: ClassVar[bool] = False
    answers_are_normalised: ClassVar[bool] = False
    answers_are_texts: ClassVar[bool] = False
    answers_survive_crops: ClassVar[bool] = True
    answers_are_read: ClassVar[bool] = True
    has_answers: ClassVar[bool] = True
    counted_as: ClassVar[tuple[str, str]] = ("output", "outputs")

    classes: tuple[str, ...] = ()
    width: Outputs = 0
    own_loss: Loss | None = None
    judge: Metric | None = None

    @property
    def outputs(self) -> Outputs:
        """Number of outputs of a network per sample, or the shape of its output."""
        return self.width or len(self.classes)

    @abstractmethod
    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return one loss per sample, shape `[batch]`; it must not depend on the other samples of the batch."""

    @property
    def loss(self) -> Loss:
        """The loss to minimise: the user's, or the task's own."""
        return self.own_loss or self.losses

    def usual_metric(self, answers: Answers) -> Metric:
        """Return the default metric; `answers` are those of the test split, `[n, ...]`, in the units of batches."""
        return mean_loss(self.loss)

    def metric(self, answers: Answers) -> Metric:
        """Return the user's metric, or the default one for a test split with these answers, `[n, ...]`."""
        return self.judge or self.usual_metric(answers)

    @property
    def by_class(self) -> bool:
        """Whether samples belong to classes, for stratified partitions, balanced selections and tables per class."""
        return self.answers_are_classes or bool(self.classes)

    @property
    def is_own(self) -> bool:
        """Whether loss or metric is a function of the user's, which no file holds."""
        return self.own_loss is not None or self.judge is not None

    @property
    def column(self) -> str:
        """Name of the column of answers in exported tables."""
        return "label" if self.answers_are_classes else "target"

    def read(self, answers: ArrayLike) -> tuple[Self, Answers]:
        """Check a column of answers.

        Args:
            answers: One answer per sample, `[n, ...]`, as the user or the source has them.

        Returns:
            The task that knows such answers (names of classes, numbers per sample), and the column `[n, ...]`.

        Raises:
            MosoError: An answer is missing or not valid for this task.
        """
        return self, np.asarray(answers)

    def labels(self, targets: Answers) -> NDArray[np.int64]:
        """Return one class index per answer, `[n]`; all 0 if answers are not classes."""
        return np.zeros(len(targets), dtype=np.int64)

    def noisy(
        self, targets: Answers, keys: NDArray[np.uint64], rate: float, seed: int, kind: NoiseKind = "symmetric"
    ) -> tuple[Answers, NDArray[np.bool_]]:
        """Return answers of which a share is drawn at random, and which samples were drawn.

        Raises:
            ClassesRequired: The answers of this task are not classes.
        """
        raise errors.ClassesRequired(f"label noise is for classes; the answers of task {self.name!r} are not classes")

    def check_learnable(self, targets: Answers, name: str) -> None:  # noqa: B027 (most tasks refuse nothing)
        """Refuse a training split of the data set called `name` that leaves nothing to learn."""

    def check_outputs(self) -> None:
        """Refuse a task for which no named network can be built.

        Raises:
            TooFewClasses: There are fewer than two classes.
            ModelUnsuitable: The number of outputs is not known.
        """
        if self.answers_are_classes and len(self.classes) < 2:
            raise errors.TooFewClasses(f"a classifier needs at least 2 classes, not {len(self.classes)}")
        if not self.outputs:
            raise errors.ModelUnsuitable(
                f"task {self.name!r} does not say how many outputs a network has; bring your own network"
            )

    def cells(self, targets: Answers) -> pa.Array:
        """Return answers as a column of `scores.parquet`, which the page shows: numbers, lists, texts or nulls."""
        return pa.array(targets.tolist())

    def preview(self, samples: Previewed, position: int) -> Image.Image | str | None:
        """Return what a person looks at of a sample: a picture or a text; None if it is shown as its numbers."""
        text = samples.text(position)
        return samples.picture(position) if text is None else text

    @property
    def learned(self) -> str:
        """What is learned, in a few words."""
        if self.classes:
            return _counted(len(self.classes), "class", "classes")
        return _counted(self.width, *self.counted_as) if isinstance(self.width, int) and self.width else "no classes"

    def note(self) -> TaskNote:
        """Return what the run directory stores of the task, enough for `rebuilt`."""
        return {"task": self.name, "classes": list(self.classes), "outputs": self.outputs}

    def rebuilt(self, note: TaskNote) -> Self:
        """Return the task that left a note."""
        noted = note["outputs"]
        return replace(self, classes=tuple(note["classes"]), width=tuple(noted) if isinstance(noted, list) else noted)


def unread(count: int) -> NDArray[np.float32]:
    """Return the column of answers that were not read, `[count, 0]`."""
    return np.empty((count, 0), dtype=np.float32)


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
