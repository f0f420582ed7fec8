"""Trees of named tensors as flat names, because a safetensors file holds only a flat dictionary."""

from collections.abc import Mapping
from typing import Any

import torch


def flattened(tree: Mapping[str, Any], separator: str) -> dict[str, torch.Tensor]:
    """Return every tensor of a tree of dictionaries under its path, joined by the separator.

    Example:
        >>> flattened({"model": {"weight": torch.ones(1)}, "optimizer": {"0": {"exp_avg": torch.zeros(1)}}}, ".")
        {'model.weight': tensor([1.]), 'optimizer.0.exp_avg': tensor([0.])}
    """
    found: dict[str, torch.Tensor] = {}
    for name, value in tree.items():
        if isinstance(value, torch.Tensor):
            found[name] = value
        else:
            found |= {f"{name}{separator}{rest}": one for rest, one in flattened(value, separator).items()}
    return found


def nested(flat: Mapping[str, torch.Tensor], separator: str) -> dict[str, dict[str, torch.Tensor]]:
    """Rebuild the first level of the tree: names up to the first separator, and the entries below each.

    Parameter names contain dots, so only the caller knows how deep a tree is.

    Example:
        >>> nested({"model.0.weight": torch.ones(1)}, ".")
        {'model': {'0.weight': tensor([1.])}}
    """
    found: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        name, _, rest = key.partition(separator)
        found.setdefault(name, {})[rest] = value
    return found
