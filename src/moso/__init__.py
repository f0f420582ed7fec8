"""Data pruning with proof: what each training sample is worth, and what can be dropped.

>>> import moso
>>> kept = moso.select([0.3, -0.1, 0.8, 0.5], ratio=0.5, labels=[0, 1, 0, 1])
>>> kept
array([2, 3])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from moso.version import __version__

if TYPE_CHECKING:
    from moso.analysis.verdict import Verdict
    from moso.api import PruneConfig, Pruned, prune, score
    from moso.configuration import Configuration
    from moso.data import Samples, View
    from moso.data.views import Collate
    from moso.errors import MosoError
    from moso.evaluation.standings import RetrainingRow
    from moso.evidence import Dynamics, Estimator, Recorder, Trajectory, TrajectoryPoint
    from moso.evidence.recorder import Attachment
    from moso.gradients import Loss, Risk, SampleRisk
    from moso.integrations.scikit_learn import MosoSelector
    from moso.methods import Method
    from moso.progress import Progress
    from moso.results import Run
    from moso.results.directory import RunDirectory
    from moso.results.manifest import Manifest
    from moso.results.selections import Selection
    from moso.results.verification import Verification
    from moso.scores import Score
    from moso.selection import Keep, Selector, select, select_stream
    from moso.tasks import (
        Classification,
        MultiLabel,
        OwnTask,
        PerSample,
        Regression,
        Task,
        cross_entropy,
        squared_error,
    )

# Where each public name lives. A name is imported when it is first used, so `import moso` takes no time and verbs of
# the command line that need no network do not load PyTorch.
_HOMES = {
    "Verdict": "moso.analysis.verdict",
    **dict.fromkeys(("PruneConfig", "Pruned", "prune", "score"), "moso.api"),
    "Configuration": "moso.configuration",
    **dict.fromkeys(("Samples", "View"), "moso.data"),
    "Collate": "moso.data.views",
    "MosoError": "moso.errors",
    "RetrainingRow": "moso.evaluation.standings",
    **dict.fromkeys(("Dynamics", "Estimator", "Recorder", "Trajectory", "TrajectoryPoint"), "moso.evidence"),
    "Attachment": "moso.evidence.recorder",
    **dict.fromkeys(("Loss", "Risk", "SampleRisk"), "moso.gradients"),
    "MosoSelector": "moso.integrations.scikit_learn",
    "Method": "moso.methods",
    "Progress": "moso.progress",
    "Run": "moso.results",
    "RunDirectory": "moso.results.directory",
    "Manifest": "moso.results.manifest",
    "Selection": "moso.results.selections",
    "Verification": "moso.results.verification",
    "Score": "moso.scores",
    **dict.fromkeys(("Keep", "Selector", "select", "select_stream"), "moso.selection"),
    **dict.fromkeys(
        (
            "Classification",
            "MultiLabel",
            "OwnTask",
            "PerSample",
            "Regression",
            "Task",
            "cross_entropy",
            "squared_error",
        ),
        "moso.tasks",
    ),
}

__all__ = [
    "Attachment",
    "Classification",
    "Collate",
    "Configuration",
    "Dynamics",
    "Estimator",
    "Keep",
    "Loss",
    "Manifest",
    "Method",
    "MosoError",
    "MosoSelector",
    "MultiLabel",
    "OwnTask",
    "PerSample",
    "Progress",
    "PruneConfig",
    "Pruned",
    "Recorder",
    "Regression",
    "RetrainingRow",
    "Risk",
    "Run",
    "RunDirectory",
    "SampleRisk",
    "Samples",
    "Score",
    "Selection",
    "Selector",
    "Task",
    "Trajectory",
    "TrajectoryPoint",
    "Verdict",
    "Verification",
    "View",
    "__version__",
    "cross_entropy",
    "prune",
    "score",
    "select",
    "select_stream",
    "squared_error",
]


if not TYPE_CHECKING:  # type checkers would take every name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'moso' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return list(__all__)
