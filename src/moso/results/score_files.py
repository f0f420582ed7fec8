"""Scores on disk: one Parquet file per score, and a JSON file that records how it was computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso.columns import BLOCK, empty_column
from moso.files import read_record, reading_table, write_record, write_table


def store_score(home: Path, name: str, ids: pa.Array, values: NDArray[np.float64], made_by: dict[str, object]) -> None:
    """Write one score and its record.

    Args:
        home: Folder of the seed.
        name: Name of the score.
        ids: One id per sample.
        values: One float per sample, in dataset order, shape ``[samples]``.
        made_by: How the score was computed, as JSON.
    """
    write_table(home / "scores" / f"{name}.parquet", pa.table({"id": ids, "score": values}))
    write_record(home / "scores" / f"{name}.json", made_by)


def read_scores(home: Path) -> dict[str, NDArray[np.float64]]:
    """Read every score of a seed by name, each ``[samples]`` in dataset order."""
    names = sorted(path.stem for path in (home / "scores").glob("*.parquet"))
    return {name: _read_score(home / "scores" / f"{name}.parquet") for name in names}


def _read_score(path: Path) -> NDArray[np.float64]:
    with reading_table(path) as file:
        found, filled = empty_column(file.metadata.num_rows, np.float64), 0
        for batch in file.iter_batches(BLOCK, columns=["score"]):
            found[filled : filled + len(batch)] = batch["score"].to_numpy(zero_copy_only=False)
            filled += len(batch)
    return found


def score_note(home: Path, name: str) -> dict[str, Any]:
    """Read the record of how a score was computed; empty if there is no score of this name."""
    path = home / "scores" / f"{name}.json"
    return read_record(path) if path.exists() else {}
