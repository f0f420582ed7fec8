"""Export as Parquet that `parquet:`, `text:` and Hugging Face `datasets` can open, including class names.

Images are in the layout of Hugging Face, `image: struct<bytes, path>`; texts are a column `text`; numbers are one
column per feature, named as in the source if that is a Parquet file. Further columns are `label` (the class index) or
`target` (the number to predict), `id` (the id of the sample) and, for a weighted selection, `sample_weight`, which no
reader of ours takes for a feature.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from moso.data.sources.location import split_options
from moso.data.sources.parquet import find_files
from moso.data.sources.table_columns import WEIGHT_NAME, choose_columns
from moso.export.split import Row, Split
from moso.progress import Progress
from moso.tasks import Unlabelled

_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
# With more features than this, a single column of lists replaces one column per feature.
MOST_COLUMNS = 1_000


def write_parquet(split: Split, dataset: str, path: Path, progress: Progress) -> None:
    """Write one split as a Parquet file.

    Args:
        split: The samples to export.
        dataset: Name or path by which the data was opened.
        path: The file to write.
        progress: Called as work advances.
    """
    inputs = _input_schema(split, dataset)
    answers = [_answer_field(split)] if split.samples.task.has_answers else []
    fields = [*inputs, *answers, pa.field("id", split.samples.ids.type)]
    schema = pa.schema(fields if split.weights is None else [*fields, pa.field(WEIGHT_NAME, pa.float64())])
    described = {field.name: _description(field.type) for field in schema}
    if split.samples.task.answers_are_classes:
        described[answers[0].name] = {"names": list(split.samples.classes), "_type": "ClassLabel"}
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": described}})})
    done = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in split.blocks():
            columns = _inputs(split, rows, inputs)
            own = [pa.array([row.answer for row in rows], answer.type) for answer in answers]
            own.append(pa.array([row.id for row in rows], split.samples.ids.type))
            if split.weights is not None:
                own.append(pa.array([row.weight for row in rows], pa.float64()))
            writer.write_table(pa.Table.from_arrays([*columns, *own], schema=schema))
            done += len(rows)
            progress("exporting", done, len(split.positions))


def _input_schema(split: Split, dataset: str) -> pa.Schema:
    if split.has_pictures:
        return pa.schema({"image": _IMAGE})
    return pa.schema({"text": pa.string()}) if split.has_texts else _number_schema(split, dataset)


def _answer_field(split: Split) -> pa.Field:
    targets = split.samples.targets
    return pa.field(split.samples.task.column, _lists(pa.from_numpy_dtype(targets.dtype), targets.shape[1:]))


def _lists(kind: pa.DataType, sizes: Sequence[int]) -> pa.DataType:
    """Return the type of nested fixed-size lists of these sizes."""
    for size in reversed(sizes):
        kind = pa.list_(kind, size)
    return kind


def _inputs(split: Split, rows: list[Row], schema: pa.Schema) -> list[pa.Array]:
    if split.has_pictures:
        return _images(split, rows)
    if split.has_texts:
        return [pa.array([split.originals.text(row.id) for row in rows], pa.string())]
    return _numbers(split, rows, schema)


def _images(split: Split, rows: list[Row]) -> list[pa.Array]:
    images = []
    for row in rows:
        content, suffix = split.image(row.id)
        encoded = content.read_bytes() if isinstance(content, Path) else content
        images.append({"bytes": encoded, "path": row.id if isinstance(row.id, str) else f"{row.id}{suffix}"})
    return [pa.array(images, _IMAGE)]


def _number_schema(split: Split, dataset: str) -> pa.Schema:
    shape, has_answers = split.originals.samples.shape, split.samples.task.has_answers
    if len(shape) == 1 and shape[0] <= MOST_COLUMNS:
        plain = [f"feature_{number}" for number in range(shape[0])]
        return pa.schema({name: pa.float32() for name in _own_names(dataset, shape[0], has_answers) or plain})
    return pa.schema({"features": _lists(pa.float32(), shape)})


def _own_names(dataset: str, count: int, has_answers: bool) -> list[str]:
    """Return the names of the feature columns of a Parquet source, opened with or without answers.

    Returns no names if columns and features do not match one to one, or if the defaults of `parquet:` would not find
    the same columns in the exported file.
    """
    scheme, _, location = dataset.partition(":")
    if scheme != "parquet":
        return []
    place, options = (location, {}) if Path(location).exists() else split_options(location)
    file = find_files(Path(place).expanduser())[0][0]
    task = "" if has_answers else Unlabelled.name
    names = list(choose_columns(pq.read_schema(file), options, {}, str(file), task).features)
    if len(names) != count:
        return []
    own = pa.schema({**{name: pa.float32() for name in names}, "label": pa.int64(), "id": pa.int64()})
    return names if list(choose_columns(own, {}, {}, str(file)).features) == names else []


def _numbers(split: Split, rows: list[Row], schema: pa.Schema) -> list[pa.Array]:
    values = split.numbers(rows)
    if schema.names == ["features"] and pa.types.is_fixed_size_list(schema.field("features").type):
        return [_nested(values, schema.field("features").type)]
    return [pa.array(np.ascontiguousarray(column)) for column in values.T]


def _nested(values: NDArray[np.float32], kind: pa.DataType) -> pa.Array:
    """Convert an array ``[n, a, b]`` to n lists of a lists of b numbers."""
    sizes = values.shape[1:]
    array: Any = pa.array(values.reshape(-1))
    for size in reversed(sizes):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array.cast(kind)


def _description(kind: pa.DataType) -> dict[str, Any]:
    """Return the description of a column in the format of Hugging Face `datasets`."""
    if kind == _IMAGE:
        return {"_type": "Image"}
    if pa.types.is_fixed_size_list(kind):
        return {"feature": _description(kind.value_type), "length": kind.list_size, "_type": "Sequence"}
    names = {pa.float32(): "float32", pa.int64(): "int64", pa.string(): "string"}
    return {"dtype": names.get(kind, str(kind)), "_type": "Value"}
