"""Attributes that a network sets while it runs (its caches), restored after every pass.

Some layers cache a tensor that they computed from their parameters in evaluation mode (LeViT's attention biases). With
the parameters of another moment of training the cached tensor would be wrong. Between two passes every attribute of
every module is therefore restored to its value before the first pass.
"""

from typing import Any

import torch
from torch import nn

from moso.gradients.layers.operation import Arguments

# Attributes that every module has, managed by PyTorch.
_MANAGED = frozenset(nn.Module().__dict__)


class Attributes:
    """A snapshot of the attributes of a network's modules.

    Attributes:
        tensors: The attributes that are tensors.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> layer.cache = {}
        >>> before = Attributes(layer)
        >>> layer.cache["weight"], layer.more = layer.weight * 2, 1
        >>> before.restore()
        >>> layer.cache, hasattr(layer, "more")
        ({}, False)
    """

    def __init__(self, model: nn.Module) -> None:
        self._own: list[tuple[Arguments, Arguments]] = []
        self._containers: list[tuple[Any, Any]] = []
        self.tensors: list[torch.Tensor] = []
        for module in model.modules():
            own = {name: value for name, value in module.__dict__.items() if name not in _MANAGED}
            self._own.append((module.__dict__, own))
            self.tensors.extend(value for value in own.values() if isinstance(value, torch.Tensor))
            self._containers.extend(
                (value, value.copy()) for value in own.values() if type(value) in (dict, list, set) and len(value) < 64
            )

    def restore(self) -> None:
        """Restore every attribute, and the content of every attribute that is a list, set or dictionary."""
        for attributes, own in self._own:
            if len(attributes) != len(own) + len(_MANAGED):
                for name in [name for name in attributes if name not in own and name not in _MANAGED]:
                    del attributes[name]
            for name, value in own.items():
                if attributes.get(name) is not value:
                    attributes[name] = value
        for container, content in self._containers:
            if not _same(container, content):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)


def _same(container: Any, content: Any) -> bool:
    """Return whether a container holds the identical objects."""
    if len(container) != len(content):
        return False
    if isinstance(container, dict):
        return all(container.get(name, content) is value for name, value in content.items())
    if isinstance(container, list):
        return all(one is other for one, other in zip(container, content, strict=True))
    return bool(container == content)
