"""What training leaves behind and scores read. Nobody here knows who reads it."""

from moso.evidence.estimators import MEAN_SHARE, Estimator, EstimatorName
from moso.evidence.measure import ParameterFilter, step_terms
from moso.evidence.recorder import Recorder
from moso.evidence.steps import Sampling, sample_steps
from moso.evidence.terms import PartitionTerms, StepTerms, read_terms, terms_path, write_terms
from moso.evidence.trajectory import State, Trajectory, TrajectoryPoint, check_fits, read_state, write_state

__all__ = [
    "MEAN_SHARE",
    "Estimator",
    "EstimatorName",
    "ParameterFilter",
    "PartitionTerms",
    "Recorder",
    "Sampling",
    "State",
    "StepTerms",
    "Trajectory",
    "TrajectoryPoint",
    "check_fits",
    "read_state",
    "read_terms",
    "sample_steps",
    "step_terms",
    "terms_path",
    "write_state",
    "write_terms",
]
