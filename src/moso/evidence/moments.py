"""The moments of an optimiser at a time step, and the preconditioner that follows from them.

Adam moves a parameter along its gradient divided by the root of a running mean of squared gradients. To first order, a
sample pushes the weights along `P g_z` with

    P = 1 / ( sqrt(v_t / (1 - beta2^t)) + epsilon )        where v_t > 0, and 0 elsewhere

with `v_t` the second moment **after** update t, the one that update t divided by. Where `v_t` is 0, no gradient has
ever reached the coordinate and Adam has no scale for it. Plain descent, with momentum or without, has P = 1
(docs/optimizer-aware.md derives both, and says what is left out).

On disk `moments-00000123.safetensors` lies beside the point of its step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from moso import errors
from moso.checksums import damaged
from moso.evidence.state_files import read_state, write_state

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class AdamRule:
    """The constants of Adam for one parameter, and the number of its updates.

    Attributes:
        beta1: Share of the last first moment that is carried on.
        beta2: Share of the last second moment that is carried on.
        epsilon: What is added to the root of the second moment.
        count: Number of updates that the moments have seen.
    """

    beta1: float
    beta2: float
    epsilon: float
    count: int


@dataclass(frozen=True)
class Moments:
    """The moments of an optimiser after an update, by parameter name.

    Attributes:
        rules: The constants of each parameter that Adam moves; a parameter without them is moved by plain descent.
        first: First moments of the parameters in `rules`.
        second: Second moments of the parameters in `rules`, as the update divides by them.

    Example:
        >>> rule = AdamRule(0.9, 0.75, 0.0, 1)
        >>> moments = Moments({"w": rule}, {"w": torch.zeros(2)}, {"w": torch.tensor([1.0, 0.0])})
        >>> moments.preconditioner()["w"]
        tensor([0.5000, 0.0000])
    """

    rules: dict[str, AdamRule] = field(default_factory=dict)
    first: Tensors = field(default_factory=dict)
    second: Tensors = field(default_factory=dict)

    @property
    def are_plain(self) -> bool:
        """Whether every parameter is moved by plain descent, so that the preconditioner is the identity."""
        return not self.rules

    def preconditioner(self) -> Tensors:
        """Return `P` of the parameters that Adam moves, by name; that of all others is 1."""
        return {name: self._scale(name, rule) for name, rule in self.rules.items()}

    def _scale(self, name: str, rule: AdamRule) -> torch.Tensor:
        second = self.second[name].detach()
        roots = (second / (1 - rule.beta2**rule.count)).sqrt()
        return torch.where(second > 0, 1 / (roots + rule.epsilon), 0.0)

    def renamed(self, names: Mapping[str, str]) -> "Moments":
        """Return the same moments under other names."""
        return Moments(*({names[name]: one for name, one in part.items()} for part in self._parts()))

    def _parts(self) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
        return self.rules, self.first, self.second


def optimizer_moments(model: nn.Module, *optimizers: Optimizer) -> Moments:
    """Return the moments of optimisers now, for a checkpoint `(state_dict, learning_rate, moments)` of the user's own.

    Args:
        model: The network.
        optimizers: All optimisers that move its parameters: `SGD`, `Adam` or `AdamW` of `torch.optim`.

    Raises:
        RecorderMisused: An optimiser is of another kind.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        >>> optimizer_moments(model, optimizer).preconditioner()["weight"]
        tensor([[1., 1.]])
        >>> optimizer_moments(model, torch.optim.SGD(model.parameters(), lr=0.1)).are_plain
        True
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return moments_by_id(optimizers, names)


def moments_by_id(optimizers: Iterable[Optimizer], names: Mapping[int, str]) -> Moments:
    """Return copies of the moments of optimisers; `names` gives the name of a parameter by its `id`.

    Raises:
        RecorderMisused: An optimiser is neither plain descent nor Adam.
    """
    rules: dict[str, AdamRule] = {}
    first: Tensors = {}
    second: Tensors = {}
    for optimizer in optimizers:
        check_known(optimizer)
        if isinstance(optimizer, SGD):
            continue
        for group in optimizer.param_groups:
            for one in group["params"]:
                if id(one) not in names:
                    continue
                name, state = names[id(one)], optimizer.state.get(one, {})
                beta1, beta2 = group["betas"]
                rules[name] = AdamRule(float(beta1), float(beta2), float(group["eps"]), int(state.get("step", 0)))
                zero = torch.zeros_like(one)
                # With amsgrad, an update divides by the largest second moment so far.
                largest = state.get("max_exp_avg_sq", state.get("exp_avg_sq", zero))
                first[name] = state.get("exp_avg", zero).detach().clone()
                second[name] = largest.detach().clone()
    return Moments(rules, first, second)


def check_known(optimizer: Optimizer) -> None:
    """Refuse an optimiser whose preconditioner is not known.

    Raises:
        RecorderMisused: It is neither SGD nor Adam nor AdamW of `torch.optim`.
    """
    if not isinstance(optimizer, SGD | Adam | AdamW):
        raise errors.RecorderMisused(
            f"the moments of {type(optimizer).__name__} are not known here, only those of SGD, Adam and AdamW of "
            "torch.optim; record without moments, and score without optimizer_aware"
        )


def moments_path(point: Path) -> Path:
    """Return the path of the moments that belong to the point in this file."""
    return point.with_name(point.name.replace("step-", "moments-", 1))


def write_moments(path: Path, moments: Moments) -> None:
    """Write moments, atomically."""
    tensors = {f"first.{name}": one for name, one in moments.first.items()}
    tensors |= {f"second.{name}": one for name, one in moments.second.items()}
    rules = {name: asdict(rule) for name, rule in moments.rules.items()}
    write_state(path, tensors, {"format": 1, "rules": rules})


def read_moments(path: Path) -> Moments:
    """Read moments.

    Raises:
        FileUnreadable: The file is missing or was not written by moso.
        FileDamaged: The file is not what was written, or holds something else.
    """
    tensors, note = read_state(path)
    try:
        rules = {name: AdamRule(**rule) for name, rule in note["rules"].items()}
        first, second = ({name: tensors[f"{part}.{name}"] for name in rules} for part in ("first", "second"))
    except (KeyError, TypeError, AttributeError) as problem:
        raise damaged(path, f"it does not hold the moments of an optimiser: {problem}") from problem
    return Moments(rules, first, second)
