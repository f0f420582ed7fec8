"""Trees of named tensors as flat names, because a safetensors file knows nothing else."""

from collections.abc import Mapping
from typing import Any

import torch


def flattened(tree: Mapping[str, Any], separator: str) -> dict[str, torch.Tensor]:
    """Every tensor of a tree of dictionaries under the names of its path, joined.

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
    """The first level of the tree again: names up to the first separator, and what is below each.

    Names of parameters have dots in them, so how deep a tree goes is for the caller to know.

    >>> nested({"model.0.weight": torch.ones(1)}, ".")
    {'model': {'0.weight': tensor([1.])}}
    """
    found: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        name, _, rest = key.partition(separator)
        found.setdefault(name, {})[rest] = value
    return found
