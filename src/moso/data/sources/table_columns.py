"""Roles of a table's columns: which one is the answer, which ones are the input.

The answer is a class (`label`), or a number or a list of numbers if the user says so (`?target=COLUMN`). There are two
kinds of input: one column of encoded images (Hugging Face's `Image` layout, `struct<bytes, path>`, or plain binary), or
numeric columns and lists of numbers, which are concatenated to one feature vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from moso import errors
from moso.tasks import Classification, Regression, Task, Unlabelled, find_task

LABEL_NAMES = ("label", "labels", "target", "fine_label")
WEIGHT_NAME = "sample_weight"  # the column of weights in an export
# Columns that number or weigh the rows; a network must not learn from them.
_ROW_NAMES = ("id", "index", "__index_level_0__", WEIGHT_NAME)


@dataclass(frozen=True)
class Columns:
    """The columns to read: the answer with its task, and either an image or features."""

    label: str
    task: Task
    image: str | None
    features: tuple[str, ...] = ()

    def all(self) -> list[str]:
        """Return every column to be read; the label is empty where there is none."""
        answers = [self.label] if self.label else []
        return [*answers, self.image] if self.image is not None else [*answers, *self.features]


def choose_columns(
    schema: pa.Schema, options: Mapping[str, str], described: Mapping[str, object], where: str, task: str = ""
) -> Columns:
    """Return the columns that the options name, or else those whose names and types fit.

    Args:
        schema: Schema of the table.
        options: Options of the location.
        described: Hugging Face's description of the columns; may be empty.
        where: Name of the table in errors.
        task: Name of the task; by default the one that fits the options.

    Raises:
        ColumnMissing: A named column does not exist, or no column fits.
        ColumnType: A column holds neither images nor numbers.
        DataAmbiguous: Several columns hold images.

    Example:
        >>> schema = pa.schema({"x": pa.float32(), "y": pa.float32(), "id": pa.int64(), "label": pa.int64()})
        >>> choose_columns(schema, {}, {}, "points.parquet").features
        ('x', 'y')
    """
    named = [options[name] for name in ("label", "target", "image") if name in options]
    for column in [*named, *_listed(options)]:
        if column not in schema.names:
            raise errors.ColumnMissing(f"{where} has no column {column!r}; it has: {', '.join(schema.names)}")
    label, wanted = choose_answer(schema.names, options, where, task)
    if "features" in options:
        for name in _listed(options):
            if not is_numeric(schema.field(name).type):
                raise errors.ColumnType(f"column {name!r} of {where} holds {schema.field(name).type}, not numbers")
        return Columns(label, wanted, None, _listed(options))
    image = options.get("image") or _image_column(schema, described, where)
    if image is not None:
        if not holds_images(schema.field(image).type):
            raise errors.ColumnType(f"column {image!r} of {where} holds {schema.field(image).type}, not encoded images")
        return Columns(label, wanted, image)
    return Columns(label, wanted, None, _feature_columns(schema, label, described, where))


def choose_answer(names: Sequence[str], options: Mapping[str, str], where: str, task: str = "") -> tuple[str, Task]:
    """Return the column of the answers, and its task: the one of this name, or the one that fits the options.

    Raises:
        ColumnMissing: No column can be the label.
        UnknownName: There is no task of this name.

    Example:
        >>> column, task = choose_answer(["text", "price"], {"target": "price"}, "b.csv")
        >>> column, task.name, choose_answer(["text", "target"], {}, "a.csv")[1].name
        ('price', 'regression', 'classification')
    """
    if task == Unlabelled.name:
        return "", Unlabelled()
    if "target" in options:
        return options["target"], find_task(task or Regression.name)
    label = options.get("label") or next((name for name in LABEL_NAMES if name in names), None)
    if label is None:
        raise errors.ColumnMissing(
            f"{where} has no column {', '.join(LABEL_NAMES[:-1])} or {LABEL_NAMES[-1]}; name one of its columns "
            f"({', '.join(names)}) as the label, with ?label=COLUMN, or as a number to predict, with ?target=COLUMN"
        )
    return label, find_task(task or Classification.name)


def _listed(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in options.get("features", "").split(",") if name)


def holds_images(kind: pa.DataType) -> bool:
    """Return whether a column of this type can hold encoded images."""
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def image_columns(schema: pa.Schema, described: Mapping[str, object]) -> list[str]:
    """Return the columns that Hugging Face describes as images, or else those whose type can be encoded images."""
    found = [name for name in schema.names if _is_described(described, name, "Image")]
    return found or [name for name in schema.names if holds_images(schema.field(name).type)]


def _image_column(schema: pa.Schema, described: Mapping[str, object], where: str) -> str | None:
    found = image_columns(schema, described)
    if len(found) > 1:
        raise errors.DataAmbiguous(
            f"{where} has several columns of images ({', '.join(found)}); choose one with ?image=COLUMN"
        )
    return found[0] if found else None


def _is_described(described: Mapping[str, object], name: str, kind: str) -> bool:
    description = described.get(name)
    return isinstance(description, Mapping) and description.get("_type") == kind


def _feature_columns(schema: pa.Schema, label: str, described: Mapping[str, object], where: str) -> tuple[str, ...]:
    features = []
    for field in schema:
        # Another label column ("coarse_label") would leak the answer.
        is_label = field.name == label or field.name in LABEL_NAMES or field.name.endswith("_label")
        if is_label or field.name in _ROW_NAMES or _is_described(described, field.name, "ClassLabel"):
            continue
        if not is_numeric(field.type):
            raise errors.ColumnType(
                f"column {field.name!r} of {where} holds {field.type}, neither images nor numbers; "
                "name the columns to learn from with ?image=COLUMN or ?features=COLUMN,COLUMN, or open it as text:PATH"
            )
        features.append(field.name)
    if not features:
        raise errors.ColumnMissing(f"{where} has no column to learn from{f' beside the label {label!r}' * bool(label)}")
    return tuple(features)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds numbers, or lists of numbers."""
    while is_list(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def class_names(described: Mapping[str, Any], label: str) -> tuple[str, ...] | None:
    """Return the names of the classes in Hugging Face's description, or None.

    Example:
        >>> class_names({"label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}, "label")
        ('cat', 'dog')
    """
    if not _is_described(described, label, "ClassLabel"):
        return None
    names = described[label].get("names")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names) or not names:
        raise errors.FileUnreadable(f"the description of column {label!r} has no list of class names, but {names!r}")
    return tuple(names)
