"""What `--method auto` stands for: candidates tried on held-out training data, in rounds of halving."""

from moso.run.choosing.decision import Decision, auto_path, read_decision, read_decisions
from moso.run.choosing.stage import choose_methods, chosen_samples
from moso.run.choosing.trial import is_trial

__all__ = [
    "Decision",
    "auto_path",
    "choose_methods",
    "chosen_samples",
    "is_trial",
    "read_decision",
    "read_decisions",
]
