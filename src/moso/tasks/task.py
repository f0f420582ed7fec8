"""What a network is to learn: the one object that knows what an answer is.

A data set owns a task; everything above asks it and tests nothing by itself: the loss and the metric, how many outputs
a network needs, which classes there are if any, what noise in answers would be, what an answer looks like in a table
and a sample on the page, and what the run directory notes of it. A new task is a subclass in a file of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import nn

from moso import errors
from moso.tasks.metric import Batch, Metric, PerSample, mean_loss

Loss = PerSample
# A column of answers, `[n, ...]`.
Answers = NDArray[Any]
# How many numbers a network gives per sample, or the shape of what it gives.
Outputs = int | tuple[int, ...]


class Previewed(Protocol):
    """Samples as far as a preview looks at them."""

    def picture(self, position: int) -> Image.Image | None:
        """A sample as a picture, if it is one."""

    def text(self, position: int) -> str | None:
        """A sample as a text, if it is one."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What is learned; a subclass has a `name` and `losses`, and overrides what differs from these defaults.

    Attributes:
        name: What the run directory and `--task` call it.
        answers_are_classes: Whether an answer *is* the class of its sample.
        answers_are_normalised: Whether networks meet answers shifted and scaled by the training split's.
        answers_survive_crops: Whether an answer stays right when its picture is cropped or mirrored; masks do not.
        answers_are_read: Whether answers are a column; otherwise they stay inside samples, where only the loss looks.
        counted_as: One and several of what a network predicts, for people.
        classes: Names of the classes that samples belong to, by index; none where there are no classes.
        width: How many numbers an answer has, or what shape a network's output; 0 where an answer is a class.
        own_loss: A loss of the user's in place of the task's.
        judge: A metric in place of the task's.
    """

    name: ClassVar[str]
    answers_are_classes: ClassVar[bool] = False
    answers_are_normalised: ClassVar[bool] = False
    answers_survive_crops: ClassVar[bool] = True
    answers_are_read: ClassVar[bool] = True
    counted_as: ClassVar[tuple[str, str]] = ("output", "outputs")

    classes: tuple[str, ...] = ()
    width: Outputs = 0
    own_loss: Loss | None = None
    judge: Metric | None = None

    @property
    def outputs(self) -> Outputs:
        """How many numbers a network gives per sample, or the shape of what it gives."""
        return self.width or len(self.classes)

    @abstractmethod
    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """One loss per sample, `[batch]`; a sample's loss must not depend on the others of its batch."""

    @property
    def loss(self) -> Loss:
        """What is minimised: the user's loss, or the task's own."""
        return self.own_loss or self.losses

    def usual_metric(self, answers: Answers) -> Metric:
        """What a network is judged by unless the user brought a metric; `answers` are those of the test, as met."""
        return mean_loss(self.loss)

    def metric(self, answers: Answers) -> Metric:
        """What a network is judged by on a test with these answers, `[n, ...]`."""
        return self.judge or self.usual_metric(answers)

    @property
    def by_class(self) -> bool:
        """Whether samples belong to classes: partitions are stratified by them, selections balanced, tables split."""
        return self.answers_are_classes or bool(self.classes)

    @property
    def is_own(self) -> bool:
        """Whether part of it is a function of the user's, which no file holds."""
        return self.own_loss is not None or self.judge is not None

    @property
    def column(self) -> str:
        """What the column of answers is called in exported tables."""
        return "label" if self.answers_are_classes else "target"

    def read(self, answers: ArrayLike) -> tuple[Self, Answers]:
        """Check a column of answers.

        Args:
            answers: One answer per sample, `[n, ...]`, as the user or the source has them.

        Returns:
            The task that knows such answers (names of classes, numbers per sample), and the column `[n, ...]`.

        Raises:
            MosoError: An answer is missing, or is none for this task.
        """
        return self, np.asarray(answers)

    def labels(self, targets: Answers) -> NDArray[np.int64]:
        """One class index per answer, `[n]`; all 0 where answers are no classes."""
        return np.zeros(len(targets), dtype=np.int64)

    def noisy(
        self, targets: Answers, keys: NDArray[np.uint64], rate: float, seed: int
    ) -> tuple[Answers, NDArray[np.bool_]]:
        """Answers of which a share is drawn at random, and which samples were drawn."""
        raise errors.ClassesRequired(f"label noise is for classes; the answers of task {self.name!r} are none")

    def check_learnable(self, targets: Answers, name: str) -> None:  # noqa: B027 (most tasks refuse nothing)
        """Refuse a training split of the data set called `name` that leaves nothing to learn."""

    def check_outputs(self) -> None:
        """Refuse a task that no network with a name can be built for."""
        if self.answers_are_classes and len(self.classes) < 2:
            raise errors.TooFewClasses(f"a classifier needs at least 2 classes, not {len(self.classes)}")
        if not self.outputs:
            raise errors.ModelUnsuitable(
                f"task {self.name!r} does not say how many outputs a network has; bring your own network"
            )

    def cells(self, targets: Answers) -> pa.Array:
        """Answers as a column of `scores.parquet`, which the page shows: numbers, lists of them, texts, or nothing."""
        return pa.array(targets.tolist())

    def preview(self, samples: Previewed, position: int) -> Image.Image | str | None:
        """What a person looks at of a sample: a picture or a text; None where it is shown as its numbers."""
        text = samples.text(position)
        return samples.picture(position) if text is None else text

    @property
    def learned(self) -> str:
        """What is learned, in a few words."""
        if self.classes:
            return _counted(len(self.classes), "class", "classes")
        return _counted(self.width, *self.counted_as) if isinstance(self.width, int) and self.width else "no classes"

    def note(self) -> dict[str, Any]:
        """What the run directory holds of the task, enough for `rebuilt`."""
        return {"task": self.name, "classes": list(self.classes), "outputs": self.outputs}

    def rebuilt(self, note: dict[str, Any]) -> Self:
        """The task that left a note."""
        noted = note["outputs"]
        return replace(self, classes=tuple(note["classes"]), width=tuple(noted) if isinstance(noted, list) else noted)


def unread(count: int) -> NDArray[np.float32]:
    """The column of answers that were not looked at, `[count, 0]`."""
    return np.empty((count, 0), dtype=np.float32)


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
