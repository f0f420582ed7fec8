"""The optimiser of one network, which the training loop steps, saves and restores."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from moso import errors
from moso.evidence.moments import AdamRule, Moments
from moso.training.optimizers.adam import FIRST, SECOND
from moso.training.optimizers.descent import Slots, descend
from moso.training.optimizers.parameter_rates import rate_factors
from moso.training.optimizers.registry import find_rule
from moso.training.optimizers.rule import Settings
from moso.training.optimizers.sgd import RULE as SGD

_COUNT = "step"


def held_moments(
    settings: Settings, counts: Mapping[str, int], parameters: Mapping[str, torch.Tensor], slots: Slots
) -> Moments:
    """Return copies of the moments that an optimiser holds after an update; plain descent has none.

    Args:
        settings: The recipe.
        counts: Number of updates per parameter.
        parameters: The parameters, by name.
        slots: `{slot: {parameter: tensor}}`; a missing tensor is zero.

    Raises:
        SettingsConflict: The recipe's optimiser is one whose moments are not known.
    """
    kept = find_rule(settings.optimizer).slots(settings)
    if SECOND not in kept:
        if settings.optimizer != SGD.name:
            raise errors.SettingsConflict(
                f"the moments of optimizer {settings.optimizer!r} are not known; use adam, adamw or sgd"
            )
        return Moments()
    found = Moments({}, {}, {})
    for name, parameter in parameters.items():
        found.rules[name] = AdamRule(settings.momentum, settings.beta2, settings.epsilon, counts.get(name, 0))
        for part, slot in ((found.first, FIRST), (found.second, SECOND)):
            part[name] = slots.get(slot, {}).get(name, torch.zeros_like(parameter)).detach().clone()
    return found


class Optimizer:
    """The trainable parameters of a network, with the slots (such as momentum) that the rule keeps per parameter.

    `torch.optim` is not used because it imports a compiler (1 to 6 seconds per process), and because the adjoint and
    exact leave-one-out need the same arithmetic as a function.

    Example:
        >>> from moso.training.recipe import TrainingRecipe
        >>> model = nn.Linear(1, 1, bias=False)
        >>> recipe = TrainingRecipe(epochs=1, batch_size=1, learning_rate=0.1, schedule="constant")
        >>> optimizer = Optimizer(model, recipe)
        >>> before = model.weight.item()
        >>> model(torch.ones(1, 1)).sum().backward()
        >>> optimizer.rate = 0.5
        >>> optimizer.step()
        >>> round(before - model.weight.item(), 4)
        0.5
    """

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        self.settings = settings
        self.rule = find_rule(settings.optimizer)
        self.parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.factors = rate_factors(model, settings)
        """What the learning rate is multiplied by, for the parameters where it is."""
        self.slots: Slots = {slot: {} for slot in self.rule.slots(settings)}
        self.counts: dict[str, int] = {}
        self.rate = 0.0
        """Learning rate of the next update, before factors."""
        self.moved = False
        """Whether an update was made since gradients were last cleared; a gradient scaler skips some."""

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameters in the form that `torch.amp.GradScaler` expects."""
        return [{"params": list(self.parameters.values())}]

    def moves(self, rate: float) -> list[tuple[float, list[torch.nn.Parameter]]]:
        """Return the groups of parameters with their learning rates, at this rate of the classifier."""
        found: dict[float, list[torch.nn.Parameter]] = {}
        for name, parameter in self.parameters.items():
            found.setdefault(self.factors.get(name, 1.0), []).append(parameter)
        return [(rate * factor, own) for factor, own in found.items()]

    def zero_grad(self) -> None:
        """Clear the gradients of the last update."""
        for parameter in self.parameters.values():
            parameter.grad = None
        self.moved = False

    @torch.no_grad()
    def step(self) -> None:
        """Make one update with the present gradients and learning rate."""
        gradients = {name: one.grad for name, one in self.parameters.items() if one.grad is not None}
        moved, slots = descend(
            self.settings, self.rate, self.counts, self.parameters, gradients, self.slots, factors=self.factors
        )
        # For a rule that works in place, source and target are the same memory.
        torch._foreach_copy_([self.parameters[name] for name in moved], list(moved.values()))
        for slot, values in slots.items():
            self.slots[slot] |= values
        self.counts |= {name: self.counts.get(name, 0) + 1 for name in moved}
        self.moved = bool(moved)

    def moments(self) -> Moments:
        """Return copies of the moments after the last update; plain descent has none."""
        return held_moments(self.settings, self.counts, self.parameters, self.slots)

    def state(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return what the next update reads, `{index of the parameter: {slot: tensor}}`."""
        found: dict[str, dict[str, torch.Tensor]] = {}
        for number, name in enumerate(self.parameters):
            own = {slot: values[name] for slot, values in self.slots.items() if name in values}
            if self.rule.counts and name in self.counts:
                own[_COUNT] = torch.tensor(float(self.counts[name]))
            if own:
                found[str(number)] = own
        return found

    def load(self, state: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        """Resume from what `state` returned."""
        for number, (name, parameter) in enumerate(self.parameters.items()):
            own = state.get(str(number), {})
            for slot in self.slots:
                if slot in own:
                    value = own[slot].to(parameter.device, copy=True)
                    self.slots[slot][name] = value.contiguous(memory_format=_format_of(parameter))
            if own:
                # Rules without a step count only distinguish the first update from later ones.
                self.counts[name] = int(own[_COUNT]) if self.rule.counts else 1


def _format_of(parameter: torch.Tensor) -> torch.memory_format:
    # Channels-last parameters need channels-last slots; another layout would change the order of sums.
    channels_last = parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if channels_last else torch.contiguous_format
