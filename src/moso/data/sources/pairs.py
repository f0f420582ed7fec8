"""`pairs:PATH`: pictures with a text each, for contrastive learning.

PATH is one of these, or a folder with `train` and perhaps `test`, `validation` or `val` of them:

- a folder of pictures, each with a text beside it (`cat.png`, `cat.txt`), or with one table for all of them:
  `captions.csv`, `.tsv` or `.jsonl` with columns `image` (the path below the folder) and `text`;
- a Parquet file with columns `image` (encoded, plain or in Hugging Face's layout) and `text`;
- a WebDataset shard, or a folder of them (`*.tar`): members `KEY.jpg` and `KEY.txt`.

Options after a question mark: `image=COLUMN`, `text=COLUMN` for tables, and those of the task, `negatives=256`,
`temperature=0.1`, `form=siglip`. Ids are paths below the folder, keys of shards, or row numbers of Parquet files.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from moso import errors
from moso.data.images import EncodedReader, Names, Paths
from moso.data.samples import StoredSamples
from moso.data.sources.folder import images_below
from moso.data.sources.location import split_options
from moso.data.sources.source import Opened, Request, Source
from moso.data.sources.table_columns import holds_images
from moso.data.sources.tables import image_reader
from moso.data.sources.tar_shards import read_shards
from moso.data.sources.text_files import read_records
from moso.tasks import Contrastive

_TESTS = ("test", "validation", "val")
_COLUMNS = ("image", "text")
_SETTINGS = ("negatives", "temperature", "form")
_TABLES = ("captions.csv", "captions.tsv", "captions.jsonl")
_TEXT_NAMES = ("text", "caption", "sentence")
# Pictures with their texts: ids, texts and the reader.
_Listed = tuple[pa.Array, NDArray[np.str_], EncodedReader]


def open_pairs(request: Request) -> Opened:
    """Open the training and test split of pairs.

    Raises:
        FileMissing: There is no such file or folder.
        DataEmpty: There are no pairs.
        LabelsMissing: A picture has no text, or an empty one.
        ColumnMissing: A column is missing.
        FileUnsafe: A shard holds a link, a pickle or a path outside of it.
        SettingInvalid: A setting of the task is not valid.
    """
    location = request.location
    place, options = (
        (location, {}) if location and Path(location).exists() else split_options(location, (*_COLUMNS, *_SETTINGS))
    )
    path = Path(place).expanduser()
    if not place or not path.exists():
        raise errors.FileMissing(
            "data set 'pairs' needs pictures with texts, a folder, a .parquet or a .tar: "
            f"{place or 'nothing'!r} is none"
        )
    task, columns = _task(options), {name: options[name] for name in _COLUMNS if name in options}
    train = _of_split(path, "train")
    if not train:
        return _samples(_whole(path), task, columns, request), None
    tests = (_of_split(path, name) for name in _TESTS)
    test = next((files for files in tests if files), None)
    return (
        _samples(train, task, columns, request),
        None if test is None else _samples(test, task, columns, request),
    )


def _task(options: Mapping[str, str]) -> Contrastive:
    try:
        return Contrastive(
            negatives=int(options.get("negatives", Contrastive.negatives)),
            temperature=float(options.get("temperature", Contrastive.temperature)),
            form=options.get("form", Contrastive.form),  # type: ignore[arg-type] # the task refuses other names
        )
    except ValueError as problem:
        raise errors.SettingInvalid(f"negatives and temperature of pairs are numbers: {problem}") from problem


def _of_split(path: Path, split: str) -> list[Path]:
    """Return the folder, the Parquet file or the shards of a split below a folder; empty if there are none."""
    if not path.is_dir():
        return []
    if (path / split).is_dir():
        return _whole(path / split)
    for suffix in ("parquet", "tar"):
        files = [file for file in sorted(path.glob(f"{split}*.{suffix}")) if not _other_split(file.name, split)]
        if files:
            return files
    return []


def _other_split(name: str, split: str) -> bool:
    return split == "val" and name.startswith("validation")


def _whole(path: Path) -> list[Path]:
    """Return the shards of a folder of shards; otherwise the path itself."""
    shards = sorted(path.glob("*.tar")) if path.is_dir() else []
    return shards or [path]


def _samples(files: Sequence[Path], task: Contrastive, columns: Mapping[str, str], request: Request) -> StoredSamples:
    suffix = files[0].suffix.lower()
    if suffix == ".tar":
        found = read_shards(files)
        names = Names(found.keys, f"{files[0].parent}: ")
        reader = EncodedReader.measured(found.members, names, len(found.keys), request.resize)
        listed: _Listed = found.keys, found.texts, reader
    elif suffix == ".parquet":
        listed = _table(files, columns, request.resize)
    elif files[0].is_dir():
        listed = _folder(files[0], columns, request.resize)
    else:
        raise errors.FileUnreadable(f"{files[0]} holds no pairs: expected a folder, a .parquet or a .tar")
    ids, texts, reader = listed
    known, targets = task.read(texts)
    return StoredSamples(ids, known, targets, reader)


def _folder(folder: Path, columns: Mapping[str, str], resize: int | None) -> _Listed:
    table = next((folder / name for name in _TABLES if (folder / name).is_file()), None)
    if table is not None:
        paths, texts = _captions(folder, table, columns)
    else:
        paths = sorted(images_below(folder, "."))
        if not paths:
            raise errors.DataEmpty(
                f"{folder} holds no pictures; expected IMAGE.png with IMAGE.txt, {_TABLES[0]}, .parquet or .tar"
            )
        texts = [_text_beside(folder / path) for path in paths]
    ids = pa.array(paths)
    return ids, np.array(texts), EncodedReader.measured(Paths(folder, ids), Names(ids, f"{folder}/"), len(ids), resize)


def _text_beside(picture: Path) -> str:
    file = picture.with_suffix(".txt")
    if not file.is_file():
        raise errors.LabelsMissing(f"picture {picture} has no text beside it ({file.name})")
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as problem:
        raise errors.FileUnreadable(f"{file} is no UTF-8 text ({problem})") from problem
    if not text:
        raise errors.LabelsMissing(f"{file} is empty; write the text of {picture.name}, or remove the pair")
    return text


def _captions(folder: Path, table: Path, columns: Mapping[str, str]) -> tuple[list[str], list[str]]:
    image, text = columns.get("image", "image"), columns.get("text", "")
    rows: list[tuple[str, str]] = []
    for record in read_records(table):
        text = text or _text_column(list(record.values), str(table))
        for name in (image, text):
            if not isinstance(record.values.get(name), str):
                raise errors.ColumnMissing(f"{record.where} has no {name!r}; it has: {', '.join(record.values)}")
        path = record.values[image]
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise errors.FileUnsafe(f"{record.where}: {path!r} points outside of {folder}")
        rows.append((path, record.values[text].strip()))
    if not rows:
        raise errors.DataEmpty(f"{table} has no rows")
    rows.sort()
    paths = [path for path, _ in rows]
    if len(set(paths)) != len(paths):
        twice = next(path for path, other in pairwise(paths) if path == other)
        raise errors.IdsNotUnique(f"{table} names {twice!r} twice; a picture has one text")
    return paths, [text for _, text in rows]


def _table(files: Sequence[Path], columns: Mapping[str, str], resize: int | None) -> _Listed:
    where = str(files[0])
    try:
        schema = pq.read_schema(files[0])
        image = columns.get("image", "image")
        text = columns.get("text") or _text_column(schema.names, where)
        for name in (image, text):
            if name not in schema.names:
                raise errors.ColumnMissing(f"{where} has no column {name!r}; it has: {', '.join(schema.names)}")
        if not holds_images(schema.field(image).type):
            raise errors.ColumnType(f"column {image!r} of {where} holds {schema.field(image).type}, not encoded images")
        table = pa.concat_tables(
            [pq.read_table(file, columns=[image, text]).replace_schema_metadata(None) for file in files]
        )
    except (pa.ArrowException, OSError) as problem:
        raise errors.FileUnreadable(f"{where} cannot be read as a table of pairs ({problem})") from problem
    if table.num_rows == 0:
        raise errors.DataEmpty(f"{where} has no rows")
    if table[text].null_count:
        raise errors.LabelsMissing(f"{table[text].null_count} rows of {where} have no text; remove them or fill them")
    texts = np.array(table[text].cast(pa.string()).to_pylist())
    return pa.array(np.arange(table.num_rows)), texts, image_reader(table[image], where, resize)


def _text_column(names: Sequence[str], where: str) -> str:
    found = next((name for name in _TEXT_NAMES if name in names), None)
    if found is None:
        raise errors.ColumnMissing(
            f"{where} has no column {', '.join(_TEXT_NAMES)}; name one of its columns ({', '.join(names)}) as the "
            "text, with ?text=COLUMN"
        )
    return found


SOURCE = Source(
    "pairs:PATH",
    "pictures with texts: a folder of IMAGE.png and IMAGE.txt (or captions.csv), Parquet with image and text, or "
    "WebDataset shards (.tar); options ?image=COLUMN&text=COLUMN&negatives=256&temperature=0.1&form=siglip",
    open_pairs,
    task=Contrastive(),
    fits=("two-towers", "pairs"),
)
