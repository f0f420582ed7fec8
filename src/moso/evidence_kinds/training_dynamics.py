"""Training dynamics: outputs of the reference network per sample and epoch; `dynamics:COLUMN` is one column.

They are recorded during training, if requested (`run/training.py`).
"""

from moso.evidence import Dynamics
from moso.evidence.outputs import COLUMNS
from moso.evidence_kinds.kind import EvidenceKind, SeedRun


class TrainingDynamics(EvidenceKind[Dynamics]):
    """The recorded columns, all in one object."""

    name = "dynamics"
    description = "training dynamics"
    network = "reference"
    moment = "training"
    file = "dynamics/reference-00"
    columns = tuple(COLUMNS)
    about_classes = True
    effort = ""

    def read(self, given: SeedRun, column: str = "") -> Dynamics:
        """Open the training dynamics with every recorded column."""
        return Dynamics.open(self.path(given.home))


DYNAMICS = TrainingDynamics()
