"""MoSo's scores themselves, as one small file with the recipe that made them: for those who want to use, not rerun."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from moso.errors import MosoError
from moso.experiments.cells import Cell
from moso.experiments.pipeline import directory_name
from moso.experiments.provenance import commit
from moso.experiments.settings import MOSO
from moso.files import write_table
from moso.run.reading import Run

PUBLISHED = tuple(contender.method for contender in MOSO)


def publish_scores(cells: Sequence[Cell], out: Path, path: Path) -> Run:
    """Write the MoSo scores of the first pipeline that has them: id, label, partition, and a float32 column a score.

    The file's metadata has, as JSON under `moso`, the configuration of the run and the commit.
    """
    for cell in cells:
        root = out / directory_name(cell.arm.data, cell.configuration)
        run = Run.open(root) if (root / "scores.parquet").exists() else None
        if run is not None and set(PUBLISHED) <= set(run.scores()):
            table = run.table()
            columns = {name: table[name] for name in ("id", "label", "partition")}
            columns |= {name: table[name].cast(pa.float32()) for name in PUBLISHED}
            made = cell.configuration.model_dump(mode="json") | {"dataset": cell.arm.data}
            note = {"moso": json.dumps({"configuration": made, "commit": commit()})}
            write_table(path, pa.table(columns).replace_schema_metadata(note))
            return run
    raise MosoError(f"no run below {out} has MoSo's scores yet; run the experiment first")
