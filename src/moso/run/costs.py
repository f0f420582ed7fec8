"""What a run has cost so far, read from its directory; no data is opened."""

from dataclasses import fields

import numpy as np

from moso.evaluation.summary import Costs
from moso.run.cells import Cell, all_cells
from moso.run.configuration import Configuration
from moso.run.directory import RunDirectory


def costs(directory: RunDirectory, configuration: Configuration) -> Costs:
    """What the first seed's pruning cost, and what a retraining costs at each ratio, in seconds of computation."""
    own = f"seed-{configuration.seed}/"
    spent = {
        stage: sum(value for piece, value in directory.seconds(stage).items() if piece.startswith(own))
        for stage in ("train", "score")
    }
    retraining = directory.seconds("evaluate")
    names = [field.name for field in fields(Cell)]
    by_ratio: dict[float, list[float]] = {}
    for row in all_cells(directory.root):
        piece = Cell(**{name: row[name] for name in names}).digest()
        if piece in retraining:
            by_ratio.setdefault(row["ratio"], []).append(retraining[piece])
    medians = {ratio: float(np.median(values)) for ratio, values in sorted(by_ratio.items())}
    return Costs(spent["train"], spent["score"], medians, sum(retraining.values()))
