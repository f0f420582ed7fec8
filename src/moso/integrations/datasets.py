"""Hugging Face datasets: scores as a column, and the kept rows as a dataset that reads as fast as the original.

dataset = with_scores(dataset, scores)
pruned = kept_rows(dataset, moso.select(scores, ratio=0.3, labels=dataset["label"]))
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.integrations.needed import needed

with needed("datasets"):
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict


def with_scores(dataset: Dataset, scores: Sequence[float] | NDArray[np.float64], column: str = "moso") -> Dataset:
    """Return the dataset with its scores as a column of float64, one per row.

    Args:
        dataset: One split.
        scores: One float per row, in the order of the rows; high means keep.
        column: Name of the new column.

    Raises:
        MosoError: ``wrong-type`` for anything but one split, ``length-mismatch``, ``name-taken``.

    Example:
        >>> dataset = Dataset.from_dict({"text": ["a", "b"]})
        >>> with_scores(dataset, [0.5, -0.1])["moso"][:]
        [0.5, -0.1]
    """
    _check_split(dataset)
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(dataset),):
        raise errors.LengthMismatch(
            f"the dataset has {len(dataset)} rows but the scores are {values.shape}; give one score per row"
        )
    if column in dataset.column_names:
        raise errors.NameTaken(f"the dataset has a column {column!r} already; give column= another name")
    return dataset.add_column(column, values)


def kept_rows(dataset: Dataset, kept: Sequence[int] | NDArray[np.int64], *, flatten: bool = True) -> Dataset:
    """Return the rows that stay, in their order.

    `Dataset.select` leaves the removed rows on the disk behind a list of indices, through which every read goes;
    `flatten` writes the kept rows out once, so that training reads them in sequence.

    Args:
        dataset: One split.
        kept: Positions of the rows that stay, as `moso.select` returns them.
        flatten: Write the kept rows out, into the dataset's cache (or memory, where the dataset is).

    Raises:
        MosoError: ``wrong-type`` for anything but one split, ``sample-unknown`` for a position that is no row,
            ``ids-not-unique`` for a row that is named twice, ``settings-conflict`` with a search index attached.

    Example:
        >>> kept_rows(Dataset.from_dict({"text": ["a", "b", "c"]}), [2, 0])["text"][:]
        ['a', 'c']
    """
    _check_split(dataset)
    positions = np.sort(np.asarray(kept, dtype=np.int64).reshape(-1))
    strange = positions[(positions < 0) | (positions >= len(dataset))]
    if strange.size:
        raise errors.SampleUnknown(f"there is no row {strange[0]} in a dataset of {len(dataset)} rows")
    twice = positions[:-1][positions[1:] == positions[:-1]]
    if twice.size:
        raise errors.IdsNotUnique(f"row {twice[0]} is kept twice; give each position once")
    if dataset.list_indexes():
        raise errors.SettingsConflict(
            f"the dataset has a search index on {dataset.list_indexes()[0]!r}, which would point at other rows; "
            "remove it with dataset.drop_index(...) and build it again on the kept rows"
        )
    chosen = dataset.select(positions)
    is_slice = not positions.size or positions[-1] - positions[0] + 1 == len(positions)
    return chosen.flatten_indices() if flatten and not is_slice else chosen


def _check_split(dataset: Any) -> None:
    if isinstance(dataset, DatasetDict | IterableDatasetDict):
        split = next(iter(dataset), "train")
        raise errors.WrongType(f"a {type(dataset).__name__} was given; give one of its splits, dataset[{split!r}]")
    if isinstance(dataset, IterableDataset):
        raise errors.WrongType(
            "an IterableDataset has no rows by position; write it out with "
            "Dataset.from_generator(lambda: iter(dataset)), or keep rows by filter(..., with_indices=True)"
        )
    if not isinstance(dataset, Dataset):
        raise errors.WrongType(f"{type(dataset).__name__} is no datasets.Dataset")
