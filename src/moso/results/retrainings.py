"""Retrainings of the evaluation: each is kept in a file of its own, and a table lists all.

A retraining trains on what a selection keeps, on all data, or as one of the baselines that cost what pruning costs.
`samples` of its result is how many an epoch has.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from moso.evaluation.baselines import BASELINES
from moso.evaluation.summary import ACCURACY
from moso.evaluation.summary import FULL as FULL
from moso.files import write_table
from moso.results.selections import Selection

_ORDER = ("method", "selector", "parameters", "ratio", "seed", "network", "recipe", "match")
_COLUMNS = (*_ORDER, "samples", "metric", "unit", "better", "value", "accuracy")


@dataclass(frozen=True)
class Retraining:
    """One retraining: what is kept, with which network, recipe and seed."""

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
        """Whether nothing is removed: the yardstick of all others."""
        return self.method == FULL

    @property
    def is_baseline(self) -> bool:
        """Whether it costs what pruning costs but keeps everything: no selection belongs to it."""
        return self.method in BASELINES

    def selection(self) -> Selection:
        """What is kept."""
        return Selection(self.method, self.selector, self.ratio, self.seed, self.parameters)

    def digest(self) -> str:
        """The name of its file."""
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=8).hexdigest()

    def title(self) -> str:
        """What a person calls it."""
        if self.is_full_data:
            return "on all data"
        return f"{self.method if self.is_baseline else f'{self.method}/{self.selector}'} at {self.ratio:g}"


def retraining_path(root: Path, retraining: Retraining) -> Path:
    """Where a retraining's result is kept."""
    return root / "evaluation" / f"{retraining.digest()}.json"


def all_retrainings(root: Path) -> list[dict[str, Any]]:
    """Every finished retraining with its result, in a fixed order; `accuracy` is None if something else counts."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in (root / "evaluation").glob("*.json")]
    for row in found:
        row["accuracy"] = row["value"] if row["metric"] == ACCURACY.name else None
    return sorted(found, key=lambda row: tuple(row[name] for name in _ORDER))


def write_retrainings_view(root: Path) -> None:
    """`evaluation.parquet`: one row per retraining."""
    rows = all_retrainings(root)
    if rows:
        columns = {name: pa.array([row[name] for row in rows]) for name in _COLUMNS}
        columns["accuracy"] = columns["accuracy"].cast(pa.float64())
        write_table(root / "evaluation.parquet", pa.table(columns))
