"""The user's own task: what an answer is only their loss knows."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.tasks.task import Outputs, Task


@dataclass(frozen=True, kw_only=True)
class OwnTask(Task):
    """Samples of any structure under a loss of the user's, judged by it; also a task of another program, as noted.

    >>> OwnTask(own_loss=lambda model, batch: model(batch).mean(1)).by_class
    False
    """

    name: ClassVar[str] = "own"
    answers_are_read: ClassVar[bool] = False

    noted_outputs: Outputs = 0

    @property
    def outputs(self) -> Outputs:
        """What the run directory says; otherwise one per class, if there are classes."""
        return self.noted_outputs or len(self.classes)

    def losses(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Refuse: there is no loss but the user's."""
        raise errors.DataInMemory("this task was made with a loss of its maker's own, which no file holds; give loss=")

    def cells(self, targets: NDArray[Any]) -> pa.Array:
        """Nothing: answers were not looked at."""
        return pa.nulls(len(targets))

    def rebuilt(self, note: dict[str, Any]) -> Task:
        """The task that left a note."""
        outputs = note["outputs"]
        noted = tuple(outputs) if isinstance(outputs, list) else outputs
        return replace(self, classes=tuple(note["classes"]), noted_outputs=noted)
