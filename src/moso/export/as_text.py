"""Export of texts in the layout of their source file: all its columns, with the labels that were trained on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moso import errors
from moso.data.sources.text import columns_of, find_text
from moso.data.sources.text_files import read_records, with_label, write_records
from moso.export.split import Split
from moso.progress import Progress


def text_file(dataset: str, test: bool = False) -> Path:
    """Return the source file of a split; a test split that was held out is in the training file.

    Args:
        dataset: Name by which the data was opened, `text:...`.
        test: Return the file of the test split.

    Raises:
        MosoError: ``settings-conflict`` if the data set is not a file of texts.
    """
    scheme, _, location = dataset.partition(":")
    if scheme != "text":
        raise errors.SettingsConflict(
            f"{dataset} is not a file of texts, so there is no layout to keep; export --format parquet-data"
        )
    train_file, test_file, _ = find_text(location)
    return test_file if test and test_file is not None else train_file


def write_texts(split: Split, dataset: str, path: Path, progress: Progress, test: bool = False) -> None:
    """Write the rows of one split in the layout of the source file.

    Args:
        split: The samples to export.
        dataset: Name by which the data was opened, `text:...`.
        path: The file to write.
        progress: Called as work advances.
        test: Whether this is the test split.
    """
    source, options = text_file(dataset, test), find_text(dataset.partition(":")[2])[2]
    write_records(path, _kept(split, source, options, progress), like=source)


def _kept(split: Split, source: Path, options: Any, progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield the kept rows in the order of the file, which is the order of the data set."""
    rows = (row for block in split.blocks() for row in block)
    wanted, done = next(rows, None), 0
    column = ""
    for number, record in enumerate(read_records(source)):
        if wanted is None:
            return
        if number != wanted.id:
            continue
        if split.samples.task.has_answers:
            column = column or columns_of(source, list(record.values), options)[1]
        yield _as_trained(split, record.values, column, wanted.label)
        wanted, done = next(rows, None), done + 1
        progress("exporting", done, len(split.positions))


def _as_trained(split: Split, values: dict[str, Any], column: str, label: int) -> dict[str, Any]:
    task, classes = split.samples.task, split.samples.classes
    if not task.answers_are_classes:
        return values
    name: Any = classes[label] if isinstance(values[column], str) else type(values[column])(label)
    return values if values[column] == name else with_label(values, column, name)
