"""The training of the surrogates: loss, learning rate and accuracy per epoch, and the recorded time steps."""

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
    """Return the training histories of the first seed's surrogates, and the stability of the ranking."""
    histories = []
    for part in range(run.configuration.partitions):
        try:
            history = run.history(part)
        except MosoError:  # this surrogate is not trained yet
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
    """Return the training accuracy in % per epoch of the network trained on all samples; empty if not recorded."""
    dynamics = recorded_dynamics(run)
    if dynamics is None or "correct" not in dynamics.columns:
        return []
    return [round(100 * float(np.mean(epoch[epoch != UNSEEN])), 3) for epoch in dynamics.column("correct")]


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
