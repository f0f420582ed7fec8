"""One file per optimiser; a file of this folder that defines a `RULE` is found by the registry."""

from moso.training.optimizers.descent import Slots, Tensors, descend
from moso.training.optimizers.optimizer import Optimizer, held_moments
from moso.training.optimizers.parameter_rates import rate_factors
from moso.training.optimizers.registry import find_rule, rules
from moso.training.optimizers.rule import Rule

__all__ = ["Optimizer", "Rule", "Slots", "Tensors", "descend", "find_rule", "held_moments", "rate_factors", "rules"]
