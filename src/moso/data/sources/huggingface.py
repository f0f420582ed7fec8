"""`hf:NAME[:CONFIG]`: data sets that Hugging Face `datasets` can open.

NAME is a data set of the hub or its cache, a local folder of data files, or a folder that `save_to_disk` wrote. The
splits are `train` and the first of `test`, `validation` and `valid` that has labels; without one, a test split is held
out. Columns are found as in Parquet files and named by the same options: `hf:NAME:CONFIG?label=COLUMN&image=COLUMN`.
Ids are row numbers. The data stays in the memory-mapped files of the cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from moso import errors
from moso.data.sources.location import split_options
from moso.data.sources.source import Opened, Request, Source
from moso.data.sources.table_columns import Columns, choose_columns, class_names
from moso.data.sources.tables import check_same_classes, is_labelled, table_samples

_TEST_SPLITS = ("test", "validation", "valid")


def open_huggingface(request: Request) -> Opened:
    """Open the training and test split of a Hugging Face data set.

    Raises:
        DatasetNameInvalid: The name is missing.
        PackageMissing: Hugging Face datasets is not installed.
        FileUnreadable: The data set cannot be opened.
        SplitMissing: There is no split `train`.
    """
    place, options = split_options(request.location)
    name, config = (place, None) if Path(place).exists() else _split_config(place)
    if not name:
        raise errors.DatasetNameInvalid("data set 'hf' needs a name: hf:NAME or hf:NAME:CONFIG")
    splits = _load(name, config)
    if "train" not in splits:
        raise errors.SplitMissing(f"data set {name!r} has no split 'train'; it has: {', '.join(splits)}")
    described = splits["train"].features.to_dict()
    schema = splits["train"].features.arrow_schema
    columns = choose_columns(schema, options, described, f"{name} (train)", request.task)
    names = class_names(described, columns.label)
    train = table_samples(_table(splits["train"], columns), columns, names, f"{name} (train)", request.resize)
    for split in _TEST_SPLITS:
        if split in splits and columns.label in splits[split].features:
            table = _table(splits[split], columns)
            if is_labelled(table[columns.label]):
                own = class_names(splits[split].features.to_dict(), columns.label)
                check_same_classes(train.classes, own, f"{name} ({split})")
                return train, table_samples(table, columns, train.classes, f"{name} ({split})", request.resize)
    return train, None


def _split_config(place: str) -> tuple[str, str | None]:
    name, _, config = place.partition(":")
    return name, config or None


def _load(name: str, config: str | None) -> Any:
    """Return the data set's splits by name."""
    try:
        import datasets
    except ImportError as problem:
        raise errors.package_missing("datasets", "datasets", f"data set hf:{name}") from problem
    try:
        with _no_bars(datasets):
            folder = Path(name)
            if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
                loaded = datasets.load_from_disk(name)
            else:
                # Before version 4 a data set could be a script; it is never run for the asking of its name.
                scripts = {"trust_remote_code": False} if int(datasets.__version__.partition(".")[0]) < 4 else {}
                loaded = datasets.load_dataset(name, config, **scripts)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as problem:
        reason = " ".join(str(problem).split())
        raise errors.FileUnreadable(
            f"Hugging Face datasets cannot open {name!r}{f' ({config})' if config else ''}: {reason}; check the name, "
            "or the network if it is not in the cache yet"
        ) from problem
    return loaded if isinstance(loaded, dict) else {"train": loaded}


@contextmanager
def _no_bars(datasets: Any) -> Iterator[None]:
    """Disable the progress bars of `datasets` inside this context, and restore the user's setting afterwards."""
    shown = datasets.are_progress_bars_disabled() is False
    if shown:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def _table(split: Any, columns: Columns) -> pa.Table:
    """Return the columns as stored in the cache, with images still encoded."""
    from datasets import Image

    selected = split.select_columns(columns.all())
    if columns.image is not None and isinstance(split.features[columns.image], Image):
        selected = selected.cast_column(columns.image, Image(decode=False))
    return selected.with_format("arrow")[:]


SOURCE = Source(
    "hf:NAME[:CONFIG]",
    "anything that Hugging Face datasets opens: the hub, its cache, a folder of data files, a folder that "
    "save_to_disk wrote; options as for parquet",
    open_huggingface,
)
