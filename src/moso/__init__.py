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
    from moso.api import PruneConfig, Pruned, SequenceData, TokenScores, prune, score, token_scores
    from moso.api.dynamic_pruning import DynamicPruning
    from moso.configuration import Configuration
    from moso.data import Samples, View
    from moso.data.views import Collate
    from moso.errors import MosoError
    from moso.evaluation.standings import RetrainingRow
    from moso.evidence import Dynamics, Estimator, Recorder, Trajectory, TrajectoryPoint
    from moso.evidence.moments import Moments, optimizer_moments
    from moso.evidence.recorder import Attachment
    from moso.gradients import Loss, Risk, SampleRisk
    from moso.indexing import GradientIndex
    from moso.integrations.scikit_learn import MosoSelector
    from moso.methods import Method
    from moso.progress import Progress
    from moso.results import Run
    from moso.results.directory import RunDirectory
    from moso.results.manifest import Manifest
    from moso.results.selections import Selection
    from moso.results.verification import Verification
    from moso.scores import Score
    from moso.selection import Keep, Kept, SelectArguments, Selector, select, select_stream, select_weighted
    from moso.tasks import (
        Classification,
        MultiLabel,
        OwnTask,
        PerSample,
        Regression,
        Task,
        cross_entropy,
        masked_token_loss,
        next_token_loss,
        squared_error,
    )

# Where each public name lives. A name is imported when it is first used, so `import moso` takes no time and verbs of
# the command line that need no network do not load PyTorch.
_HOMES = {
    "Verdict": "moso.analysis.verdict",
    "Verification": "moso.results.verification",
    **dict.fromkeys(
        ("PruneConfig", "Pruned", "SequenceData", "TokenScores", "prune", "score", "token_scores"), "moso.api"
    ),
    "DynamicPruning": "moso.api.dynamic_pruning",
    "Configuration": "moso.configuration",
    **dict.fromkeys(("Samples", "View"), "moso.data"),
    "Collate": "moso.data.views",
    "MosoError": "moso.errors",
    "RetrainingRow": "moso.evaluation.standings",
    **dict.fromkeys(("Dynamics", "Estimator", "Recorder", "Trajectory", "TrajectoryPoint"), "moso.evidence"),
    **dict.fromkeys(("Moments", "optimizer_moments"), "moso.evidence.moments"),
    "Attachment": "moso.evidence.recorder",
    **dict.fromkeys(("Loss", "Risk", "SampleRisk"), "moso.gradients"),
    "GradientIndex": "moso.indexing",
    "MosoSelector": "moso.integrations.scikit_learn",
    "Method": "moso.methods",
    "Progress": "moso.progress",
    "Run": "moso.results",
    "RunDirectory": "moso.results.directory",
    "Manifest": "moso.results.manifest",
    "Selection": "moso.results.selections",
    "Score": "moso.scores",
    **dict.fromkeys(
        ("Keep", "Kept", "SelectArguments", "Selector", "select", "select_stream", "select_weighted"), "moso.selection"
    ),
    **dict.fromkeys(
        (
            "Classification",
            "MultiLabel",
            "OwnTask",
            "PerSample",
            "Regression",
            "Task",
            "cross_entropy",
            "masked_token_loss",
            "next_token_loss",
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
    "DynamicPruning",
    "Dynamics",
    "Estimator",
    "GradientIndex",
    "Keep",
    "Kept",
    "Loss",
    "Manifest",
    "Method",
    "Moments",
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
    "SelectArguments",
    "Selection",
    "Selector",
    "SequenceData",
    "Task",
    "TokenScores",
    "Trajectory",
    "TrajectoryPoint",
    "Verdict",
    "Verification",
    "View",
    "__version__",
    "cross_entropy",
    "masked_token_loss",
    "next_token_loss",
    "optimizer_moments",
    "prune",
    "score",
    "select",
    "select_stream",
    "select_weighted",
    "squared_error",
    "token_scores",
]


if not TYPE_CHECKING:  # type checkers would take every name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'moso' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return list(__all__)
