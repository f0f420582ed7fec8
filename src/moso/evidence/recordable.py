"""What a recorder can record: a network whose parameters this process holds, and optimisers that move them."""

from collections.abc import Sequence

from torch import nn
from torch.optim import Optimizer

from moso import errors
from moso.evidence.network_names import as_network
from moso.evidence.updates import parameters_of

_QUANTISERS = ("bitsandbytes", "torchao", "hqq", "optimum")


def check_not_quantised(network: nn.Module) -> None:
    """Refuse networks with quantised parameters, whose kernels take no other weights and no exact derivatives.

    Scoring calls a network with the weights of a time step in the place of its own; kernels of quantised layers read
    scales that hang on the parameter object itself. (Tried: bitsandbytes 0.50 and torchao 0.18; docs/language-models.md
    says how each of them fails.)

    Raises:
        ModelUnsuitable: With the first such parameter, and what to do.
    """
    for name, parameter in network.named_parameters():
        # `type(.data)`, too, because torchao puts a tensor of its own into a plain parameter.
        for kind in (type(parameter), type(parameter.data)):
            package = kind.__module__.partition(".")[0]
            if package in _QUANTISERS:
                raise errors.ModelUnsuitable(
                    f"parameter {name} is quantised ({kind.__name__} of {package}), and gradients through it cannot be "
                    "computed at other weights; dequantise the base (model.dequantize() of transformers) to bfloat16 "
                    "or float32, and keep the adapters in float32"
                )


def recordable_network(model: object) -> nn.Module:
    """Return the network inside of wrappers.

    Raises:
        WrongType: The model is not a module.
        RecorderMisused: Its parameters are spread over processes.
        ModelUnsuitable: Its parameters are quantised.
    """
    if not isinstance(model, nn.Module):
        raise errors.WrongType(
            f"{type(model).__name__} is not a torch.nn.Module; write (model, optimizer), in this order"
        )
    network = as_network(model)
    check_not_quantised(network)
    # FSDP, tensor parallelism, ZeRO: no process holds a whole parameter, and gathering one takes all processes.
    sharded = [name for name, one in network.named_parameters() if hasattr(one, "full_tensor") or hasattr(one, "ds_id")]
    if sharded or any(type(module).__name__ == "FullyShardedDataParallel" for module in network.modules()):
        raise errors.RecorderMisused(
            f"the parameters of this {type(network).__name__} are spread over processes, which the recorder does not "
            "collect; save whole checkpoints yourself and score them as (state_dict, learning_rate)"
        )
    return network


def check_optimizers(network: nn.Module, optimizers: Sequence[Optimizer]) -> None:
    """Refuse optimisers that move no parameter of the network, or that share parameters.

    Raises:
        RecorderMisused: With what is wrong with them.
    """
    if not optimizers:
        raise errors.RecorderMisused("no optimiser was given; write attach(model, optimizer)")
    if len(set(optimizers)) < len(optimizers):
        raise errors.RecorderMisused(f"the same {type(optimizers[0]).__name__} was given twice")
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    seen: set[int] = set()
    for optimizer in optimizers:
        own = parameters_of([optimizer]) & names.keys()
        if not own:
            raise errors.RecorderMisused(
                f"{type(optimizer).__name__} moves no parameter of this {type(network).__name__}; "
                "give the model that is trained, not a copy, and make the optimiser from its parameters"
            )
        shared = sorted(names[one] for one in own & seen)
        if shared:
            raise errors.RecorderMisused(
                f"{shared[0]} is in two of the optimisers, so its learning rate is ambiguous; attach one, "
                "remove() it when the other takes over, and attach the other"
            )
        seen |= own
