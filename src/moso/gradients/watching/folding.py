"""Batch-norm folded into the convolution before it.

In evaluation mode batch-norm is `y = s (x - mean) + c` with `s = w / std`, and a convolution followed by it is one
convolution with weight `s W` and bias `c - s mean`. This saves the passes over activations that batch-norm costs: in
forward mode (`Folding`) the small products `s W` carry the derivative of both layers, and in the first sweep
(`layers/folded.py`) one gradient gives the gradients of both. In forward mode images are also converted to
channels-last, which saves the convolutions their own reordering. Neither changes the result: the callers compare with
the unfolded network first.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from moso.batch import Batch
from moso.gradients.layers import OPERATIONS
from moso.gradients.layers.convolution import convolution, forms_gradients
from moso.gradients.layers.operation import Arguments, Function, Positional
from moso.gradients.point import Point, Tensors

_ARGUMENTS = OPERATIONS[F.batch_norm].arguments


@dataclass(frozen=True)
class Fold:
    """The batch-norm that follows a convolution: the names of its tensors, and its epsilon."""

    mean: str
    variance: str
    weight: str | None
    bias: str | None
    epsilon: float
    # The bias of the convolution itself.
    before: str | None
    # Whether the convolution's closed form forms per-sample gradients, rather than products of positions.
    formed: bool

    def names(self) -> list[str]:
        """Return the names of its parameters, including the convolution's own bias."""
        return [name for name in (self.weight, self.bias, self.before) if name is not None]


def folds_of(point: Point, probe: Batch) -> dict[str, Fold]:
    """Return the batch-norm behind each convolution, by the name of the convolution's weight.

    Args:
        point: The network.
        probe: A few samples to run the network with.
    """
    finding = _Finding({**point.fixed, **point.trained})
    with finding, torch.no_grad():
        point.losses(point.trained, probe)
    return {name: fold for name, fold in finding.folds.items() if finding.uses[name] == 1}


def _arguments(names: tuple[str, ...], args: Positional, kwargs: Arguments) -> Arguments:
    return {**dict(zip(names, args, strict=False)), **kwargs}


class _Finding(TorchFunctionMode):
    def __init__(self, values: Tensors) -> None:
        super().__init__()
        self.names = {id(value): name for name, value in values.items()}
        self.folds: dict[str, Fold] = {}
        self.uses: Counter[str] = Counter()
        self._outputs: dict[int, tuple[str, str | None, bool, torch.Tensor]] = {}

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Arguments | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if OPERATIONS.get(func) is convolution:
            given = _arguments(convolution.arguments, args, kwargs or {})
            name = self.names.get(id(given["weight"]))
            if name is not None:
                self.uses[name] += 1
                # The output is kept alive, because its id is its key.
                formed = forms_gradients(given["weight"], prod(output.shape[2:]), given.get("groups", 1))
                self._outputs[id(output)] = name, self.names.get(id(given.get("bias"))), formed, output
        elif func is F.batch_norm:
            given = _arguments(_ARGUMENTS, args, kwargs or {})
            before = self._outputs.get(id(given["input"]))
            mean, variance, weight, bias = (
                self.names.get(id(given.get(name))) for name in ("running_mean", "running_var", "weight", "bias")
            )
            if before is not None and mean is not None and variance is not None and not given.get("training"):
                self.folds[before[0]] = Fold(mean, variance, weight, bias, given.get("eps", 1e-5), before[1], before[2])
        return output


def folded_values(folds: Mapping[str, Fold], values: Tensors) -> Tensors:
    """Return the scaled weight of every folded convolution, and its new bias under a name of its own."""
    changed: Tensors = {}
    for name, fold in folds.items():
        scale = torch.rsqrt(values[fold.variance] + fold.epsilon)
        if fold.weight is not None:
            scale = scale * values[fold.weight]
        bias = -values[fold.mean] if fold.before is None else values[fold.before] - values[fold.mean]
        bias = bias * scale
        changed[_bias(name)] = bias if fold.bias is None else bias + values[fold.bias]
        weight = values[name] * scale.view(-1, *[1] * (values[name].ndim - 1))
        # The product has PyTorch's default memory format; convolutions of images are faster in channels-last.
        changed[name] = weight.contiguous(memory_format=torch.channels_last) if weight.ndim == 4 else weight
    return changed


def _bias(name: str) -> str:
    return f"{name} folded"  # no parameter's name has a space


def folded_arguments(fold: Fold, given: Mapping[str, Any], values: Mapping[str, torch.Tensor]) -> Arguments:
    """Return the arguments of a convolution with its batch-norm folded in, and what its closed form needs besides."""
    plain, own = given["weight"], given.get("bias")
    inverse = torch.rsqrt(values[fold.variance] + fold.epsilon)
    scale = inverse if fold.weight is None else inverse * values[fold.weight]
    shift = -values[fold.mean] if own is None else own - values[fold.mean]
    bias = scale * shift if fold.bias is None else scale * shift + values[fold.bias]
    weight = plain * scale.view(-1, *[1] * (plain.ndim - 1))
    more = {"plain": plain, "scale": scale, "inverse": inverse, "shift": shift}
    return {**given, "weight": weight, "bias": bias, **more}


class Folding(TorchFunctionMode):
    """Mode in which folded convolutions include their batch-norm, and the batch-norm itself returns its input."""

    def __init__(self, folds: Mapping[str, Fold], values: Tensors) -> None:
        super().__init__()
        self.biases = {id(values[name]): values[_bias(name)] for name in folds}
        self._done: dict[int, torch.Tensor] = {}

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Arguments | None = None
    ) -> Any:
        """Run every function unchanged, except convolutions and the batch-norms behind them."""
        kwargs = kwargs or {}
        if OPERATIONS.get(func) is convolution:
            return self._convolve(func, _arguments(convolution.arguments, args, kwargs))
        if func is F.batch_norm:
            done = self._done.pop(id(args[0] if args else kwargs["input"]), None)
            if done is not None:
                return done
        return func(*args, **kwargs)

    def _convolve(self, func: Function, given: Arguments) -> torch.Tensor:
        bias, image = self.biases.get(id(given["weight"])), given["input"]
        if image.ndim == 4:
            image = image.contiguous(memory_format=torch.channels_last)
        output: torch.Tensor = func(**{**given, "input": image, "bias": given.get("bias") if bias is None else bias})
        if bias is not None:
            self._done[id(output)] = output
        return output
