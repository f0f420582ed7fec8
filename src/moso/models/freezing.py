"""What of a network moves in training: everything, the classifier, the last blocks, or adapters beside frozen weights.

Frozen parameters have `requires_grad` False. A module whose parameters are all frozen stays in evaluation mode whatever
mode the network is put into: its batch-norm keeps the statistics it came with, its dropout is off. So a frozen part is
one fixed function of its input.
"""

import re
from collections.abc import Iterator
from typing import Any

from torch import nn

from moso import errors
from moso.models.adapters import add_adapter, is_adapter
from moso.models.head import classifier_head

ALL, HEAD = "all", "head"
_LAST = re.compile(r"last:([1-9][0-9]*)")


def check_training(what: str) -> str:
    """Return the value of `--train` if it is one.

    Raises:
        SettingInvalid: It is none of `all`, `head`, `last:N`, `lora:RANK`, `dora:RANK`.

    Example:
        >>> check_training("last:2")
        'last:2'
    """
    if what not in (ALL, HEAD) and not _LAST.fullmatch(what) and not is_adapter(what):
        raise errors.SettingInvalid(
            f"train = {what!r}: expected all, head or last:N, for example last:2; or an adapter, lora:RANK or dora:RANK"
        )
    return what


def freeze(model: nn.Module, what: str) -> None:
    """Freeze all parameters but those that are to move, in place.

    Args:
        model: The network.
        what: `all`, `head`, `last:N` for the last N blocks, in the order in which the network lists them, or an
            adapter, `lora:RANK` or `dora:RANK`.

    Raises:
        SettingInvalid: `what` is malformed, or the network has fewer blocks.
        ModelUnsuitable: The network has no classifier that can be found.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> freeze(model, "head")
        >>> [name for name, one in model.named_parameters() if one.requires_grad]
        ['2.weight', '2.bias']
    """
    check_training(what)
    if is_adapter(what):
        add_adapter(model, what)
    elif what != ALL:
        moving = [classifier_head(model)[1]] if what == HEAD else _last_blocks(model, int(what.partition(":")[2]))
        kept = {id(parameter) for block in moving for parameter in block.parameters()}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in kept and parameter.requires_grad)
    hold_frozen(model)


def hold_frozen(model: nn.Module) -> None:
    """Keep every module whose parameters are all frozen in evaluation mode, by a hook before each of its calls.

    A hook, because the mode is set from many places, and a hook is copied with its module.

    Example:
        >>> model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)).train()
        >>> _ = model[0].requires_grad_(False)
        >>> hold_frozen(model)
        >>> import torch
        >>> _ = model(torch.ones(3, 2))
        >>> model[0].running_mean
        tensor([0., 0.])
    """
    for module in model.modules():
        own = list(module.parameters())
        if own and not any(parameter.requires_grad for parameter in own):
            for inner in module.modules():
                if not is_held(inner):
                    inner.register_forward_pre_hook(_stay_in_evaluation)


def is_held(module: nn.Module) -> bool:
    """Return whether `hold_frozen` keeps a module in evaluation mode."""
    return _stay_in_evaluation in module._forward_pre_hooks.values()


def _stay_in_evaluation(module: nn.Module, arguments: Any) -> None:
    if module.training:
        module.eval()


def _last_blocks(model: nn.Module, count: int) -> list[nn.Module]:
    inner = model
    while len(children := _with_parameters(inner)) == 1 and not isinstance(inner, nn.Sequential | nn.ModuleList):
        inner = children[0]  # a wrapper of one network
    blocks = list(_blocks(inner))
    if count > len(blocks):
        raise errors.SettingInvalid(f"train = 'last:{count}': the network ({type(model).__name__}) has {len(blocks)}")
    return blocks[-count:]


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the blocks with parameters in order; lists of modules are looked into."""
    for child in _with_parameters(module):
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield from _blocks(child)
        else:
            yield child


def _with_parameters(module: nn.Module) -> list[nn.Module]:
    return [child for child in module.children() if any(True for _ in child.parameters())]
