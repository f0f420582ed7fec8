"""Rows of features, written batch by batch into one npy file; killed at any moment, the next call goes on.

Rows go into `.NAME.partial`, a memory map of the final size. Beside it `.NAME.partial.json` says how many rows are on
the disk, and which batches they were computed in, because the size of a batch changes the last bits. The file gets its
name when all rows are there. So a file that was interrupted has the bytes of one that was not.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.checksums import seal
from moso.data.views import View, load
from moso.embedding.embedder import Embedder
from moso.evidence import arrays
from moso.files import read_record, write_record
from moso.gradients.fitting import is_out_of_memory
from moso.progress import Progress, silent

BATCH_SIZE = 64
# Seconds of work that a kill may cost.
_SAVED_EVERY = 5.0

Read = Callable[[NDArray[np.int64]], Any]
Compute = Callable[[Any], NDArray[np.float32]]


def write_rows(
    path: Path,
    count: int,
    batches: Callable[[list[NDArray[np.int64]]], Iterator[Any]],
    compute: Compute,
    *,
    dtype: str = "float16",
    batch_size: int = BATCH_SIZE,
    decided_by: dict[str, Any] | None = None,
    progress: Progress = silent,
    label: str = "embedding",
) -> None:
    """Write one row of features per sample; a file that exists is left as it is.

    Args:
        path: The npy file.
        count: Number of samples.
        batches: Returns the batches of a plan, in order.
        compute: Maps a batch to its rows, float32 `[batch, ...]`.
        dtype: Type of the stored numbers.
        batch_size: Samples per batch; halved if memory runs out.
        decided_by: What decides the rows; a partial file of other decisions is begun anew.
        progress: Called after every batch.
        label: Name of the work, for progress.

    Raises:
        ValuesNotFinite: A feature is not finite, or too large for the type.
        OutOfMemory: One sample alone does not fit in memory.
    """
    if path.exists():
        return
    partial, note = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.partial.json")
    decided = {"samples": count, "dtype": dtype, **(decided_by or {})}
    done, size = _position(partial, note, decided, batch_size)
    file: arrays.MemoryMap | None = arrays.read(partial, writable=True) if done else None
    saved = time.monotonic()
    while done < count:
        plan = [np.arange(start, min(start + size, count)) for start in range(done, count, size)]
        try:
            for positions, batch in zip(plan, batches(plan), strict=True):
                rows = compute(batch)
                if file is None:
                    arrays.create(partial, (count, *rows.shape[1:]), dtype)
                    file = arrays.read(partial, writable=True)
                file[positions] = _stored(rows, dtype, positions)
                done = int(positions[-1]) + 1
                if time.monotonic() - saved > _SAVED_EVERY:
                    file.flush()
                    write_record(note, {"rows": done, "batch_size": size, **decided})
                    saved = time.monotonic()
                progress(label, done, count)
        except (RuntimeError, MemoryError) as problem:
            if not is_out_of_memory(problem):
                raise
            if size == 1:
                raise errors.OutOfMemory("one sample alone does not fit in memory; use a smaller size") from problem
            size //= 2
    assert file is not None, "data sets are never empty"
    file.flush()
    del file
    seal(partial, path.suffix)
    partial.replace(path)
    note.unlink(missing_ok=True)


def _position(partial: Path, note: Path, decided: dict[str, Any], batch_size: int) -> tuple[int, int]:
    """Return how many rows are on the disk and the size of their batches."""
    if partial.exists() and note.exists():
        found = read_record(note)
        if {name: found.get(name) for name in decided} == json.loads(json.dumps(decided)):
            return int(found["rows"]), int(found["batch_size"])
    note.unlink(missing_ok=True)
    return 0, batch_size


def _stored(rows: NDArray[np.float32], dtype: str, positions: NDArray[np.int64]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        found = rows.astype(dtype)
    bad = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(axis=1))
    if len(bad):
        large = bool(np.isfinite(rows[bad[0]]).all())
        reason = f"too large for {dtype}; store float32" if large else "NaN or infinite"
        raise errors.ValuesNotFinite(f"the features of sample {positions[bad[0]]} are {reason}")
    return found


def batches_of(
    embedder: Embedder, view: View, text: Callable[[int], str | None], loader_workers: int = 0
) -> Callable[[list[NDArray[np.int64]]], Iterator[Any]]:
    """Return the function from a plan to the batches that an embedder is called with.

    Args:
        embedder: The embedder.
        view: The samples.
        text: Returns the text of a sample.
        loader_workers: Processes that read ahead.
    """

    def of_texts(plan: list[NDArray[np.int64]]) -> Iterator[Any]:
        return ([text(int(position)) for position in positions] for positions in plan)

    def of_inputs(plan: list[NDArray[np.int64]]) -> Iterator[Any]:
        return load(view, plan, 0, loader_workers)

    return of_texts if embedder.reads_texts else of_inputs
