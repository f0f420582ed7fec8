"""Retrainings of the evaluation: one JSON file per retraining, and a table of all.

A retraining trains on the samples that a selection keeps, on all data, or as one of the baselines of the same cost as
pruning. `samples` in its result is the number of samples per epoch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from moso.checksums import damaged
from moso.evaluation.baselines import BASELINES
from moso.evaluation.standings import RetrainingRow
from moso.evaluation.summary import FULL as FULL
from moso.files import read_record, write_table
from moso.results.selections import Selection
from moso.tasks.metric import ACCURACY

_ORDER = ("method", "selector", "parameters", "ratio", "seed", "network", "recipe", "match")
_COLUMNS = (*_ORDER, "samples", "metric", "unit", "better", "value", "accuracy")


@dataclass(frozen=True)
class Retraining:
    """One retraining: the selection, the network, the recipe and the seed."""

    method: str
    selector: str
    ratio: float
    seed: int
    network: str
    recipe: str
    match: str
    parameters: str = "{}"

    @property
    def is_full_data(self) -> bool:
        """Whether it trains on all data, the reference for all other retrainings."""
        return self.method == FULL

    @property
    def is_baseline(self) -> bool:
        """Whether it is a baseline: the same cost as pruning, on all data, without a selection."""
        return self.method in BASELINES

    def selection(self) -> Selection:
        """Return the selection whose kept samples are trained on."""
        return Selection(self.method, self.selector, self.ratio, self.seed, self.parameters)

    def digest(self) -> str:
        """Return the hash that names the file."""
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=8).hexdigest()

    def title(self) -> str:
        """Return a name for messages."""
        if self.is_full_data:
            return "on all data"
        return f"{self.method if self.is_baseline else f'{self.method}/{self.selector}'} at {self.ratio:g}"


def retraining_path(root: Path, retraining: Retraining) -> Path:
    """Return the path of the result of a retraining."""
    return root / "evaluation" / f"{retraining.digest()}.json"


def all_retrainings(root: Path) -> list[RetrainingRow]:
    """Return every finished retraining with its result, in a fixed order; `accuracy` is None for other metrics."""
    found: list[RetrainingRow] = []
    for path in (root / "evaluation").glob("*.json"):
        row = read_record(path)
        missing = [name for name in (*_ORDER, "samples", "metric", "value") if name not in row]
        if missing:
            raise damaged(path, f"it has no entry {missing[0]!r}")
        row["accuracy"] = row["value"] if row["metric"] == ACCURACY.name else None
        found.append(cast(RetrainingRow, row))
    rows: Sequence[Mapping[str, Any]] = found
    return [found[place] for place in sorted(range(len(rows)), key=lambda place: [rows[place][one] for one in _ORDER])]


def retraining_of(row: RetrainingRow) -> Retraining:
    """Return the retraining that a row is the result of."""
    chosen = row["method"], row["selector"], row["ratio"], row["seed"]
    return Retraining(*chosen, row["network"], row["recipe"], row["match"], row["parameters"])


def write_retrainings_view(root: Path) -> None:
    """Write `evaluation.parquet`, one row per retraining."""
    rows: Sequence[Mapping[str, object]] = all_retrainings(root)
    if rows:
        columns = {name: pa.array([row[name] for row in rows]) for name in _COLUMNS}
        columns["accuracy"] = columns["accuracy"].cast(pa.float64())
        write_table(root / "evaluation.parquet", pa.table(columns))
