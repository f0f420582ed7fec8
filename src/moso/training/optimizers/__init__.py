"""One file per optimiser; each holds its `RULE`, and is known by being here."""

from moso.training.optimizers.descent import Slots, Tensors, descend
from moso.training.optimizers.optimizer import Optimizer
from moso.training.optimizers.registry import find_rule, rules
from moso.training.optimizers.rule import Rule

__all__ = ["Optimizer", "Rule", "Slots", "Tensors", "descend", "find_rule", "rules"]
