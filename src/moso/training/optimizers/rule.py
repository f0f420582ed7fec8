"""What an optimiser is: one function from parameters, gradients and slots to the next ones.

The training loop applies the function to the parameters of a network, the adjoint differentiates it, and exact
leave-one-out applies it to many copies of a network at once. So a rule is written once, in operations that are
differentiable, on lists of tensors: `each` gives new tensors; `each_` works in the memory of its first list where
nobody asks for derivatives, as `torch.optim` does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from moso.training.recipe import TrainingRecipe  # which asks for the names of all rules

TensorList = Sequence[torch.Tensor]
SlotLists = Mapping[str, TensorList]
Settings: TypeAlias = "TrainingRecipe"
Update: TypeAlias = "Callable[[Settings, float, int, TensorList, TensorList, SlotLists], tuple[TensorList, SlotLists]]"


def each(
    operation: Callable[..., torch.Tensor], *arguments: TensorList | float, **options: float
) -> list[torch.Tensor]:
    """Apply a function of PyTorch to every tensor of a list; several lists are taken in step.

    Without derivatives it is one call for the whole list (`torch._foreach_add` for `torch.add`): one kernel on a GPU,
    the same bits as one call per tensor on a CPU. Those calls are not trusted with derivatives: `_foreach_addcdiv` of
    PyTorch 2.13 fails for some shapes.

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
    """Apply a function as `each` does, in place: nothing else may need the tensors of the first list any more.

    Where derivatives are followed the first list stays as it is, and new tensors are returned.
    """
    if torch.is_grad_enabled():
        return each(operation, first, *arguments, **options)
    getattr(torch, f"_foreach_{operation.__name__}_")(first, *arguments, **options)
    return first


@dataclass(frozen=True)
class Rule:
    """An optimiser.

    Attributes:
        name: What recipes call it.
        description: One line for a person.
        update: `update(settings, rate, step, parameters, gradients, slots)` returns the parameters and slots after
            update `step` of these parameters, counted from 1. Slots that were never written are zero. Parameters and
            slots may be overwritten by `each_`, and by nothing else; gradients may not. A parameter may not depend on
            which others are in the list.
        slots: Names of the slots that the rule keeps per parameter under these settings. Gradients arrive in the first
            one first: it is a weighted sum of all gradients so far.
        mean: The factor that makes the first slot, after this many updates, a weighted mean of gradients.
        own_settings: Settings of a recipe that this rule reads and some others do not.
        counts: Whether `update` depends on `step`, so that saved positions hold the count.
    """

    name: str
    description: str
    update: Update
    slots: Callable[[Settings], tuple[str, ...]]
    mean: Callable[[Settings, int], float]
    own_settings: frozenset[str] = field(default=frozenset())
    counts: bool = False
