"""Publish MoSo's scores as one small file with their configuration, for use without a rerun."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from moso import errors
from moso.experiments.cells import Cell, by_pipeline
from moso.experiments.pipeline import directory_name
from moso.experiments.provenance import commit
from moso.files import write_table
from moso.results.reading import Run


def publish_scores(cells: Sequence[Cell], out: Path, path: Path) -> list[Run]:
    """Write the MoSo scores of every pipeline that has any to one Parquet file.

    The columns are id, label, partition and one float32 column per score; with several pipelines, the names of the
    columns
    contain arm and seed. The file's metadata has under `moso`, as JSON, the configuration of each column and the
    commit.

    Args:
        cells: The cells whose pipelines are published.
        out: Folder of the run directories.
        path: The file to write.

    Returns:
        The runs whose scores were written.

    Raises:
        StageIncomplete: No run has MoSo's scores yet.
        DataChanged: The runs have different samples or labels.
    """
    found = [
        (own[0], run, names)
        for own in by_pipeline(cells)
        if (run := _run(own[0], out)) is not None and (names := _of(own, run))
    ]
    if not found:
        raise errors.StageIncomplete(f"no run below {out} has MoSo's scores yet; run the experiment first")
    first = found[0][1]
    samples = {name: first.table()[name] for name in ("id", "label")}
    columns: dict[str, pa.ChunkedArray] = {}
    made: dict[str, Any] = {}
    for cell, run, names in found:
        table = run.table()
        if any(not table[name].equals(samples[name]) for name in samples):
            raise errors.DataChanged(
                f"{run.directory.root} has other samples or labels than {first.directory.root}; "
                "choose what belongs into one file with --only"
            )
        titles = {name: name if len(found) == 1 else _title(name, cell) for name in ("partition", *names)}
        for name, title in titles.items():
            columns[title] = table[name] if name == "partition" else table[name].cast(pa.float32())
            made[title] = cell.configuration.model_dump(mode="json") | {"dataset": cell.arm.data}
    note = {"moso": json.dumps({"configurations": made, "commit": commit()})}
    write_table(path, pa.table({**samples, **columns}).replace_schema_metadata(note))
    return [run for _, run, _ in found]


def _run(cell: Cell, out: Path) -> Run | None:
    root = out / directory_name(cell.arm.data, cell.configuration)
    return Run.open(root) if (root / "scores.parquet").exists() else None


def _of(cells: Sequence[Cell], run: Run) -> list[str]:
    """Return the MoSo scores that these cells ask for and the run has, in the order of the declaration."""
    asked = dict.fromkeys(cell.retraining.method for cell in cells if cell.retraining.method.startswith("moso"))
    return [name for name in asked if name in run.scores()]


def _title(name: str, cell: Cell) -> str:
    return ", ".join(part for part in (name, cell.arm.name, f"seed {cell.configuration.seed}") if part)
