"""Tables: pandas and polars frames, and Hugging Face datasets without a transform; columns are inputs and labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from moso import errors
from moso.data.decoding import decode_all
from moso.data.given.given import Given, Positions
from moso.data.given.given_arrays import LABEL_NAMES, Rows, label_name
from moso.data.images import BrokenImageError, EncodedReader
from moso.data.readers import MemoryReader, Reader
from moso.data.sources.table_columns import WEIGHT_NAME, class_names, holds_images, image_columns, is_numeric
from moso.data.sources.tables import features_of, image_reader
from moso.data.tokenizer import TextReader

_ROW_NAMES = ("id", "idx", "index", "__index_level_0__", WEIGHT_NAME)


def is_frame(data: Any) -> bool:
    """Return whether data is a pandas or polars frame, judged without importing either."""
    package = type(data).__module__.partition(".")[0]
    return package in ("pandas", "polars") and hasattr(data, "columns")


def is_hugging_face(data: Any) -> bool:
    """Return whether data is a map-style dataset of Hugging Face's `datasets`."""
    return type(data).__module__.startswith("datasets.") and all(
        hasattr(data, name) for name in ("features", "select", "__getitem__")
    )


def from_frame(frame: Any, label: str | None = None, columns: Sequence[str] = ()) -> Given:
    """Return a pandas or polars frame: one column is the label, the others are numbers or one column of texts.

    Raises:
        ColumnMissing: No column can be the label, or none is left to learn from.
        ColumnType: A column is neither numbers nor texts.
    """
    where = f"the {type(frame).__module__.partition('.')[0]} frame"
    try:
        pandas = hasattr(frame, "iloc")
        table = pa.Table.from_pandas(frame, preserve_index=False) if pandas else frame.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise errors.ColumnType(f"a column of {where} mixes types and cannot be read: {problem}") from problem

    def take(kept: Positions) -> Any:
        return frame.iloc[kept] if pandas else frame[kept]

    return from_table(table, {}, label, where, take, columns)


def from_hugging_face(dataset: Any, label: str | None = None, columns: Sequence[str] = ()) -> Given:
    """Return a Hugging Face dataset: one column is the label, the others are a picture, a text or numbers.

    Raises:
        ColumnMissing: No column can be the label, or none is left to learn from.
        ColumnType: A column is neither a picture, a text nor numbers.
    """
    from datasets import Image

    described = dataset.features.to_dict()
    encoded = dataset.with_format(None)
    for name, feature in dataset.features.items():
        if isinstance(feature, Image):
            encoded = encoded.cast_column(name, Image(decode=False))
    table = encoded.with_format("arrow")[:]
    given = from_table(table, described, label, "the dataset", lambda kept: dataset.select(kept.tolist()), columns)
    return replace(given, kind="a Hugging Face dataset")


def from_table(
    table: pa.Table,
    described: Mapping[str, Any],
    label: str | None,
    where: str,
    take: Callable[[Positions], Any],
    columns: Sequence[str] = (),
) -> Given:
    """Return an Arrow table as data.

    Args:
        table: The table.
        described: Hugging Face's description of its columns, or empty.
        label: Name of the column of labels; by default the `ClassLabel` or one of the usual names.
        where: Name of the table in errors.
        take: Returns the same kind of data with some rows.
        columns: The columns of an input, in order; by default all that can be.

    Raises:
        MosoError: ``column-missing``, ``column-type``, ``data-empty``, ``labels-missing``, ``data-ambiguous``.
    """
    if table.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    name = labels_of(table.schema.names, described, label, where)
    used = _input_columns(table, described, name, where) if not columns else list(columns)
    for column in used:
        label_name(table.schema.names, column, where)
    reader = _reader(table, used, where)
    answers = _answers(table[name])
    inputs = reader.inputs if isinstance(reader, MemoryReader) else _Read(reader)
    return Given(
        f"a table of {table.num_rows} rows",
        table.num_rows,
        Rows(inputs, answers),
        take,
        answers,
        class_names(described, name) or (),
        reader,
        tuple(used),
        trained_as_given=isinstance(reader, MemoryReader) and reader.inputs.dtype != np.uint8,
    )


class _Read:
    """The inputs of a reader by position."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.shape = (len(reader),)

    def __getitem__(self, position: int) -> Any:
        return self.reader.text(position) if isinstance(self.reader, TextReader) else self.reader.picture(position)


def labels_of(names: list[str], described: Mapping[str, Any], asked: str | None, where: str) -> str:
    """Return the column of labels: the one asked for, the only `ClassLabel`, or the first of the usual names."""
    classes = [name for name in names if class_names(described, name) is not None]
    if asked is None and len(classes) == 1:
        return classes[0]
    return label_name(names, asked, where)


def _answers(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        first = next(row for row, value in enumerate(column.to_pylist()) if value is None)
        raise errors.LabelsMissing(f"the label of row {first} is missing ({column.null_count} are missing in all)")
    return np.array(column.to_pylist())


def _input_columns(table: pa.Table, described: Mapping[str, Any], label: str, where: str) -> list[str]:
    """Return the columns to learn from: the only picture, the only text, or all numbers."""
    pictures = image_columns(table.schema, described)
    if len(pictures) > 1:
        raise errors.DataAmbiguous(f"{where} has several columns of pictures ({', '.join(pictures)}); leave one")
    if pictures:
        return pictures
    others = [
        field
        for field in table.schema
        if field.name != label
        and field.name not in (*LABEL_NAMES, *_ROW_NAMES)
        and not str(field.name).endswith("_label")
        and class_names(described, field.name) is None
    ]
    if not others:
        raise errors.ColumnMissing(f"{where} has no column to learn from beside the label {label!r}")
    odd = [field for field in others if not is_numeric(field.type)]
    if odd and not (len(others) == 1 and is_text(odd[0].type)):
        raise errors.ColumnType(
            f"column {odd[0].name!r} of {where} holds {odd[0].type}, neither numbers nor the only text; leave the "
            "column out, encode it as numbers, or give loss= and collate= that read it"
        )
    return [field.name for field in others]


def _reader(table: pa.Table, columns: Sequence[str], where: str) -> Reader:
    first = table[columns[0]]
    if holds_images(first.type):
        return _decoded(image_reader(first, where))
    if is_text(first.type):
        if first.null_count:
            raise errors.ColumnType(f"column {columns[0]!r} of {where} lacks {first.null_count} texts")
        return TextReader(first.cast(pa.string()).combine_chunks())
    return MemoryReader(_as_inputs(features_of(table, columns, where)))


def _decoded(encoded: EncodedReader) -> Reader:
    done = decode_all(encoded)
    if done.broken:
        first = next(iter(done.broken.values()))
        raise BrokenImageError(f"{len(done.broken)} of {len(encoded)} pictures cannot be decoded; the first: {first}")
    return done.reader


def _as_inputs(features: Any) -> Any:
    is_picture = features.dtype == np.uint8 and features.ndim == 4
    return features if is_picture else features.astype(np.float32, copy=False)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds texts."""
    views = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind))
