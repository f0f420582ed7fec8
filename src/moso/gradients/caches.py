"""What a network keeps in its attributes while it runs, put back after every pass.

Some layers keep a tensor that they computed from their parameters in evaluation mode, to have it ready for the next
pass (LeViT's attention biases). At another moment of training that tensor is another one. Between two passes every
attribute of every module is therefore set back to what it was before the first.
"""

from typing import Any

import torch
from torch import nn

# What every module has, PyTorch's own to manage.
_MANAGED = frozenset(nn.Module().__dict__)


class Attributes:
    """The attributes of a network's modules at one moment.

    >>> layer = nn.Linear(2, 2)
    >>> layer.cache = {}
    >>> before = Attributes(layer)
    >>> layer.cache["weight"], layer.more = layer.weight * 2, 1
    >>> before.restore()
    >>> layer.cache, hasattr(layer, "more")
    ({}, False)
    """

    def __init__(self, model: nn.Module) -> None:
        self._own: list[tuple[dict[str, Any], dict[str, Any]]] = []
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
        """Set every attribute back, and every list, set and dictionary that is one."""
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
    """Whether a container holds the very objects that it held."""
    if len(container) != len(content):
        return False
    if isinstance(container, dict):
        return all(container.get(name, content) is value for name, value in content.items())
    if isinstance(container, list):
        return all(one is other for one, other in zip(container, content, strict=True))
    return bool(container == content)
