"""Files of texts, one record per row, by suffix; records can be written back in the same layout.

- `.tsv`, `.csv`: a header and one row per text, quoted as in CSV; UTF-8.
- `.jsonl`: one JSON object per line; UTF-8.
- `.parquet`: one row per text.
- `.txt`, `.label`: TREC's questions only, in either of their two common layouts, `COARSE:fine text` or
  `fine text<TAB>COARSE`. The layout of other text files is not guessed: a first word mistaken for a label, or a label
  left in the text, would silently spoil the data.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moso import errors
from moso.errors import MosoError

TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
_COLON = re.compile(rf"(?P<coarse>{'|'.join(TREC_CLASSES)}):(?P<fine>\w+) (?P<text>.*)")
_TAB = re.compile(rf"(?P<fine>\w+) (?P<text>.*)\t(?P<coarse>{'|'.join(TREC_CLASSES)})")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Record:
    """One row of a file: its place (`questions.tsv line 12`), and its values by column."""

    where: str
    values: dict[str, Any]


def read_records(file: Path) -> Iterator[Record]:
    """Read the rows of a file, in order.

    Raises:
        FileUnreadable: The file or a row cannot be read.
        DataAmbiguous: The header names a column twice.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "train.tsv"
        >>> _ = file.write_text("text\\tlabel\\nWho was Galileo ?\\tHUM\\n")
        >>> [record.values for record in read_records(file)]
        [{'text': 'Who was Galileo ?', 'label': 'HUM'}]
    """
    return _READERS[file.suffix.lower()](file)


def write_records(file: Path, records: Iterable[Mapping[str, Any]], like: Path) -> None:
    """Write records to `file` in the layout of `like`, the file that they were read from."""
    suffix = like.suffix.lower()
    if suffix == ".parquet":
        schema = pq.read_schema(like)
        pq.write_table(pa.Table.from_pylist(list(records), schema=schema), file, compression="zstd")
        return
    with file.open("w", encoding="utf-8", newline="") as stream:
        if suffix in _DELIMITERS:
            header = next(_cells(like))[1]
            writer = csv.writer(stream, delimiter=_DELIMITERS[suffix], lineterminator="\n")
            writer.writerow(header)
            writer.writerows([record[name] for name in header] for record in records)
        elif suffix == ".jsonl":
            stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        else:
            form = "{coarse}:{fine} {text}\n" if _layout(like) is _COLON else "{fine} {text}\t{coarse}\n"
            for record in records:
                fine = record["fine"].partition(":")[2]
                stream.write(form.format(coarse=record["coarse"], fine=fine, text=record["text"]))


def with_label(values: Mapping[str, Any], column: str, label: Any) -> dict[str, Any]:
    """Return a record with another label; a fine class of TREC also sets its coarse class.

    Example:
        >>> with_label({"text": "Who was Galileo ?", "label": "HUM"}, "label", "LOC")
        {'text': 'Who was Galileo ?', 'label': 'LOC'}
    """
    coarse = {"coarse": label.partition(":")[0]} if column == "fine" and "coarse" in values else {}
    return {**values, column: label, **coarse}


def _lines(file: Path, content: str) -> Iterator[tuple[str, str]]:
    """Yield non-empty lines with their place; only a line feed ends a line."""
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield f"{file} line {number}", line.removesuffix("\r")


def _content(file: Path) -> str:
    raw = file.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise errors.FileUnreadable(
            f"{file} line {line} is not UTF-8 (it has a byte {raw[problem.start]:#04x}); save the file as UTF-8"
        ) from problem


def _trec_content(file: Path) -> str:
    try:
        return _content(file)
    except MosoError:
        return file.read_text(encoding="latin-1")  # the encoding in which the questions were first published


def _layout(file: Path) -> re.Pattern[str]:
    first = next(_lines(file, _trec_content(file)), (str(file), ""))
    return _COLON if _COLON.fullmatch(first[1]) else _TAB


def _trec(file: Path) -> Iterator[Record]:
    layout = _layout(file)
    for where, line in _lines(file, _trec_content(file)):
        found = layout.fullmatch(line)
        if found is None:
            form = "'COARSE:fine text'" if layout is _COLON else "'fine text<TAB>COARSE'"
            raise errors.FileUnreadable(
                f"{where} is not of the form {form} of TREC's questions (COARSE is one of {', '.join(TREC_CLASSES)}): "
                f"{line[:60]!r}; other texts go into a .tsv, .csv, .jsonl or .parquet with columns text and label"
            )
        # "other" and "desc" are fine classes of several coarse ones, so the coarse class is added to the name.
        yield Record(where, {**found.groupdict(), "fine": f"{found['coarse']}:{found['fine']}"})


def _cells(file: Path) -> Iterator[tuple[str, list[str]]]:
    lines = (line + "\n" for line in _content(file).split("\n"))
    rows = csv.reader(lines, delimiter=_DELIMITERS[file.suffix.lower()], strict=True)
    try:
        for row in rows:
            if row and row != [""]:
                yield f"{file} line {rows.line_num}", row
    except csv.Error as problem:
        raise errors.FileUnreadable(
            f"{file} line {rows.line_num} is not valid: {problem}; double the quotes inside of quotes"
        ) from problem


def _separated(file: Path) -> Iterator[Record]:
    cells = _cells(file)
    header: list[str] = next(cells, ("", []))[1]
    if len(set(header)) != len(header):
        raise errors.DataAmbiguous(f"{file} names a column twice in its header: {', '.join(header)}")
    for where, row in cells:
        if len(row) != len(header):
            raise errors.FileUnreadable(
                f"{where} has {len(row)} cells where the header has {len(header)} ({', '.join(header)})"
            )
        yield Record(where, dict(zip(header, row, strict=True)))


def _json_lines(file: Path) -> Iterator[Record]:
    for where, line in _lines(file, _content(file)):
        try:
            values = json.loads(line)
        except ValueError as problem:
            raise errors.FileUnreadable(f"{where} is not valid JSON: {problem}") from problem
        if not isinstance(values, dict):
            raise errors.FileUnreadable(f"{where} holds a {type(values).__name__} where a JSON object was expected")
        yield Record(where, values)


def _parquet(file: Path) -> Iterator[Record]:
    try:
        with pq.ParquetFile(file) as parquet:
            row = 0
            for batch in parquet.iter_batches():
                for values in batch.to_pylist():
                    yield Record(f"{file} row {row}", values)
                    row += 1
    except (pa.ArrowException, OSError) as problem:
        raise errors.FileUnreadable(f"{file} is not a readable Parquet file ({problem})") from problem


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".txt": _trec,
    ".label": _trec,
    ".csv": _separated,
    ".tsv": _separated,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
SUFFIXES = tuple(_READERS)
