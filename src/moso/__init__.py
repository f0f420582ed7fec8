"""Data pruning with proof: what each training sample is worth, and what can be dropped.

>>> import moso
>>> kept = moso.select([0.3, -0.1, 0.8, 0.5], ratio=0.5, labels=[0, 1, 0, 1])
>>> kept
array([2, 3])

Names are imported on first use: torch takes seconds, and `moso --help` needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from moso.errors import MosoError
from moso.version import __version__

if TYPE_CHECKING:
    from moso.api import Pruned, prune, score
    from moso.evidence import Estimator, Recorder, Trajectory
    from moso.gradients import SampleRisk
    from moso.results import Run
    from moso.selection import select
    from moso.tasks import squared_error

# The module of every name that is imported on first use.
_MODULES = {
    "Estimator": "moso.evidence",
    "Pruned": "moso.api",
    "Recorder": "moso.evidence",
    "Run": "moso.results",
    "SampleRisk": "moso.gradients",
    "Trajectory": "moso.evidence",
    "prune": "moso.api",
    "score": "moso.api",
    "select": "moso.selection",
    "squared_error": "moso.tasks",
}

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
