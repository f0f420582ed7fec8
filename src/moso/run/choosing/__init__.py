"""What `--method auto` stands for: candidates tried on held-out training data, in rounds of halving."""

from moso.run.choosing.decision import Decision, auto_path, read_decision, read_decisions
from moso.run.choosing.held_out import folds, possible_candidates
from moso.run.choosing.stage import choose_methods, chosen_samples, planned_trials
from moso.run.choosing.trial import is_trial

__all__ = [
    "Decision",
    "auto_path",
    "choose_methods",
    "chosen_samples",
    "folds",
    "is_trial",
    "planned_trials",
    "possible_candidates",
    "read_decision",
    "read_decisions",
]
