"""Unlabelled data: samples without answers. Nothing is learned or measured, and samples are told apart by features."""

from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa
import torch
from numpy.typing import ArrayLike
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.task import Answers, Outputs, Task, unread


@dataclass(frozen=True, kw_only=True)
class Unlabelled(Task):
    """Samples that have no answers; networks by name get one output, which is cut off where features are learned.

    Example:
        >>> task, answers = Unlabelled().read([None, None])
        >>> task.by_class, task.learned, answers.shape
        (False, 'no labels', (2, 0))
    """

    name: ClassVar[str] = "unlabelled"
    answers_are_read: ClassVar[bool] = False
    has_answers: ClassVar[bool] = False

    width: Outputs = 1

    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Raise: without answers nothing can be wrong.

        Raises:
            LabelsMissing: Always.
        """
        raise errors.LabelsMissing("unlabelled data has no loss; choose a method that trains nothing on labels")

    def read(self, answers: ArrayLike) -> tuple[Self, Answers]:
        """Return the task, and no answer for each of the given ones, `[n, 0]`."""
        return self, unread(len(answers))  # type: ignore[arg-type]

    def cells(self, targets: Answers) -> pa.Array:
        """Return nulls."""
        return pa.nulls(len(targets))

    @property
    def learned(self) -> str:
        """What is learned: nothing."""
        return "no labels"
