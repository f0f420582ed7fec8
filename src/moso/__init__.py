"""Data pruning with proof: what each training sample is worth, and what can be dropped.

>>> import moso
>>> kept = moso.select([0.3, -0.1, 0.8, 0.5], ratio=0.5, labels=[0, 1, 0, 1])
>>> kept
array([2, 3])
"""

from moso.api import Pruned, prune, score
from moso.errors import MosoError
from moso.evidence import Estimator, Recorder, Trajectory
from moso.gradients import SampleRisk
from moso.quiet import prepare_forward_mode
from moso.results import Run
from moso.selection import select
from moso.tasks import squared_error
from moso.version import __version__

prepare_forward_mode()

__all__ = [
    "Estimator",
    "MosoError",
    "Pruned",
    "Recorder",
    "Run",
    "SampleRisk",
    "Trajectory",
    "__version__",
    "prune",
    "score",
    "select",
    "squared_error",
]
