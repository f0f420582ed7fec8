"""Evidence: what training leaves behind and scores read. Nothing in this package depends on the scores."""

from moso.evidence.dynamics import Dynamics, DynamicsRecorder
from moso.evidence.estimators import MEAN_SHARE, Estimator, EstimatorName
from moso.evidence.features import read_features, write_features
from moso.evidence.measure import ParameterFilter, judged_terms, step_terms
from moso.evidence.predictions import class_errors, read_out_of_sample, write_out_of_sample
from moso.evidence.recorder import Recorder
from moso.evidence.state_files import State, read_state, write_state
from moso.evidence.steps import Sampling, sample_steps
from moso.evidence.terms import PartitionTerms, StepTerms, read_terms, terms_path, write_terms
from moso.evidence.trajectory import Trajectory, TrajectoryPoint, check_fits

__all__ = [
    "MEAN_SHARE",
    "Dynamics",
    "DynamicsRecorder",
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
    "class_errors",
    "judged_terms",
    "read_features",
    "read_out_of_sample",
    "read_state",
    "read_terms",
    "sample_steps",
    "step_terms",
    "terms_path",
    "write_features",
    "write_out_of_sample",
    "write_state",
    "write_terms",
]
