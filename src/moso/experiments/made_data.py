"""Data sets of experiments that are made from others: without the test split, or with some of the classes."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from moso import errors
from moso.files import write_table


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


def _linked(file: Path, link: Path) -> Path:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.readlink() != file:
        link.unlink(missing_ok=True)
        link.symlink_to(file)
    return link.absolute()
