"""Columns in memory: a pair `(inputs, answers)` as scikit-learn's `X, y`, or a dictionary of columns.

A column is a numpy array, a torch tensor, a list, a pandas or polars series or frame, or a sparse matrix. Inputs are
numbers, pictures (uint8 `[n, channels, height, width]` or PIL) or texts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from PIL import Image

from moso import errors
from moso.data.given.given import Given, Positions
from moso.data.given.pictures import stacked_pictures
from moso.data.readers import MemoryReader, Reader
from moso.data.tokenizer import TextReader

LABEL_NAMES = ("label", "labels", "target", "targets", "y", "class", "fine_label")


class Rows(Sequence[Any]):
    """Columns as a map-style dataset: item `i` is the tuple of row `i` of every column."""

    def __init__(self, *columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return length(self.columns[0])

    def __getitem__(self, position: Any) -> Any:
        if not 0 <= position < len(self):
            raise IndexError(position)
        return tuple(column[position] for column in self.columns)


def from_pair(data: Sequence[Any]) -> Given:
    """Return a pair `(inputs, answers)` of columns.

    Raises:
        WrongType: The inputs are neither numbers, pictures nor texts.
        LengthMismatch: The two have different lengths.
        DataEmpty: There are no samples.

    Example:
        >>> given = from_pair((np.zeros((3, 2)), ["a", "b", "a"]))
        >>> given.count, given.take(np.array([0, 2]))[1]
        (3, ['a', 'a'])
    """
    inputs, answers = data
    check_lengths({"inputs": inputs, "answers": answers})
    reader, column = input_reader(inputs), plain(answers)
    plain_inputs = reader.inputs if isinstance(reader, MemoryReader) else inputs
    return Given(
        "a pair of arrays",
        length(inputs),
        Rows(plain_inputs, column),
        lambda kept: (take_rows(inputs, kept), take_rows(answers, kept)),
        column,
        reader=reader,
        trained_as_given=isinstance(reader, MemoryReader) and not holds_pictures(inputs),
    )


def from_inputs(inputs: Any) -> Given:
    """Return a column of inputs without answers.

    Raises:
        WrongType: The inputs are neither numbers, pictures nor texts.

    Example:
        >>> given = from_inputs(np.zeros((3, 2)))
        >>> given.count, given.answers is None, given.take(np.array([0, 2])).shape
        (3, True, (2, 2))
    """
    reader = input_reader(inputs)
    return Given(
        "inputs without labels",
        length(inputs),
        Rows(reader.inputs if isinstance(reader, MemoryReader) else inputs),
        lambda kept: take_rows(inputs, kept),
        reader=reader,
        pairs=False,
    )


def from_columns(data: Mapping[str, Any], label: str | None = None, columns: Sequence[str] = ()) -> Given:
    """Return a dictionary of columns of equal length, of which one holds the answers.

    Args:
        data: Columns by name.
        label: Name of the column of answers; by default the first of the usual names.
        columns: The columns of an input, in order; by default all others.

    Raises:
        ColumnMissing: No column can be the answers, or one of `columns` is missing.
        LengthMismatch: The columns have different lengths.
        WrongType: The other columns cannot be read as inputs.
    """
    check_lengths(data)
    name = label_name(list(data), label, "the dictionary")
    used = [label_name(list(data), column, "the dictionary") for column in columns]
    others = {column: data[column] for column in used or data if column != name}
    if not others:
        raise errors.ColumnMissing(f"the dictionary has no column to learn from beside {name!r}")
    inputs = next(iter(others.values()))
    if len(others) > 1:
        arrays = [np.asarray(plain(values)) for values in others.values()]
        odd = [one for one, values in zip(others, arrays, strict=True) if values.dtype.kind not in "iufb"]
        if odd:
            raise errors.WrongType(f"column {odd[0]!r} of the dictionary holds no numbers; leave it out or encode it")
        inputs = np.concatenate([values.reshape(len(values), -1).astype(np.float32) for values in arrays], axis=1)
    pair = from_pair((inputs, data[name]))
    return Given(
        "a dictionary of columns",
        pair.count,
        pair.dataset,
        lambda kept: {column: take_rows(values, kept) for column, values in data.items()},
        pair.answers,
        reader=pair.reader,
        columns=tuple(others),
        trained_as_given=pair.trained_as_given,
    )


def label_name(names: Sequence[str], asked: str | None, where: str) -> str:
    """Return the column of answers: the one asked for, or the first of the usual names.

    Raises:
        ColumnMissing: There is none.
    """
    if asked is not None:
        if asked not in names:
            raise errors.ColumnMissing(f"{where} has no column {asked!r}; it has: {', '.join(map(str, names))}")
        return asked
    found = next((name for name in LABEL_NAMES if name in names), None)
    if found is None:
        raise errors.ColumnMissing(
            f"none of the columns of {where} is called {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}; name the "
            f"column of the labels with labels=, one of: {', '.join(map(str, names))}"
        )
    return found


def input_reader(inputs: Any) -> Reader:
    """Return the reader of a column of inputs.

    Raises:
        WrongType: They are neither numbers, pictures nor texts.
        DataEmpty: There are none.
    """
    if length(inputs) == 0:
        raise errors.DataEmpty("the data set is empty")
    if holds_pictures(inputs):
        return MemoryReader(stacked_pictures(inputs))
    array = _array(inputs)
    if array.dtype.kind in "OUT" and all(isinstance(one, str) for one in array.ravel()[:100]) and array.ndim == 1:
        return TextReader(pa.array([str(one) for one in array], type=pa.string()))
    if array.dtype.kind not in "iufb":
        raise errors.WrongType(f"inputs must be numbers, pictures or texts, not {array.dtype}")
    return MemoryReader(array if array.dtype == np.uint8 and array.ndim == 4 else array.astype(np.float32))


def holds_pictures(inputs: Any) -> bool:
    """Return whether a column holds PIL pictures."""
    return isinstance(inputs, list | tuple) and bool(inputs) and isinstance(inputs[0], Image.Image)


def _array(inputs: Any) -> NDArray[Any]:
    try:
        return np.asarray(plain(inputs))
    except ValueError as problem:  # a list of arrays of unequal shapes
        raise errors.ShapeMismatch(f"inputs have unequal shapes and make no array: {problem}") from problem


def plain(column: Any) -> Any:
    """Return a column as something that numpy reads: tensors leave their device, sparse matrices become dense."""
    if isinstance(column, torch.Tensor):
        return column.detach().cpu().numpy()
    if hasattr(column, "toarray"):
        return column.toarray()
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def length(column: Any) -> int:
    """Return the number of rows of a column; sparse matrices have no `len`."""
    return int(column.shape[0]) if hasattr(column, "shape") and len(column.shape) else len(column)


def check_lengths(columns: Mapping[str, Any]) -> None:
    """Refuse columns of different lengths.

    Raises:
        LengthMismatch: With the first two that differ.
    """
    found = {name: length(column) for name, column in columns.items()}
    first, count = next(iter(found.items()))
    for name, other in found.items():
        if other != count:
            raise errors.LengthMismatch(f"there are {count} {first} but {other} {name}")


def take_rows(column: Any, positions: Positions) -> Any:
    """Return the same kind of column with these rows only.

    Example:
        >>> take_rows(["a", "b", "c"], np.array([0, 2])), take_rows(torch.arange(3), np.array([1]))
        (['a', 'c'], tensor([1]))
    """
    if isinstance(column, list | tuple):
        return type(column)(column[position] for position in positions.tolist())
    if isinstance(column, torch.Tensor):
        return column[torch.from_numpy(positions).to(column.device)]
    if hasattr(column, "iloc"):
        return column.iloc[positions]
    return column[positions]
