"""The user's own task: only their loss knows what an answer is."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import torch
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.task import Answers, Task


@dataclass(frozen=True, kw_only=True)
class OwnTask(Task):
    """Samples of any structure under the user's own loss; also the fallback for a noted task that is not installed.

    Example:
        >>> OwnTask(own_loss=lambda model, batch: model(batch).mean(1)).by_class
        False
    """

    name: ClassVar[str] = "own"
    answers_are_read: ClassVar[bool] = False

    def losses(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Raise: the only loss is the user's.

        Raises:
            DataInMemory: Always.
        """
        raise errors.DataInMemory(
            "this task was made with a loss function of the user's, which no file holds; give loss="
        )

    def cells(self, targets: Answers) -> pa.Array:
        """Return nulls, because answers were not read."""
        return pa.nulls(len(targets))
