"""Final outputs: quantities from the outputs of the trained reference; `final:COLUMN` is one column, ``[samples]``."""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.outputs import COLUMNS, describe, iter_logits
from moso.evidence_kinds.kind import EvidenceKind, Measuring


class FinalOutputs(EvidenceKind[NDArray[np.float32]]):
    """One number per sample and column, from one forward pass."""

    name = "final"
    description = "what the trained network says"
    network = "reference"
    moment = "final"
    file = "predictions/reference-00/{column}.npy"
    columns = tuple(COLUMNS)
    about_classes = True
    missing = "the trained network was not asked"
    label = "predictions"

    def measure(self, given: Measuring) -> None:
        """Compute all requested columns in one forward pass."""
        train, classes = given.train, len(given.train.classes)
        view, everything = train.evaluation_view(), np.arange(len(train))
        found = {name: np.empty(len(train), dtype=np.float32) for name in given.columns}
        batches = iter_logits(given.network(), given.loss, view, everything, classes, given.loader_workers)
        for positions, logits in batches:
            for name, values in describe(logits, train.labels[positions], given.columns).items():
                found[name][positions] = values
        for name, column in found.items():
            with writing(self.path(given.home, 0, name), column.shape, np.float32) as file:
                file[:] = column


FINAL = FinalOutputs()
