"""The answers of a user's map-style dataset, without decoding its items where the dataset has them as a column."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from moso.data.given.given_arrays import plain
from moso.data.views import ItemView, load, split_evenly
from moso.progress import Progress
from moso.randomness import generator

# Where datasets keep their labels: torchvision and most people's own, SVHN and STL10, Food101 and Flowers102.
_ATTRIBUTES = ("targets", "labels", "_labels", "y")
ANSWER_KEYS = ("labels", "label", "target", "targets")
_PROBES = 8


def find_answers(dataset: Any, progress: Progress, loader_workers: int = 0, key: str | None = None) -> list[Any] | None:
    """Return one answer per item of a dataset, or None if items have none, or answers of different shapes.

    A column that the dataset has is compared with the answers of a few items before it is believed; without one every
    item is fetched once, by loader workers if there are some.

    Args:
        dataset: The dataset; an item is a pair, or a mapping with an answer in it.
        progress: Called while items are fetched.
        loader_workers: Processes that fetch items.
        key: Name of the answer in a mapping; by default one of the usual names.

    Example:
        >>> from moso.progress import silent
        >>> find_answers(TensorDataset(torch.zeros(3, 2), torch.tensor([1, 0, 1])), silent)
        [1, 0, 1]
    """
    first = answer_of(dataset[0], key)
    if first is None:
        return None
    column = answer_column(dataset, key)
    if column is not None and len(column) == len(dataset) and _agrees(dataset, column, key):
        return column
    only = ItemView(_AnswersOnly(dataset, key), collate=list)
    found: list[Any] = []
    for batch in load(only, split_evenly(np.arange(len(dataset)), 64), workers=loader_workers):
        found += batch
        progress("reading labels", len(found), len(dataset))
    shape = np.shape(first)
    return found if all(one is not None and np.shape(one) == shape for one in found) else None


def answer_of(item: Any, key: str | None = None) -> Any:
    """Return the answer of an item as plain Python: the second of a pair, or an entry of a mapping; None if none.

    Example:
        >>> answer_of((torch.zeros(2), torch.tensor(3))), answer_of({"text": "a", "label": 1}), answer_of("a")
        (3, 1, None)
    """
    if isinstance(item, tuple | list) and len(item) == 2:
        answer = item[1]
    elif isinstance(item, Mapping):
        answer = next((item[name] for name in ((key,) if key else ANSWER_KEYS) if name in item), None)
    else:
        return None
    return answer.tolist() if isinstance(answer, torch.Tensor | np.ndarray | np.generic) else answer


def answer_column(dataset: Any, key: str | None = None) -> list[Any] | None:
    """Return the answers that a dataset has as a column, through subsets and concatenations; None if it has none."""
    if isinstance(dataset, Subset):
        inner = answer_column(dataset.dataset, key)
        return None if inner is None else [inner[position] for position in dataset.indices]
    if isinstance(dataset, ConcatDataset):
        parts = [answer_column(part, key) for part in dataset.datasets]
        return None if any(part is None for part in parts) else [one for part in parts for one in part or ()]
    if isinstance(dataset, TensorDataset):
        return dataset.tensors[1].tolist() if len(dataset.tensors) == 2 else None
    if hasattr(dataset, "column_names") and hasattr(dataset, "with_format"):
        names = [name for name in ((key,) if key else ANSWER_KEYS) if name in dataset.column_names]
        return list(dataset.with_format(None)[names[0]]) if names else None
    for name in _ATTRIBUTES:
        values = getattr(dataset, name, None)
        if values is not None and hasattr(values, "__len__") and not isinstance(values, str | Mapping):
            changed = getattr(dataset, "target_transform", None)
            column = plain(values)
            column = column.tolist() if isinstance(column, np.ndarray) else list(column)
            return column if changed is None else [changed(one) for one in column]
    return None


def _agrees(dataset: Any, column: list[Any], key: str | None) -> bool:
    """Return whether a column has the answers of the first item and of a few drawn ones."""
    count = len(dataset)
    drawn = generator("answers", count).choice(count, min(_PROBES, count), replace=False).tolist()
    for position in {0, *drawn}:
        try:
            if not np.array_equal(answer_of(dataset[position], key), column[position]):
                return False
        except (TypeError, ValueError):
            return False
    return True


class _AnswersOnly:
    """A dataset's answers, so that loader workers send no inputs between processes."""

    def __init__(self, dataset: Any, key: str | None) -> None:
        self.dataset, self.key = dataset, key

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Any:
        return answer_of(self.dataset[position], self.key)
