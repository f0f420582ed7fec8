"""Data sets of experiments that are made from others: without the test split, or with some of the classes or rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moso import errors
from moso.files import replacing, write_table


def training_file_alone(file: Path, folder: Path) -> str:
    """Link a Parquet training file into a place where no test split lies beside it, and return the data set's name."""
    return f"parquet:{_linked(file, folder.with_suffix('.parquet'))}"


def training_rows_alone(features: Path, folder: Path) -> str:
    """Link the training rows of a folder of features and their labels into another folder, without the test rows."""
    for name in ("train.npy", "train_labels.npy"):
        _linked(features / name, folder / name)
    return f"features:{folder}"


def first_classes(count: int) -> Callable[[Path, Path], str]:
    """Return a function that writes the samples of the first classes of a folder of Parquet files into another folder.

    Example:
        >>> import tempfile
        >>> import pyarrow as pa
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "all").mkdir()
        >>> for split in ("train", "test"):
        ...     pq.write_table(pa.table({"x": [5, 6, 7], "label": [0, 2, 1]}), root / "all" / f"{split}.parquet")
        >>> made = first_classes(2)(root / "all", root / "two")
        >>> pq.read_table(root / "two" / "train.parquet").to_pydict()
        {'x': [5, 7], 'label': [0, 1]}
    """

    def make(source: Path, folder: Path) -> str:
        for split in ("train", "test"):
            path, file = folder / f"{split}.parquet", source / f"{split}.parquet"
            if path.exists():
                continue
            if not file.is_file():
                raise errors.FileMissing(f"there is no file {file}; the first {count} classes are taken from Parquet")
            table = pq.read_table(file)
            folder.mkdir(parents=True, exist_ok=True)
            # The description of the columns names all classes of the source; without it, classes are numbers.
            chosen = table.filter(pc.less(table["label"], count)).replace_schema_metadata(None)
            write_table(path, chosen)
        return f"parquet:{folder}"

    return make


def first_rows(count: int) -> Callable[[Path, Path], str]:
    """Return a function that writes the first training rows of a folder into another; the test rows are linked.

    The folder holds Parquet files, or features (`train.npy` and labels).

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "all").mkdir()
        >>> for name in ("train", "train_labels", "test", "test_labels"):
        ...     np.save(root / "all" / f"{name}.npy", np.arange(5.0))
        >>> made = first_rows(2)(root / "all", root / "two")
        >>> np.load(root / "two" / "train.npy"), len(np.load(root / "two" / "test.npy"))
        (array([0., 1.]), 5)
    """

    def make(source: Path, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        if (source / "train.npy").is_file():
            for name in ("train.npy", "train_labels.npy"):
                with replacing(folder / name) as temporary, temporary.open("wb") as file:
                    np.save(file, np.load(source / name, mmap_mode="r")[:count])
            for name in ("test.npy", "test_labels.npy"):
                _linked(source / name, folder / name)
            return f"features:{folder}"
        if not (source / "train.parquet").is_file():
            raise errors.FileMissing(f"there is no file {source / 'train.parquet'}; its first {count} rows are taken")
        if not (folder / "train.parquet").exists():
            write_table(folder / "train.parquet", pq.read_table(source / "train.parquet").slice(0, count))
        _linked(source / "test.parquet", folder / "test.parquet")
        return f"parquet:{folder}"

    return make


def _linked(file: Path, link: Path) -> Path:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.readlink() != file:
        link.unlink(missing_ok=True)
        link.symlink_to(file)
    return link.absolute()
