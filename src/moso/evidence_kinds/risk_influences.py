"""Influence on the risk: the effect of leaving each sample out, by the inverse Hessian at the end of training."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.second_order.inverse_hessian import ITERATIONS, Solver, risk_influences
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings


class RiskInfluences(EvidenceKind[NDArray[np.float64]]):
    """One number per sample from the first reference, decided by the settings of the score `influence`."""

    name = "risk-influences"
    description = "influences on the risk"
    network = "reference"
    moment = "final"
    effort = "an inverse Hessian-vector product by conjugate gradients, and a pass of per-sample gradients"
    file = "features/risk-influences.npy"
    decided_if_changed = {"risk": "train"}  # noqa: RUF012 - nobody writes to it
    missing = "influences were not computed"

    def measure(self, given: Measuring) -> None:
        """Solve one linear system, then one product per sample."""
        c, train = given.settings, given.train
        found = risk_influences(
            given.network(),
            train.evaluation_view(),
            np.arange(len(train)),
            loss=given.loss,
            risk=given.risk(),
            solver=Solver(**_settings(c), weight_decay=c.surrogate.weight_decay),
            batch_size=c.score_batch_size,
            loader_workers=given.loader_workers,
        )
        with writing(self.path(given.home), found.shape, np.float64) as file:
            file[:] = found

    def price(self, settings: RunSettings) -> Price:
        """Return the price: two passes of per-sample gradients; the system is guessed at a few dozen forward passes."""
        iterations = int(_settings(settings).get("iterations", ITERATIONS))
        looks = min(iterations, 50) * (4 if _settings(settings).get("scope") == "all" else 1)
        return Price(looks=looks, gradients=2, what="influences of {samples} samples", work="influences")

    def decided(self, settings: RunSettings) -> dict[str, object]:
        """Return the risk; the settings of the score are recorded with it."""
        return {**super().decided(settings), **{f"influence_{k}": v for k, v in _settings(settings).items()}}


def _settings(settings: RunSettings) -> dict[str, Any]:
    """Return the user's settings of the score `influence`, by the names of `Solver`."""
    given = dict(settings.settings.get("influence", {}))
    return {"scope" if name == "parameters" else name: value for name, value in given.items()}


RISK_INFLUENCES = RiskInfluences()
