"""Which kind of data a user gave, and what they may have meant by what is no data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from moso import errors
from moso.data.given.given import Given
from moso.data.given.given_arrays import from_columns, from_pair
from moso.data.given.given_items import from_items
from moso.data.given.given_streams import from_stream, is_stream
from moso.data.given.given_tables import from_frame, from_hugging_face, is_frame, is_hugging_face
from moso.data.views import is_array_pair
from moso.progress import Progress, silent

_TESTS = ("test", "validation", "valid")


def look_at(
    data: Any,
    *,
    label: str | None = None,
    columns: Sequence[str] = (),
    as_items: bool = False,
    read_answers: bool = True,
    progress: Progress = silent,
    loader_workers: int = 0,
) -> Given:
    """Recognise a user's data.

    Args:
        data: A pair or dictionary of columns, a frame, a Hugging Face dataset, a map-style dataset, a stream.
        label: Name of the column or entry of the answers; by default one of the usual names.
        columns: Names of the columns of an input, in order, as another split has them; by default all that can be.
        as_items: Whether a loss or a collate function of the user's takes items as the dataset gives them.
        read_answers: Whether to look for the answers of a map-style dataset.
        progress: Called while labels are read.
        loader_workers: Processes that read them.

    Raises:
        WrongType: The data is of no kind that can be read.
        MosoError: ``data-empty``, ``length-mismatch``, ``column-missing``, ``column-type`` and others of its kind.

    Example:
        >>> import numpy as np
        >>> look_at((np.zeros((3, 2)), [0, 1, 0])).kind, look_at([{"x": 1.0, "label": 0}]).answers
        ('a pair of arrays', [0])
    """
    _check(data)
    if is_array_pair(data):
        return from_pair(data)
    if isinstance(data, Mapping):
        return from_columns(data, label, columns)
    if is_frame(data):
        return from_frame(data, label, columns)
    if is_hugging_face(data) and not as_items and not _is_transformed(data):
        return from_hugging_face(data, label, columns)
    if is_stream(data):
        return from_stream(data, progress=progress, label=label, read_answers=read_answers)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return from_items(
            data, progress=progress, loader_workers=loader_workers, label=label, read_answers=read_answers
        )
    hint = "; an iterator can be read only once: give list(...) of it" if hasattr(data, "__next__") else ""
    raise errors.WrongType(
        f"data of type {type(data).__name__} is not a map-style dataset (it needs __len__ and __getitem__), a pair of "
        f"arrays, a frame or a stream{hint}"
    )


def _is_transformed(dataset: Any) -> bool:
    """Return whether items of a Hugging Face dataset leave it as tensors or through a transform of the user's."""
    return (getattr(dataset, "format", None) or {}).get("type") is not None


def _check(data: Any) -> None:
    """Refuse what users give in place of data, with what they may have meant."""
    if isinstance(data, str | Path):
        raise errors.WrongType(
            f"{str(data)!r} is a name and not data; open it first, for example with torchvision's ImageFolder or with "
            "datasets.load_dataset"
        )
    if isinstance(data, DataLoader):
        raise errors.WrongType(
            "a DataLoader shuffles and batches by itself; give its dataset (loader.dataset), and its collate_fn as "
            "collate="
        )
    if isinstance(data, torch.Tensor) or type(data).__module__ == "numpy":
        raise errors.WrongType(
            f"one array of shape {tuple(data.shape)} has no labels; give a pair (inputs, labels) of arrays, or "
            "task='unlabelled'"
        )


def splits_of(data: Any) -> dict[str, Any]:
    """Return the splits of a `DatasetDict` by name, or {} if data is not one.

    Raises:
        SplitMissing: There are splits, but none is called train.
    """
    if not (isinstance(data, Mapping) and type(data).__module__.startswith("datasets.")):
        return {}
    if "train" not in data:
        raise errors.SplitMissing(f"the DatasetDict has no split 'train'; it has: {', '.join(map(str, data))}")
    test = next((data[name] for name in _TESTS if name in data), None)
    found = {"train": data["train"], "test": test, "validation": data.get("validation", data.get("valid"))}
    return {name: split for name, split in found.items() if split is not None}
