"""Items of any structure as `(inputs, answers)`, the batches that the losses of our own tasks take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.data.views import ItemView
from moso.tasks.task import Answers

_ANSWER_KEYS = ("labels", "label", "target", "targets")


@dataclass(frozen=True)
class PairView:
    """A view of a user's items whose answers are a column beside them; batches are `(inputs, answers)`.

    Attributes:
        items: View of the items.
        answers: One answer per sample, `[n, ...]`.
        answer_key: Name of the answer in an item that is a mapping, if it is not one of the usual names.

    Example:
        >>> rows = [{"x": torch.ones(2), "name": name, "label": "cat"} for name in ("a", "b")]
        >>> PairView(ItemView(rows), np.array([0, 1])).batch(np.array([1]))
        (tensor([[1., 1.]]), tensor([1]))
    """

    items: ItemView
    answers: Answers
    answer_key: str | None = None
    streamed = True

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: int) -> Any:
        return self.items[position]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> tuple[Any, torch.Tensor]:
        """Return the inputs of the collated items, and the answers of the column."""
        batch = self.items.batch(positions, epoch)
        return network_inputs(batch, self.answer_key), torch.from_numpy(self.answers[positions])


def network_inputs(batch: Any, answer_key: str | None = None) -> Any:
    """Return what a network takes of a collated batch: all but the answer.

    Of a pair that is its first part. Of a mapping those are its tensors: the only one, or several by name.

    Raises:
        WrongType: Nothing is left, or it is no tensor.

    Example:
        >>> network_inputs({"ids": torch.zeros(1, 2), "mask": torch.ones(1, 2), "label": torch.zeros(1)}).keys()
        dict_keys(['ids', 'mask'])
    """
    if isinstance(batch, Mapping):
        answers = (answer_key,) if answer_key else _ANSWER_KEYS
        parts = {name: part for name, part in batch.items() if name not in answers and isinstance(part, torch.Tensor)}
        if not parts:
            raise errors.WrongType(
                f"items have no tensor beside their label (they have: {', '.join(map(str, batch))}); "
                "give collate= that makes tensors of them, or a dataset with a transform"
            )
        return next(iter(parts.values())) if len(parts) == 1 else parts
    inputs = batch[0] if isinstance(batch, tuple | list) and len(batch) == 2 else batch
    if not isinstance(inputs, torch.Tensor | Mapping):
        raise errors.WrongType(
            f"the inputs of a batch are {type(inputs).__name__} and no tensor; give collate= that makes a tensor of "
            "them, or loss= that takes them as they are"
        )
    return inputs
