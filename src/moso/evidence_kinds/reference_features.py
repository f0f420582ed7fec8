"""Features: the inputs of the classifier of the trained reference network, ``[samples, width]``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.evidence import read_features, write_features
from moso.evidence.features import is_written
from moso.evidence_kinds.kind import EvidenceKind, Measuring, SeedRun


class NotedFeatures(EvidenceKind[NDArray[np.float32]]):
    """Features in an npy file below `features/`, complete once their JSON file exists."""

    is_embedding = True

    def is_complete(self, home: Path, index: int = 0, columns: object = ()) -> bool:
        """Return whether the features and their JSON file are on disk."""
        return is_written(self.path(home))

    def read(self, given: SeedRun, column: str = "") -> NDArray[np.float32]:
        """Read the features, ``[samples, width]``, memory-mapped."""
        return read_features(self.path(given.home))


class ReferenceFeatures(NotedFeatures):
    """Features of the first reference."""

    name = "features"
    description = "features"
    network = "reference"
    moment = "final"
    file = "features/reference-00.npy"

    def measure(self, given: Measuring) -> None:
        """Compute the features in one forward pass."""
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
