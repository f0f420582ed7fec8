"""Results of exact scoring as records: the setting, a table for Parquet, plain values for JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from moso.data.samples import Samples
from moso.exact.study import Comparison


@dataclass(frozen=True)
class Setting:
    """The data, network and recipe of an exact scoring."""

    dataset: str
    label_noise: float
    inputs: str
    model: str
    samples: int
    recipe: str
    batch_size: int
    momentum: float
    seed: int

    def __str__(self) -> str:
        noise = f", {self.label_noise:.0%} label noise" if self.label_noise else ""
        batch = "full batch" if self.batch_size >= self.samples else f"batches of {self.batch_size}"
        momentum = f", momentum {self.momentum:g}" if self.momentum else ""
        plain = ", plain inputs" if self.inputs == "plain" else ""
        data = f"{self.samples} samples of {self.dataset}{plain}{noise}"
        return f"{self.model} on {data}, {batch}{momentum}, seed {self.seed}"


def table_of(train: Samples, comparisons: Sequence[Comparison], grid: bool) -> pa.Table:
    """Return one row per sample left out: id, label, exact score and approximations.

    Args:
        train: The training samples.
        comparisons: The results to list.
        grid: Whether to add columns for the learning rate and the number of steps.
    """
    parts = []
    for comparison in comparisons:
        chosen = comparison.exact.left_out
        columns: dict[str, Any] = {"id": train.ids.take(pa.array(chosen)), "label": pa.array(train.labels[chosen])}
        if grid:
            columns["learning_rate"] = pa.array(np.full(len(chosen), comparison.bound.learning_rate))
            columns["steps"] = pa.array(np.full(len(chosen), comparison.bound.steps))
        columns["exact"] = pa.array(comparison.exact.scores)
        columns.update({name: pa.array(values) for name, values in comparison.approximations.items()})
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def measured(comparison: Comparison) -> dict[str, Any]:
    """Return the measurements of a comparison as plain values for JSON."""
    exact, bound = comparison.exact, comparison.bound
    approximations: dict[str, Any] = {}
    for name in comparison.approximations:
        approximations[name] = {
            "spearman": asdict(comparison.spearman[name]),
            "pearson": asdict(comparison.pearson[name]),
        }
        if name in comparison.errors:
            error = comparison.errors[name]
            approximations[name]["error"] = {**asdict(error), "relative": error.relative}
    return {
        "learning_rate": bound.learning_rate,
        "steps": bound.steps,
        "time_steps": comparison.time_steps,
        "left_out": len(exact.scores),
        "positive_share": exact.positive_share,
        "spread": float(exact.scores.std()),
        "seconds": exact.seconds,
        "bound": {**asdict(bound), "value": bound.value},
        "approximations": approximations,
    }


def without_nan(value: object) -> Any:
    """Replace NaN and infinity by None (JSON's null), recursively."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: without_nan(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_nan(part) for part in value]
    return value
