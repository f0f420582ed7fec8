"""Cache of columns too large for memory: copied once into a memory-mapped Arrow file.

Parquet is compressed page by page, so reading one image means decompressing its whole page. An Arrow file has the
layout of memory, and loader workers share its pages.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from moso.columns import cache_folder
from moso.files import replacing
from moso.randomness import key


def memory_mapped(files: Sequence[Path], columns: Sequence[str]) -> pa.Table:
    """Return these columns of Parquet files, concatenated, as a table in memory-mapped files."""
    parts = []
    for file in files:
        state = file.stat()
        # Size and modification time are part of the name, so the copy of a changed file is never read.
        name = key(str(file.resolve()), state.st_size, state.st_mtime_ns, *columns)
        copy = cache_folder() / f"{file.stem}-{name:016x}.arrow"
        if not copy.exists():
            warnings.warn(
                f"{file} is too large for memory; its columns {', '.join(columns)} are copied once to {copy}",
                stacklevel=2,
            )
            _copy(file, columns, copy)
        with pa.memory_map(str(copy)) as source:
            parts.append(pa.ipc.open_file(source).read_all())
    return pa.concat_tables(parts)


def _copy(file: Path, columns: Sequence[str], copy: Path) -> None:
    with replacing(copy) as temporary, pq.ParquetFile(file, memory_map=True) as parquet:
        schema = pa.schema([parquet.schema_arrow.field(name) for name in columns])
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in parquet.iter_batches(batch_size=1024, columns=list(columns)):
                writer.write_batch(batch)
