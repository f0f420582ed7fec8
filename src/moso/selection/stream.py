"""`select_stream`: selectors that rank scores, over Parquet files that are too large for memory.

The files are read three times, in batches: first for the class sizes; then for the scores, which are grouped by class
in one array and partitioned to find the lowest kept score of each class; finally for the kept rows. Memory: 8 bytes per
sample, 8 more per kept sample, and the ids of the samples tied at the lowest kept score. The result equals that of
`select` on the same columns.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array
from moso.selection.budget import kept_count
from moso.selection.quotas import Counts, balanced_quotas, check_every_class, proportional_quotas
from moso.selection.share import Keep, asked_ratio

STREAMED = ("top", "bottom", "balanced", "proportional")
_BATCH = 1 << 20
Batch = tuple[int, NDArray[np.float64], NDArray[np.int64], pa.Array | None]


def select_stream(
    path: str | Path,
    *,
    ratio: float | str | None = None,
    keep: float | int | str | Keep | None = None,
    selector: str = "balanced",
    score: str = "score",
    label: str = "label",
    id: str | None = "id",  # noqa: A002 - the column's name in our own score files
) -> NDArray[np.int64]:
    """Return the ascending row numbers of the kept samples.

    Args:
        path: A Parquet file, or a folder whose Parquet files are read in the order of their names.
        ratio: Share of samples to remove, in ``[0, 1)``.
        keep: What stays, in place of `ratio`: a share (0.6) or a number of samples (3000).
        selector: One of `STREAMED`.
        score: Name of the column of scores.
        label: Name of the column of labels; read by class-wise selectors only.
        id: Name of the column of ids, which break ties; None breaks ties by row number.

    Raises:
        SettingsConflict: The selector cannot be streamed.
        FileMissing: `path` has no Parquet file.
        ColumnMissing: A file lacks a column.
        LabelsMissing: A row has no label.
        ValuesNotFinite: A score is NaN.
        RatioOutOfRange: `ratio` is outside ``[0, 1)`` or keeps no sample.
        BudgetImpossible: A class-wise selector has a budget smaller than the number of classes.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "scores.parquet"
        >>> pq.write_table(pa.table({"id": [0, 1, 2, 3], "score": [0.1, 0.9, 0.5, 0.7], "label": [0, 1, 0, 1]}), file)
        >>> select_stream(file, ratio=0.5)
        array([1, 2])
    """
    if selector not in STREAMED:
        raise errors.SettingsConflict(f"selector {selector!r} cannot be streamed; {', '.join(STREAMED)} can")
    by_class = selector in ("balanced", "proportional")
    table = _Columns(_files(Path(path)), score, label if by_class else None, id, -1.0 if selector == "bottom" else 1.0)
    sizes = table.sizes()
    count = int(sizes.sum())
    budget = kept_count(count, asked_ratio(ratio, keep, count))
    if by_class:
        check_every_class(selector, sizes, budget)
    quotas = proportional_quotas(sizes, budget) if selector == "proportional" else balanced_quotas(sizes, budget)
    last, tied = _last_kept(table, sizes, quotas)
    return _rows_kept(table, budget, last, tied)


def _last_kept(table: "_Columns", sizes: Counts, quotas: Counts) -> tuple[NDArray[np.float64], Counts]:
    """Return for each class the lowest kept score, and how many samples with exactly that score are kept."""
    grouped = np.empty(int(sizes.sum()))
    free = np.cumsum(sizes) - sizes
    starts = free.copy()
    for start, scores, labels, _ in table.batches():
        if np.isnan(scores).any():
            first = start + int(np.argmax(np.isnan(scores)))
            raise errors.ValuesNotFinite(f"the score of sample {first} is NaN; every sample needs a score")
        order = np.argsort(labels, kind="stable")
        counts = np.bincount(labels, minlength=len(sizes))
        shift = np.repeat(free - (np.cumsum(counts) - counts), counts)
        grouped[np.arange(len(order)) + shift] = scores[order]
        free += counts
    last, tied = np.full(len(sizes), np.inf), np.zeros(len(sizes), dtype=np.int64)
    for c in np.flatnonzero(quotas):
        own = grouped[starts[c] : starts[c] + sizes[c]]
        place = int(sizes[c] - quotas[c])
        own.partition(place)
        last[c] = own[place]
        tied[c] = quotas[c] - int((own[place:] > last[c]).sum())
    return last, tied


def _rows_kept(table: "_Columns", budget: int, last: NDArray[np.float64], tied: Counts) -> NDArray[np.int64]:
    kept = np.empty(budget, dtype=np.int64)
    filled = 0
    ties: list[tuple[NDArray[np.int64], NDArray[np.int64], Array]] = []
    for start, scores, labels, ids in table.batches(with_ids=True):
        above = np.flatnonzero(scores > last[labels]) + start
        kept[filled : filled + len(above)] = above
        filled += len(above)
        at = np.flatnonzero((scores == last[labels]) & (tied[labels] > 0))
        if len(at):
            names = at + start if ids is None else ids.take(pa.array(at)).to_numpy(zero_copy_only=False)
            ties.append((at + start, labels[at], names))
    rows, classes, names = (np.concatenate(columns) for columns in zip(*ties, strict=True))
    order = np.lexsort((names, classes))
    rank = np.arange(len(order)) - np.searchsorted(classes[order], classes[order])
    kept[filled:] = rows[order][rank < tied[classes[order]]]
    kept.sort()
    return kept


class _Columns:
    """Reader of scores (times a sign), class numbers and ids, in batches."""

    def __init__(self, files: list[Path], score: str, label: str | None, identity: str | None, sign: float) -> None:
        self._files, self._score, self._label, self._id, self._sign = files, score, label, identity, sign
        self._classes: Any = None
        for file in files:
            missing = {name for name in (score, label, identity) if name} - set(pq.read_schema(file).names)
            if missing:
                raise errors.ColumnMissing(f"{file} has no column {min(missing)!r}")

    def sizes(self) -> Counts:
        """Return the number of samples per class, in sorted order; a single class if there is no label column."""
        if self._label is None:
            return np.array([sum(pq.read_metadata(file).num_rows for file in self._files)])
        counts: dict[Any, int] = {}
        for batch in self._read([self._label]):
            for entry in pc.value_counts(batch.column(0)).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
        if None in counts:
            raise errors.LabelsMissing(f"column {self._label!r} has {counts[None]} rows without a label")
        names = sorted(counts)
        self._classes = pa.array(names, _plain(pq.read_schema(self._files[0]).field(self._label).type))
        return np.array([counts[name] for name in names])

    def batches(self, with_ids: bool = False) -> Iterator[Batch]:
        """Yield the first row, scores, class numbers and ids of each batch."""
        wanted = [self._score, *([self._label] if self._label else []), *([self._id] if with_ids and self._id else [])]
        start = 0
        for batch in self._read(wanted):
            scores = batch.column(self._score).to_numpy(zero_copy_only=False).astype(np.float64) * self._sign
            labels = np.zeros(len(scores), dtype=np.int64)
            if self._label is not None:
                column = batch.column(self._label)
                plain = column.cast(self._classes.type)
                labels = pc.index_in(plain, self._classes).to_numpy().astype(np.int64)
            yield start, scores, labels, batch.column(self._id) if with_ids and self._id else None
            start += len(scores)

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for file in self._files:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(batch_size=_BATCH, columns=columns)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise errors.FileMissing(f"{path} is neither a Parquet file nor a folder with some")
    return files
