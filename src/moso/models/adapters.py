"""Adapters: low-rank matrices beside frozen weights (LoRA, and DoRA, which also moves the length of each column).

`train = "lora:8"` puts an adapter of rank 8 beside every linear layer but the output layer, by peft. Only adapters
move; their second factor starts at zero, so the network starts as it is. Source: Hu et al., LoRA, ICLR 2022; Liu et
al., DoRA, ICML 2024.
"""

import re

from torch import nn

from moso import errors
from moso.models.compat import import_transformers
from moso.quiet import quiet_notices

_ADAPTER = re.compile(r"(lora|dora):([1-9][0-9]*)")


def is_adapter(what: str) -> bool:
    """Return whether a value of `--train` asks for an adapter.

    Example:
        >>> is_adapter("lora:8"), is_adapter("dora:0"), is_adapter("head")
        (True, False, False)
    """
    return _ADAPTER.fullmatch(what) is not None


def add_adapter(model: nn.Module, what: str) -> None:
    """Freeze a network and put adapters beside its linear layers, in place.

    Args:
        model: The network.
        what: `lora:RANK` or `dora:RANK`.

    Raises:
        PackageMissing: peft is not installed.
        ModelUnsuitable: The network has no linear layer to adapt.
    """
    import_transformers()
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as problem:
        raise errors.package_missing("peft", "peft") from problem
    kind, _, rank = what.partition(":")
    names = _linear_layers(model)
    if not names:
        raise errors.ModelUnsuitable(f"train = {what!r}: {type(model).__name__} has no linear layer to put adapters on")
    config = LoraConfig(r=int(rank), lora_alpha=2 * int(rank), target_modules=names, use_dora=kind == "dora")
    config.fan_in_fan_out = any(type(one).__name__ == "Conv1D" for one in model.modules())
    with quiet_notices():
        inject_adapter_in_model(config, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)


def _linear_layers(model: nn.Module) -> list[str]:
    """Return the names of linear layers (GPT-2 calls them Conv1D), without those that give the outputs."""
    named = list(model.named_modules())
    outputs = {id(one.get_output_embeddings()) for _, one in named if hasattr(one, "get_output_embeddings")}
    layers = [(name, one) for name, one in named if isinstance(one, nn.Linear) or type(one).__name__ == "Conv1D"]
    return [name for name, one in layers if id(one) not in outputs]
