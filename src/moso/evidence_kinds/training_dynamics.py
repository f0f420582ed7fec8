"""Dynamics: what the reference network said about every sample while it trained; `dynamics:COLUMN` is one column.

The training itself leaves them, if it is told to (`run/training.py`).
"""

from moso.evidence import Dynamics
from moso.evidence.outputs import COLUMNS
from moso.evidence_kinds.kind import EvidenceKind, SeedRun


class TrainingDynamics(EvidenceKind[Dynamics]):
    """The columns that were recorded, all of them at once."""

    name = "dynamics"
    description = "training dynamics"
    network = "reference"
    moment = "training"
    file = "dynamics/reference-00"
    columns = tuple(COLUMNS)
    about_classes = True

    def read(self, given: SeedRun, column: str = "") -> Dynamics:
        """What the reference said; every recorded column is in it."""
        return Dynamics.open(self.path(given.home))


DYNAMICS = TrainingDynamics()
