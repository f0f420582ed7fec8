"""How the surrogates were trained: loss, learning rate and accuracy by epoch, and which time steps were looked at."""

from typing import Any

import numpy as np

from moso.errors import MosoError
from moso.evidence.dynamics import UNSEEN
from moso.report.page.sample_history import recorded_dynamics, steps_of
from moso.report.page.stability import stability
from moso.results.reading import Run

NO_ACCURACY = (
    "Accuracy while training is recorded with dynamics, where a method asks for them, for example "
    "moso score RUN --method forgetting."
)


def training(run: Run) -> dict[str, Any]:
    """The first seed's surrogates, and how stable the ranking is as time steps are added."""
    histories = []
    for part in range(run.configuration.partitions):
        try:
            history = run.history(part)
        except MosoError:  # not trained yet
            continue
        kept = {name: [_rounded(value) for value in history[name]] for name in ("loss", "learning_rate")}
        histories.append({"part": part, "total_steps": history["total_steps"], **kept})
    accuracy = _accuracy(run)
    return {
        "histories": histories,
        "steps": steps_of(run),
        "sampling": run.configuration.sampling,
        "accuracy": accuracy,
        "no_accuracy": "" if accuracy else NO_ACCURACY,
        "stability": stability(run),
    }


def _accuracy(run: Run) -> list[float]:
    """The share of samples that the network trained on all of them got right in each epoch, where recorded."""
    dynamics = recorded_dynamics(run)
    if dynamics is None or "correct" not in dynamics.columns:
        return []
    return [round(100 * float(np.mean(epoch[epoch != UNSEEN])), 3) for epoch in dynamics.column("correct")]


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
