"""`text:PATH`: texts, each with a class or with a number to predict.

PATH is a file, of which a test split is held out; or a folder with a file `train.*` and perhaps `test.*`,
`validation.*`, `val.*` or `dev.*`. `text_files` lists the file formats.

The text is the column `text`, `sentence` or `question`, the label the column `label`, `labels`, `target` or
`fine_label`; `PATH?text=COLUMN&label=COLUMN` names others, `?target=COLUMN` a number to predict instead of a class.
For language models (`causal-lm`, `masked-lm`) there is no label: the columns are `messages`, `prompt` and
`completion`, or `text`.
TREC's questions have their six coarse classes by default and the fine ones with `?label=fine`. Classes are sorted by
name. Ids are row numbers. As unlabelled data, only texts are read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sequences import SequenceReader, document_of, layout_columns
from moso.data.sequences.documents import TEXT_NAMES
from moso.data.sources.location import split_options
from moso.data.sources.parquet import description
from moso.data.sources.source import Opened, Request, Source
from moso.data.sources.table_columns import choose_answer, class_names
from moso.data.sources.tables import read_label_column
from moso.data.sources.text_files import SUFFIXES, Record, read_records
from moso.data.tokenizer import TextReader
from moso.tasks import TASKS, Classification, LanguageModelling, Task, Unlabelled, unread

OPTIONS = ("text", "label", "target")
_TESTS = ("test", "validation", "val", "dev")
_TREC = (".txt", ".label")


def open_text(request: Request) -> Opened:
    """Open the training and test split of a file or folder.

    Raises:
        FileMissing: There is no such file or folder.
        FileUnreadable: A file cannot be read.
        SplitMissing: The folder holds no training file.
        ColumnMissing: A column is missing.
    """
    train_file, test_file, options = find_text(request.location)
    task = TASKS.find(request.task)
    if isinstance(task, LanguageModelling):
        train, test = (None if file is None else _documents(file, options, task) for file in (train_file, test_file))
        assert train is not None
        return train, test
    train = _samples(train_file, options, request.task, None)
    return train, None if test_file is None else _samples(test_file, options, request.task, train.classes)


def find_text(location: str) -> tuple[Path, Path | None, Mapping[str, str]]:
    """Return the training file, the test file if there is one, and the options.

    Raises:
        FileMissing: There is no such file or folder.
        FileUnreadable: The file has an unknown suffix.
        SplitMissing: The folder holds no training file.
        DataAmbiguous: The folder holds several files of one split.
    """
    place, options = (location, {}) if Path(location).exists() else split_options(location, OPTIONS)
    path = Path(place).expanduser()
    if not place or not path.exists():
        raise errors.FileMissing(f"data set 'text' needs a file or folder of texts: {place or 'nothing'!r} is none")
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise errors.FileUnreadable(f"{path} is none of {', '.join(SUFFIXES)}")
        return path, None, options
    train = _of_split(path, "train")
    if train is None:
        raise errors.SplitMissing(f"folder {path} holds no file train.* ({', '.join(SUFFIXES)})")
    tests = (_of_split(path, name) for name in _TESTS)
    return train, next((file for file in tests if file is not None), None), options


def _of_split(folder: Path, name: str) -> Path | None:
    files = [file for file in sorted(folder.glob(f"{name}.*")) if file.suffix.lower() in SUFFIXES]
    if len(files) > 1:
        raise errors.DataAmbiguous(
            f"folder {folder} holds {files[0].name} and {files[1].name}; give the file itself, or keep one"
        )
    return files[0] if files else None


def columns_of(file: Path, names: Sequence[str], options: Mapping[str, str], task: str = "") -> tuple[str, str, Task]:
    """Return the columns of the text and of the answer, and the task: the one of this name, or the one that fits.

    Raises:
        ColumnMissing: A column is missing.
    """
    for column in options.values():
        if column not in names:
            raise errors.ColumnMissing(f"{file} has no column {column!r}; it has: {', '.join(names)}")
    text = options.get("text") or next((name for name in TEXT_NAMES if name in names), None)
    if text is None:
        raise errors.ColumnMissing(
            f"{file} has no column {', '.join(TEXT_NAMES[:-1])} or {TEXT_NAMES[-1]}; name one of its columns "
            f"({', '.join(names)}) as the text, with ?text=COLUMN"
        )
    if file.suffix.lower() in _TREC:
        options = {"label": "coarse", **options}
    if task == Unlabelled.name:
        return text, "", Unlabelled()
    return text, *choose_answer(names, options, str(file), task)


def _samples(file: Path, options: Mapping[str, str], wanted: str, classes: Sequence[str] | None) -> StoredSamples:
    texts: list[str] = []
    answers: list[Any] = []
    text = answer = ""
    task: Task = Classification()
    for record in read_records(file):
        if not texts:
            text, answer, task = columns_of(file, list(record.values), options, wanted)
        texts.append(_text(record, text))
        if not task.has_answers:
            answers.append(None)
            continue
        answers.append(_label(record, answer) if task.answers_are_classes else _number(record, answer))
    if not texts:
        raise errors.DataEmpty(f"{file} holds no texts")
    ids = pa.array(np.arange(len(texts)))
    reader = TextReader(pa.array(texts, pa.large_string()))
    if not task.answers_are_classes:
        return StoredSamples(ids, *task.read(answers), reader)
    if classes is None and file.suffix.lower() == ".parquet":
        classes = class_names(description(pq.read_schema(file)), answer)
    try:
        column = pa.chunked_array([pa.array(answers)])
    except pa.ArrowException as problem:
        raise errors.LabelInvalid(
            f"labels in {file} are of different kinds ({problem}); use names or whole numbers"
        ) from problem
    labels, names = read_label_column(column, classes, str(file))
    return StoredSamples(ids, replace(task, classes=names), labels, reader)


def _documents(file: Path, options: Mapping[str, str], task: LanguageModelling) -> StoredSamples:
    """Return the documents of a file for a language model; they have no classes."""
    if "label" in options or "target" in options:
        raise errors.SettingsConflict(
            f"task {task.name!r} predicts tokens of the text itself; leave ?label= and ?target= out"
        )
    documents: list[str] = []
    columns: tuple[str, ...] = ()
    for record in read_records(file):
        if not documents:
            text = options.get("text", "")
            if text and text not in record.values:
                raise errors.ColumnMissing(f"{file} has no column {text!r}; it has: {', '.join(record.values)}")
            columns = layout_columns(list(record.values), str(file), text)
        documents.append(document_of(record.values, columns, record.where).dumped())
    if not documents:
        raise errors.DataEmpty(f"{file} holds no texts")
    ids, reader = pa.array(np.arange(len(documents))), SequenceReader(pa.array(documents, pa.large_string()))
    return StoredSamples(ids, task, unread(len(documents)), reader)


def _value(record: Record, column: str) -> Any:
    if column not in record.values:
        raise errors.ColumnMissing(f"{record.where} has no {column!r}, which the first row has")
    return record.values[column]


def _text(record: Record, column: str) -> str:
    value = _value(record, column)
    if not isinstance(value, str):
        raise errors.ColumnType(f"{record.where}: {column!r} holds {value!r}, not a text")
    if not value.strip():
        raise errors.DataEmpty(f"{record.where} has an empty text; remove the row or fill it")
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        raise errors.FileUnreadable(
            f"{record.where}: the text holds half a character, which UTF-8 cannot write"
        ) from problem
    return value


def _label(record: Record, column: str) -> Any:
    value = _value(record, column)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise errors.LabelsMissing(f"{record.where} has no label; remove the row or fill it")
    return value


def _number(record: Record, column: str) -> float:
    value = _value(record, column)
    try:
        number = float(value)
    except (TypeError, ValueError) as problem:
        raise errors.LabelInvalid(f"{record.where}: {column!r} holds {value!r}, not a number to predict") from problem
    if not np.isfinite(number):
        raise errors.LabelInvalid(f"{record.where}: {column!r} holds {value!r}, which is not a number to predict")
    return number


SOURCE = Source(
    "text:PATH",
    "texts with labels: a .tsv, .csv, .jsonl or .parquet with columns text and label, TREC's questions (.txt), or a "
    "folder with train.* and test.*; options ?text=COLUMN&label=COLUMN, or ?target=COLUMN for a number to predict; "
    "with --task causal-lm: messages, prompt and completion, or text",
    open_text,
    fits=("bag", "text"),
    pictures=False,
    unlabelled=True,
)
