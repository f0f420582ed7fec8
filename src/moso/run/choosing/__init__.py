"""What `--method auto` stands for: candidates tried on held-out training data, in rounds of halving."""

from moso.run.choosing.decision import Decision, read_decision, read_decisions
from moso.run.choosing.stage import choose_methods, chosen_samples

__all__ = ["Decision", "choose_methods", "chosen_samples", "read_decision", "read_decisions"]
