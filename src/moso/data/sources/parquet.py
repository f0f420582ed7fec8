"""`parquet:PATH`: Parquet files of images (Hugging Face's `Image` layout or plain bytes) or of numeric columns.

PATH is a folder with `train*.parquet` (shards in the order of their names) and perhaps `test*.parquet`,
`validation*.parquet` or `val*.parquet`, there or in its `data/`; or one file. For a file called `train*.parquet` the
test files beside it are used; of any other file a test split is held out.

The label is the column `label`, `labels`, `target` or `fine_label`; `PATH?label=coarse_label` names another,
`?target=COLUMN` a number to predict instead, `?image=COLUMN` the image, `?features=COLUMN,COLUMN` the numbers to learn
from. Class names come from the file's own description, or from a `classes.txt` beside it (`coarse_classes.txt` for
`coarse_label`), or are numbers. Ids are row numbers over the shards in order. Unlabelled data needs no label column;
columns that are called like one are not read.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources.arrow_cache import memory_mapped
from moso.data.sources.location import split_options
from moso.data.sources.number_cache import mapped_numbers
from moso.data.sources.source import NUMBERS, VECTORS, Opened, Request, Source
from moso.data.sources.table_columns import LABEL_NAMES, Columns, choose_columns, class_names, is_list
from moso.data.sources.tables import check_same_classes, features_of, is_labelled, numbered_samples, table_samples
from moso.data.user_files import check_once, check_regular, may_be_path, read_text
from moso.errors import MosoError

# In order of preference; a test split without labels (all -1, as ImageNet's) is skipped.
_TEST_PREFIXES = ("test", "validation", "val")


def open_parquet(request: Request) -> Opened:
    """Open the training and test split of a file or folder.

    Raises:
        DatasetNameInvalid: The path is missing.
        FileMissing: There is no such file or folder.
        FileUnreadable: A file is not a Parquet file.
        ColumnMissing: A column is missing.
        SplitMissing: The folder has test files but no training files.
    """
    place, options = (request.location, {}) if Path(request.location).exists() else split_options(request.location)
    if not place:
        raise errors.DatasetNameInvalid("data set 'parquet' needs a path: parquet:PATH")
    train_files, test_candidates = find_files(Path(place).expanduser())
    schema = _schema(train_files[0])
    described = description(schema)
    where = _where(train_files)
    columns = choose_columns(schema, options, described, where, request.task)
    if not columns.task.has_answers:
        return _samples(train_files, columns, None, request), None
    classes = class_names(described, columns.label) or _listed_classes(train_files[0].parent, columns.label)
    train = _samples(train_files, columns, classes, request)
    for files in test_candidates:
        if _is_labelled(files, columns.label):
            names = class_names(description(_schema(files[0])), columns.label)
            check_same_classes(train.classes, names, _where(files))
            return train, _samples(files, columns, train.classes, request)
    return train, None


def fits_of(location: str) -> tuple[str, str] | None:
    """Return the default network and recipe for columns of numbers, by the schema of the first file; None for images.

    Without a schema that can be read, too: opening the data set says what is wrong with it.

    Example:
        >>> fits_of("no-such-file.parquet") is None
        True
    """
    if not may_be_path(location.partition("?")[0]):
        return None
    try:
        place, options = (location, {}) if Path(location).exists() else split_options(location)
        schema = _schema(find_files(Path(place).expanduser())[0][0])
        columns = choose_columns(schema, options, description(schema), place)
    except MosoError:
        return None
    if columns.image is not None:
        return None
    of_lists = any(is_list(schema.field(name).type) for name in columns.features)
    return VECTORS if of_lists and columns.task.by_class else NUMBERS


def find_files(path: Path) -> tuple[list[Path], list[list[Path]]]:
    """Return the training shards, and the shards of every split that could be the test.

    Raises:
        FileMissing: There is no such file or folder.
        DataEmpty: The folder holds no Parquet files.
        SplitMissing: The folder has test files but no training files.
    """
    if path.is_file():
        beside = path.parent if path.name.startswith("train") else None
        return [path], _candidates(beside) if beside else []
    if not path.is_dir():
        raise errors.FileMissing(f"there is no Parquet file or folder {path}")
    for folder in (path, path / "data"):
        train = sorted(folder.glob("train*.parquet"))
        if train:
            return train, _candidates(folder)
    rest = sorted(path.glob("*.parquet"))
    if not rest:
        raise errors.DataEmpty(f"folder {path} holds no Parquet files (train*.parquet, test*.parquet)")
    if any(file.name.startswith(_TEST_PREFIXES) for file in rest):
        raise errors.SplitMissing(f"folder {path} holds {rest[0].name} but no train*.parquet")
    return rest, []


def _candidates(folder: Path) -> list[list[Path]]:
    found = []
    for prefix in _TEST_PREFIXES:
        files = sorted(folder.glob(f"{prefix}*.parquet"))
        if prefix == "val":
            files = [file for file in files if not file.name.startswith("validation")]
        if files:
            found.append(files)
    return found


def _where(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _schema(file: Path) -> pa.Schema:
    check_regular(file)
    try:
        found = pq.read_schema(file)
    except (pa.ArrowException, OSError) as problem:
        raise errors.FileUnreadable(f"{file} is not a readable Parquet file ({problem})") from problem
    check_once(found.names, str(file))
    return found


def description(schema: pa.Schema) -> Mapping[str, Any]:
    """Return Hugging Face's description of the columns, from the file's metadata; empty if there is none.

    Raises:
        FileUnreadable: The description is damaged.
    """
    text = (schema.metadata or {}).get(b"huggingface")
    if text is None:
        return {}
    try:
        features = json.loads(text)["info"]["features"]
    except (ValueError, LookupError, TypeError) as problem:
        raise errors.FileUnreadable(
            f"the 'huggingface' description in the Parquet file cannot be read ({problem})"
        ) from problem
    return features if isinstance(features, dict) else {}


def _listed_classes(folder: Path, label: str) -> tuple[str, ...] | None:
    names = [f"{label.removesuffix('_label')}_classes.txt", *(["classes.txt"] if label in LABEL_NAMES else [])]
    for file in (folder / name for name in names):
        if file.is_file():
            return tuple(line for line in read_text(file).splitlines() if line.strip())
    return None


def _read(files: Sequence[Path], columns: Sequence[str], memory_limit: int) -> pa.Table:
    try:
        size = 0
        for file in files:
            with pq.ParquetFile(file, memory_map=True) as parquet:
                size += _uncompressed(parquet.metadata, columns)
        if size > memory_limit:
            return memory_mapped(files, columns)
        tables = []
        for file in files:
            with pq.ParquetFile(file, memory_map=True) as parquet:
                tables.append(parquet.read(columns=list(columns)).replace_schema_metadata(None))
        return pa.concat_tables(tables)
    except (pa.ArrowException, OSError) as problem:
        raise errors.FileUnreadable(
            f"columns {', '.join(columns)} of {_where(files)} cannot be read as one table ({problem})"
        ) from problem


def _uncompressed(metadata: pq.FileMetaData, columns: Sequence[str]) -> int:
    size = 0
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            leaf = metadata.row_group(group).column(number)
            if leaf.path_in_schema.split(".")[0] in columns:
                size += leaf.total_uncompressed_size
    return size


def _number_bytes(files: Sequence[Path], features: Sequence[str]) -> int:
    """Return the memory that the numbers take as float32, in bytes."""
    metadata = [pq.read_metadata(file) for file in files]
    count = 0
    for one in metadata:
        for group in range(one.num_row_groups):
            for number in range(one.num_columns):
                leaf = one.row_group(group).column(number)
                if leaf.path_in_schema.split(".")[0] in features:
                    count += leaf.num_values
    return 4 * count


def _is_labelled(files: Sequence[Path], label: str) -> bool:
    if label not in _schema(files[0]).names:
        return False
    return is_labelled(_read(files, [label], memory_limit=2**62)[label])


def _samples(files: Sequence[Path], columns: Columns, classes: Sequence[str] | None, request: Request) -> StoredSamples:
    for file in files:
        missing = [name for name in columns.all() if name not in _schema(file).names]
        if missing:
            raise errors.ColumnMissing(f"{file} has no column {missing[0]!r}, which the first file has")
    if columns.image is None and _number_bytes(files, columns.features) > request.memory_limit:
        reader = mapped_numbers(
            files, columns.features, lambda rows: features_of(rows, columns.features, _where(files))
        )
        answers = _read(files, [columns.label or columns.features[0]], request.memory_limit)
        return numbered_samples(answers, columns, classes, _where(files), reader)
    table = _read(files, columns.all(), request.memory_limit)
    return table_samples(table, columns, classes, _where(files), request.resize, files[0].parent)


SOURCE = Source(
    "parquet:PATH",
    "Parquet files of images (Hugging Face layout or bytes) or numeric columns: a file, or a folder with "
    "train*.parquet and test*.parquet; options ?label=COLUMN&image=COLUMN&features=COLUMN,COLUMN, or ?target=COLUMN "
    "for a number to predict",
    open_parquet,
    looks=fits_of,
    unlabelled=True,
)
