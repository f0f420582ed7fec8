"""Features: what the classifier of the trained reference network is given for every sample, `[samples, width]`."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.evidence import read_features, write_features
from moso.evidence.features import is_written
from moso.evidence_kinds.kind import EvidenceKind, Measuring, SeedRun


class NotedFeatures(EvidenceKind[NDArray[np.float32]]):
    """Rows of numbers in `features/`, complete when the note beside them is there."""

    def is_complete(self, home: Path, index: int = 0, columns: object = ()) -> bool:
        """Whether rows and note are there."""
        return is_written(self.path(home))

    def read(self, given: SeedRun, column: str = "") -> NDArray[np.float32]:
        """The rows as a memory map."""
        return read_features(self.path(given.home))


class ReferenceFeatures(NotedFeatures):
    """Features of the first reference."""

    name = "features"
    description = "features"
    network = "reference"
    moment = "final"
    file = "features/reference-00.npy"

    def measure(self, given: Measuring) -> None:
        """One forward pass."""
        write_features(
            self.path(given.home),
            given.network(),
            given.train.evaluation_view(),
            len(given.train),
            loss=given.loss,
            loader_workers=given.loader_workers,
            network=given.settings.model,
            seed=given.seed,
            epochs=given.settings.surrogate.epochs,
        )


FEATURES = ReferenceFeatures()
