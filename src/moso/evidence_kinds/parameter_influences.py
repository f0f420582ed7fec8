"""Influences: the effect of removing each sample on the parameters of the trained reference, ``[samples, numbers]``."""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.second_order.influences import influences
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings


class ParameterInfluences(EvidenceKind[NDArray[np.float32]]):
    """Projected influences on the parameters of the first reference."""

    name = "influences"
    description = "influences on the parameters"
    network = "reference"
    moment = "final"
    effort = "a Hessian of some samples and a product per sample"
    file = "features/influences.npy"
    missing = "influences were not computed"

    def measure(self, given: Measuring) -> None:
        """Compute the Hessian of some samples, then one product per sample."""
        c, train = given.settings, given.train
        rows = influences(
            given.network(),
            train.evaluation_view(),
            np.arange(len(train)),
            loss=given.loss,
            weight_decay=c.surrogate.weight_decay,
            seed=given.seed,
            batch_size=c.score_batch_size,
            loader_workers=given.loader_workers,
        )
        with writing(self.path(given.home), rows.shape, np.float32) as file:
            file[:] = rows

    def price(self, settings: RunSettings) -> Price:
        """Return the price: one pass for the Hessian and one for the products."""
        return Price(looks=2)


INFLUENCES = ParameterInfluences()
