"""The adjoint of training: what a sample's loss weight does to the final risk, by differentiating the run itself.

A run is replayed from sparse checkpoints and differentiated step by step from its end to its start. Whoever wants to
read the mathematics begins with `step.py` (one update) and `reverse_sweep.py` (all of them).
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
