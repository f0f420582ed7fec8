"""The network that a user gives to `prune`: a name, a function that makes one, or a network."""

import copy
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from moso import errors
from moso.data.views import View
from moso.errors import MosoError
from moso.evidence.network_names import as_network
from moso.evidence.recordable import check_not_quantised
from moso.gradients import Loss, evaluation_mode, to_device
from moso.randomness import seeded

Model = str | nn.Module | Callable[[], nn.Module]


def network_builder(model: Any) -> Callable[[int], nn.Module] | None:
    """Return a function from a seed to a fresh network; None for a network by name.

    A network that is given itself is copied for every training, which then starts from its weights: those of a new
    network are its random start, those of a pretrained one are what is fine-tuned.

    Raises:
        WrongType: `model` is something else, or a function that does not make fresh networks.
        ModelUnsuitable: The network cannot be trained as it is.
    """
    if isinstance(model, str):
        return None
    if isinstance(model, nn.Module):
        network = as_network(model)
        check_network(network)
        return lambda seed: copy.deepcopy(network)
    if not callable(model):
        raise errors.WrongType(
            f"model= takes the name of a network, a network, or a function that makes one, not {type(model).__name__}"
        )
    made: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def build(seed: int) -> nn.Module:
        with seeded(seed, "init"):
            network = model()
        if not isinstance(network, nn.Module):
            raise errors.WrongType(f"the function given as model= returned {type(network).__name__} and no nn.Module")
        if network in made:
            raise errors.WrongType(
                "the function given as model= returned the same network twice, which one training after the other "
                "would change; give the network itself, or make a new one in the function"
            )
        made.add(network)
        check_network(network)
        return network

    return build


def try_loss(model: nn.Module, loss: Loss, view: View) -> None:
    """Refuse a network and a loss that fail on the first samples, before any long computation starts.

    Raises:
        NetworkFailed: They raise an error, which is the cause.
        LossInvalid: The loss does not give one number per sample.
    """
    some = np.arange(min(2, len(view)))
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    try:
        batch = to_device(view.batch(some), device)
        with evaluation_mode(model), torch.no_grad():
            losses = loss(model, batch)
    except MosoError:
        raise
    except Exception as problem:
        reason = " ".join(str(problem).split())
        raise errors.NetworkFailed(
            f"{type(model).__name__} and its loss fail on the first samples with {type(problem).__name__}: {reason}; "
            "do the shapes of the inputs fit the network?"
        ) from problem
    if not isinstance(losses, torch.Tensor) or losses.shape != (len(some),):
        shape = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise errors.LossInvalid(
            f"the loss of {len(some)} samples is {shape}; it must give one number per sample, a tensor [batch] "
            "(reduction='none')"
        )


def check_network(model: nn.Module) -> None:
    """Refuse networks that cannot be trained or scored as they are.

    Raises:
        ModelUnsuitable: Nothing in it is trainable, what is trainable is in half precision, or parameters are quantised
            or not initialised.
    """
    if any(isinstance(one, nn.parameter.UninitializedParameter) for one in model.parameters()):
        raise errors.ModelUnsuitable("the network has lazy layers without shapes yet; call it once with some inputs")
    check_not_quantised(model)
    # A frozen base may be in half precision: the gradients of what moves over it are in float32.
    trained = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    half = [name for name, one in trained if one.dtype in (torch.float16, torch.bfloat16)]
    if half:
        raise errors.ModelUnsuitable(
            f"parameter {half[0]} is trained in half precision, in which scores drown in rounding; give model.float(), "
            "or a frozen base in half precision under adapters in float32"
        )
    if not trained:
        raise errors.ModelUnsuitable("the network has no trainable parameter; set requires_grad on those to train")
