"""The type of an optimiser: one function from parameters, gradients and slots to the next parameters and slots.

The training loop applies the function to the parameters of a network, the adjoint differentiates it, and exact
leave-one-out applies it to many copies of a network at once. So a rule is written once, in differentiable operations on
lists of tensors: `each` returns new tensors; `each_` works in place on its first list when gradients are disabled, as
`torch.optim` does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from moso.training.recipe import TrainingRecipe  # not at run time: recipe imports the rules

TensorList = Sequence[torch.Tensor]
SlotLists = Mapping[str, TensorList]
Settings: TypeAlias = "TrainingRecipe"
Update: TypeAlias = "Callable[[Settings, float, int, TensorList, TensorList, SlotLists], tuple[TensorList, SlotLists]]"


def each(
    operation: Callable[..., torch.Tensor], *arguments: TensorList | float, **options: float
) -> list[torch.Tensor]:
    """Apply a function of PyTorch to every tensor of a list; several lists are zipped.

    With gradients disabled it is one call for the whole list (`torch._foreach_add` for `torch.add`): one kernel on a
    GPU, the same bits as one call per tensor on a CPU. With gradients enabled it is one call per tensor, because
    `_foreach_addcdiv` of PyTorch 2.13 fails to differentiate some shapes.

    Example:
        >>> each(torch.add, [torch.ones(1), torch.zeros(1)], [torch.ones(1), torch.ones(1)], alpha=2)
        [tensor([3.]), tensor([2.])]
    """
    if not torch.is_grad_enabled():
        return list(getattr(torch, f"_foreach_{operation.__name__}")(*arguments, **options))
    lists = [repeat(one) if isinstance(one, int | float) else one for one in arguments]
    return [operation(*row, **options) for row in zip(*lists, strict=False)]


def each_(
    operation: Callable[..., torch.Tensor], first: TensorList, *arguments: TensorList | float, **options: float
) -> TensorList:
    """Apply a function as `each` does, but in place on `first`, whose old values must not be needed any more.

    With gradients enabled `first` does not change, and new tensors are returned.
    """
    if torch.is_grad_enabled():
        return each(operation, first, *arguments, **options)
    getattr(torch, f"_foreach_{operation.__name__}_")(first, *arguments, **options)
    return first


@dataclass(frozen=True)
class Rule:
    """An optimiser.

    Attributes:
        name: Its name in recipes.
        description: One line for users.
        update: `update(settings, rate, step, parameters, gradients, slots)` returns the parameters and slots after
            update `step` of these parameters, counted from 1. Slots that were never written are zero. Only `each_` may
            overwrite parameters and slots; nothing may overwrite gradients. The result for a parameter must not depend
            on which others are in the list.
        slots: Names of the slots that the rule keeps per parameter under these settings. The first slot is a weighted
            sum of all gradients so far.
        mean: The factor that makes the first slot, after this many updates, a weighted mean of gradients.
        own_settings: Settings of a recipe that this rule reads and some others do not.
        counts: Whether `update` depends on `step`, so that checkpoints hold the count.
    """

    name: str
    description: str
    update: Update
    slots: Callable[[Settings], tuple[str, ...]]
    mean: Callable[[Settings, int], float]
    own_settings: frozenset[str] = field(default=frozenset())
    counts: bool = False
