"""The adjoint of training: how a sample's loss weight changes the final risk, by differentiating the run itself.

A run is replayed from sparse checkpoints and differentiated step by step, from its end to its start. For the
mathematics, read `step.py` (one update) and then `reverse_sweep.py` (all updates).
"""

from moso.adjoint.adjoint_terms import AdjointTerms, read_adjoint, write_adjoint
from moso.adjoint.replay import Replay, ReplayRecorder
from moso.adjoint.reverse_sweep import adjoint_sweep

__all__ = [
    "AdjointTerms",
    "Replay",
    "ReplayRecorder",
    "adjoint_sweep",
    "read_adjoint",
    "write_adjoint",
]
