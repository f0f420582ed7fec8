"""Names of a network's tensors: as training, wrappers and adapters spell them, and as the network itself does."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from moso import errors


def as_network(model: nn.Module) -> nn.Module:
    """Return the network inside the wrappers of training: `torch.compile` and (distributed) data parallelism.

    Example:
        >>> network = nn.Linear(1, 1)
        >>> as_network(nn.DataParallel(network)) is network
        True
    """
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    while True:
        inner = model.module if isinstance(model, parallel) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def uncompiled_name(name: str) -> str:
    """Return a parameter's name without the prefix of `torch.compile`, which may be on any of its modules.

    Example:
        >>> uncompiled_name("encoder._orig_mod.weight")
        'encoder.weight'
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def plain_name(name: str, adapters: Iterable[str] = ()) -> str:
    """Return a parameter's name without the parts that wrappers and adapters insert.

    `module.` is inserted by (distributed) data parallelism, `_orig_mod.` by `torch.compile`, `base_model.model.` by
    peft; peft also leaves the adapter's own name out of its files.

    Example:
        >>> plain_name("module._orig_mod.encoder.0.weight")
        'encoder.0.weight'
        >>> plain_name("base_model.model.query.lora_A.default.weight", ["default"])
        'query.lora_A.weight'
    """
    parts = uncompiled_name(name).split(".")
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    if parts[:2] == ["base_model", "model"] and len(parts) > 2:
        parts = parts[2:]
    for adapter in adapters:
        if adapter in parts[1:]:
            last = len(parts) - 1 - parts[::-1].index(adapter)
            parts = parts[: last - (parts[last - 1] == "modules_to_save")] + parts[last + 1 :]
            if parts[-2:] == ["lora_magnitude_vector", "weight"]:
                parts = parts[:-1]
    return ".".join(parts)


@dataclass(frozen=True)
class NetworkNames:
    """The names of a network's tensors, and a lookup from other spellings of them."""

    tensors: dict[str, torch.Tensor]  # the entries of the state_dict; a tied parameter has two
    plain: dict[str, str]
    first: dict[str, str]  # name in the state_dict -> the name that named_parameters has for the same parameter
    adapters: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "NetworkNames":
        """Return the names of a network."""
        tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
        # Layers of peft have this property; networks of transformers have an unrelated method of the same name.
        adapted = [one for one in model.modules() if isinstance(getattr(type(one), "active_adapters", None), property)]
        adapters = tuple(sorted({adapter for one in adapted for adapter in cast(list[str], one.active_adapters)}))
        plain: dict[str, str] = {}
        twice = set()
        for name in tensors:
            other = plain.setdefault(plain_name(name, adapters), name)
            if other != name:
                twice.add(plain_name(name, adapters))
        named = {id(value): name for name, value in model.named_parameters()}
        every = model.named_parameters(remove_duplicate=False)
        first = {name: name for name in tensors} | {name: named[id(value)] for name, value in every}
        return cls(tensors, {name: own for name, own in plain.items() if name not in twice}, first, adapters)

    def own(self, name: str) -> str:
        """Return the network's own name for a tensor, or `name` itself if the network has no such tensor."""
        if name not in self.tensors:
            # A module may happen to have the name of an adapter, so the adapter's name is stripped only if nothing else
            # fits.
            plain = plain_name(name)
            name = self.plain.get(plain) or self.plain.get(plain_name(plain, self.adapters), name)
        return self.first.get(name, name)

    def tensor(self, name: str, what: str) -> torch.Tensor:
        """Return a tensor of the network."""
        if name not in self.tensors:
            raise errors.CheckpointMismatch(
                f"{what} does not fit the network: it names {name}, which the network does not have"
            )
        return self.tensors[name]
