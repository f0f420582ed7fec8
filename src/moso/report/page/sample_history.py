"""The history of single samples on the page: scores at each time step, dynamics, and neighbours in feature space."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.analysis.principal_components import principal_components
from moso.analysis.run_features import RunFeatures
from moso.errors import MosoError
from moso.evidence import read_terms
from moso.evidence.dynamics import Dynamics
from moso.evidence.layout import part_name
from moso.report.page.page_columns import Column, once, quantised
from moso.report.page.sample_columns import Columns
from moso.results.reading import Run
from moso.scores import agreement
from moso.selection.feature_rows import Features

REFERENCE = "reference-00"
# Dynamics that the page shows, most informative first, with the range of their quantisation; None: from their
# minimum to their maximum.
_CURVES: dict[str, tuple[float, float] | None] = {
    "probability": (0.0, 1.0),
    "correct": (0.0, 255.0),
    "margin": None,
    "error_norm": (0.0, 1.5),
    "entropy": None,
    "gap": (0.0, 1.0),
    "confidence": (0.0, 1.0),
}
NO_DYNAMICS = (
    "Training dynamics (outputs per sample and epoch) are recorded where a method needs them, for example "
    "moso score RUN --method forgetting --method aum."
)
# Dimensions per sample of the sketched features in a page without a server.
SKETCH = 32


def evidence_columns(run: Run, features: RunFeatures | str) -> tuple[dict[str, Any], Columns]:
    """Return recorded step terms, dynamics and features as columns, and for each missing kind how to record it."""
    count = run.manifest["dataset"]["train"]
    steps = _steps(run, count)
    about = {"dynamics": NO_DYNAMICS, "features": features if isinstance(features, str) else ""}
    columns = {} if steps is None else {"steps": steps}
    curves = _dynamics(run, count)
    if curves:
        about["dynamics"] = ""
        columns |= curves
    if not isinstance(features, str):
        rows = features.train
        columns["features"] = Column(
            "int8", count, lambda: sketched(rows).T, min(SKETCH, rows.dimension), nearest=Nearest(rows)
        )
    return about, columns


def steps_of(run: Run) -> list[list[int]]:
    """Return the recorded time steps of each partition, ascending."""
    folders = [run.directory.root / "terms" / part_name(part) for part in range(run.configuration.partitions)]
    return [sorted(int(path.stem.removeprefix("step-")) for path in one.glob("step-*.npz")) for one in folders]


def agreements(run: Run, part: int) -> NDArray[np.float64]:
    """Return `eta_t a_t(z)` of one partition, the values that MoSo's scores average; shape ``[steps, samples]``."""
    folder = run.directory.root / "terms" / part_name(part)
    found = [agreement(read_terms(path), run.configuration.form) for path in sorted(folder.glob("step-*.npz"))]
    return np.stack(found)


def _steps(run: Run, count: int) -> Column | None:
    steps = steps_of(run)
    number = max(map(len, steps), default=0)
    if number == 0 or any(len(one) != number for one in steps):
        return None

    def read() -> NDArray[np.float32]:
        values = np.empty((number, count), dtype=np.float32)
        for part, positions in enumerate(run.partitions()):
            values[:, positions] = agreements(run, part)
        return values

    return Column("float32", count, once(read), number)


def recorded_dynamics(run: Run) -> Dynamics | None:
    """Return the dynamics of the network that was trained on all samples; None if they are missing or incomplete."""
    folder = run.directory.root / "dynamics" / REFERENCE
    try:
        return Dynamics.open(folder) if folder.exists() else None
    except MosoError:  # the recording is incomplete
        return None


def _dynamics(run: Run, count: int) -> Columns:
    dynamics, columns = recorded_dynamics(run), {}
    for name, scale in _CURVES.items():
        if dynamics is None or name not in dynamics.columns:
            continue
        found = dynamics.column(name)
        low, high = scale or (float(np.nanmin(found)), float(np.nanmax(found)))
        columns[f"dynamics/{name}"] = Column(
            "uint8",
            count,
            partial(quantised, found, low, high),
            len(found),
            scale=(low, high),
            exact=found,
        )
    return columns


def sketched(features: Features) -> NDArray[np.int8]:
    """Compress features to one byte per principal component, with one scale for all; shape ``[n, dimensions]``.

    Distances between rows are kept approximately; the page says that its neighbours are approximate.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
        >>> sketched(Features(rows)).shape, int(np.abs(sketched(Features(rows))).max())
        ((100, 8), 127)
    """
    flat = principal_components(features, SKETCH)
    largest = float(np.abs(flat).max())
    return np.asarray(np.rint(flat * (127 / largest if largest > 0 else 0.0)), dtype=np.int8)


class Nearest:
    """Exact nearest samples by Euclidean distance of features, block by block over a memory map.

    Example:
        >>> Nearest(Features([[0.0], [5.0], [1.0], [9.0]]))(0, 2).tolist()
        [2, 1]
    """

    def __init__(self, features: Features, block: int = 65_536) -> None:
        self.features = features
        self.block = block

    def __call__(self, position: int, count: int) -> NDArray[np.int64]:
        """Return the `count` samples nearest to `position`, without itself, nearest first."""
        own = self.features.take(np.array([position]))
        distances = np.concatenate([np.square(rows - own).sum(axis=1) for _, rows in self.features.chunks(self.block)])
        distances[position] = np.inf
        count = min(count, len(distances) - 1)
        near = np.argpartition(distances, count - 1)[:count] if count else np.empty(0, dtype=np.int64)
        return np.asarray(near[np.lexsort((near, distances[near]))])
