"""Cache of numeric columns too large for memory: copied once from Parquet files into one npy file."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moso import errors
from moso.columns import Array, cache_folder
from moso.data.mapped import MappedReader
from moso.data.readers import check_finite
from moso.files import replacing
from moso.randomness import key

_BATCH = 65_536
# Maps a table of some rows to their numbers, `[rows, ...]`.
Numbers = Callable[[pa.Table], Array]


def mapped_numbers(files: Sequence[Path], columns: Sequence[str], numbers: Numbers) -> MappedReader:
    """Return a reader of these columns of Parquet files, concatenated, from a memory-mapped npy file.

    Args:
        files: Parquet files, in order.
        columns: Columns to copy.
        numbers: Maps a table of some rows to their numbers, `[rows, ...]`.

    Raises:
        ShapeMismatch: Rows of different files differ in shape or type.
        ValuesNotFinite: A number is NaN or infinite.
    """
    states = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    # Size and modification time are part of the name, so the copy of a changed file is never read.
    name = key(*(part for state in states for part in state), *columns)
    copy = cache_folder() / f"{files[0].stem}-{name:016x}.npy"
    if not copy.exists():
        warnings.warn(f"{files[0].parent} is too large for memory; its numbers are copied once to {copy}", stacklevel=2)
        _copy(files, columns, numbers, copy)
    return MappedReader(np.load(copy, mmap_mode="r", allow_pickle=False))


def _copy(files: Sequence[Path], columns: Sequence[str], numbers: Numbers, copy: Path) -> None:
    rows, like = sum(pq.read_metadata(file).num_rows for file in files), None
    with replacing(copy) as temporary, temporary.open("wb") as out:
        for file in files:
            for found in _batches(file, columns, numbers):
                if like is None:
                    like = found[:0].copy()
                    kind = np.lib.format.dtype_to_descr(found.dtype)
                    header = {"descr": kind, "fortran_order": False, "shape": (rows, *found.shape[1:])}
                    np.lib.format.write_array_header_1_0(out, header)
                if (found.shape[1:], found.dtype) != (like.shape[1:], like.dtype):
                    raise errors.ShapeMismatch(
                        f"{file} has inputs of shape {found.shape[1:]} ({found.dtype}) and {files[0]} of shape "
                        f"{like.shape[1:]} ({like.dtype}); they must be of one shape and type"
                    )
                found.tofile(out)


def _batches(file: Path, columns: Sequence[str], numbers: Numbers) -> Iterator[Array]:
    done = 0
    with pq.ParquetFile(file, memory_map=True) as parquet:
        for batch in parquet.iter_batches(batch_size=_BATCH, columns=list(columns)):
            found = numbers(pa.Table.from_batches([batch]))
            check_finite(found, range(done, done + len(found)))
            done += len(found)
            yield found
