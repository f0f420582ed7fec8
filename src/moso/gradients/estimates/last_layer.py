"""Per-sample gradients of the last linear layer, in two factors.

For `logits = W a + c` the gradient of one sample's loss is `b a^T` (and `b` for the bias), where `a` is the layer's
input and `b` the gradient of the loss with respect to the logits; for cross-entropy `b = p - y`. Both factors together
are `in + out` numbers per sample where the gradient has `in x out`, and an inner product of gradients is a product of
two small ones:

    g_i . g_j = (b_i . b_j) (a_i . a_j + 1)        the 1 is the bias

This takes one forward pass; the backward pass goes from the loss to the logits and no further.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from moso import errors
from moso.batch import Batch
from moso.gradients.engine import TimeStep
from moso.gradients.fitting import Fitting
from moso.gradients.layers import Call, Layout
from moso.gradients.layers.linear import linear
from moso.gradients.losses import batch_length, to_device, wide
from moso.gradients.point import Batches, Groups, Point, evaluation_mode
from moso.gradients.trust import ensure, knowledge_of
from moso.gradients.watching.calls import Watching
from moso.models import classifier_head

# Rows that are converted to float64 at a time.
BLOCK = 4096


@dataclass(frozen=True)
class Factored:
    """The gradients `g_z = b_z a_z^T` of all samples, in factors.

    Attributes:
        a: Inputs of the layer, shape ``[samples, in]``.
        b: Gradients of the losses with respect to the logits, shape ``[samples, out]``.
        bias: Whether the layer has a differentiated bias, whose gradient is `b_z`.

    Example:
        >>> factors = Factored(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]]), bias=True)
        >>> factors.squared_norms()  # 3^2 (1^2 + 2^2 + 1)
        tensor([54.], dtype=torch.float64)
    """

    a: torch.Tensor
    b: torch.Tensor
    bias: bool

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, rows: Any) -> "Factored":
        return replace(self, a=self.a[rows], b=self.b[rows])

    def mean(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean gradient of the weight, ``[out, in]``, and of the bias, ``[out]``."""
        weight = wide(self.b.new_zeros(self.b.shape[1], self.a.shape[1]))
        bias = wide(self.b.new_zeros(self.b.shape[1]))
        for part in self.blocks():
            weight += wide(part.b).T @ wide(part.a)
            bias += wide(part.b).sum(0)
        return weight / len(self), bias / len(self) * self.bias

    def along(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return the inner product of every gradient with a direction, ``[samples]``.

        Args:
            weight: The direction of the weight, shape ``[out, in]``.
            bias: The direction of the bias, shape ``[out]``; None if it does not move.
        """
        rows = []
        for part in self.blocks():
            products = ((wide(part.b) @ wide(weight)) * wide(part.a)).sum(1)
            rows.append(products if bias is None or not self.bias else products + wide(part.b) @ wide(bias))
        return torch.cat(rows)

    def squared_norms(self) -> torch.Tensor:
        """Return `|g_z|^2`, ``[samples]``."""
        weight, bias = self.squared_norms_apart()
        return weight + bias

    def squared_norms_apart(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `|g_z|^2` of the weight alone and of the bias alone, ``[samples]`` each."""
        own = torch.cat([wide(part.b).square().sum(1) for part in self.blocks()])
        inputs = torch.cat([wide(part.a).square().sum(1) for part in self.blocks()])
        return own * inputs, own * self.bias

    def products(self, other: "Factored") -> torch.Tensor:
        """Return `g_i . g_j` of all of these samples with all of the others, ``[samples, others]``."""
        return (self.b @ other.b.T) * (self.a @ other.a.T + float(self.bias and other.bias))

    def blocks(self, size: int = BLOCK) -> Iterator["Factored"]:
        """Yield blocks of `size` samples: `for part in f.blocks(): part.products(f)` never holds all pairs."""
        return (self[start : start + size] for start in range(0, len(self), size))


def last_layer_gradients(point: Point, batches: Batches, layer: str | None = None) -> Factored:
    """Compute the gradients of all samples with respect to one linear layer.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        layer: Name of the linear layer; by default the classifier.

    Raises:
        DataEmpty: There is no sample.
        ModelUnsuitable: The layer is no plain linear layer, is frozen, or is applied more than once per sample.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> point = Point.of(model, cross_entropy)
        >>> factors = last_layer_gradients(point, lambda: [(torch.zeros(5, 4), torch.zeros(5, dtype=torch.long))])
        >>> factors.a.shape, factors.b.shape
        (torch.Size([5, 8]), torch.Size([5, 3]))
    """
    head = head_of(point, layer)
    fitting, found = Fitting(), list[tuple[torch.Tensor, torch.Tensor]]()
    with evaluation_mode(point.model):
        for batch in batches():
            batch = to_device(batch, point.device)
            _check(head, batch)
            found.extend(fitting.pieces(batch, lambda piece: _factors(head, piece)))
    if not found:
        raise errors.DataEmpty("there is no sample to take the last layer's gradient of")
    a, b = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Factored(a, b, len(head.trained) == 2)


def last_layer_time_step(point: Point, batches: Batches, groups: Groups = (), layer: str | None = None) -> TimeStep:
    """Compute a time step of the last layer alone, in one forward pass over the data.

    `in + out` numbers per sample are kept until the mean is known. The other arguments, and the errors, are those of
    `last_layer_gradients`.

    Args:
        groups: Groups of all differentiated parameters.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> batches = lambda: [(torch.eye(2), torch.tensor([0, 1]))]
        >>> last_layer_time_step(Point.of(torch.nn.Linear(2, 2), cross_entropy), batches).dot.shape
        (1, 2)
    """
    groups = point.checked_groups(groups)
    names = list(head_of(point, layer).trained)
    factors = last_layer_gradients(point, batches, layer)
    weight, bias = factors.mean()
    dots = factors.along(weight), factors.along(torch.zeros_like(weight), bias)
    norms = factors.squared_norms_apart()
    rows = np.zeros((2, len(groups), len(factors)))
    for name, dot, squared in zip(names, dots, norms, strict=False):
        group = next(number for number, group in enumerate(groups) if name in group)
        rows[0, group] += dot.numpy()
        rows[1, group] += squared.numpy()
    return TimeStep(dict(zip(names, (weight, bias), strict=False)), rows[0], rows[1])


def head_of(point: Point, layer: str | None = None) -> Point:
    """Return the point with the last layer alone differentiated, its weight first.

    Args:
        point: The network.
        layer: Name of the linear layer; by default the classifier.

    Raises:
        ModelUnsuitable: The layer has no weight, or is frozen or filtered out.
    """
    layer = classifier_head(point.model)[0] if layer is None else layer
    prefix = f"{layer}." if layer else ""
    if f"{prefix}weight" not in {**point.fixed, **point.trained}:
        raise errors.ModelUnsuitable(
            f"{layer!r} is not a layer with a weight of its own; name the linear layer that gives the logits"
        )
    if f"{prefix}weight" not in point.trained:
        raise errors.ModelUnsuitable(
            f"the last layer {layer!r} is frozen or filtered out, so it has no gradients to compare"
        )
    return point.only([name for name in (f"{prefix}weight", f"{prefix}bias") if name in point.trained])


def _check(head: Point, batch: Batch) -> None:
    """Check that samples do not mix, and that the two factors of the layer give autograd's gradient."""
    plan = ensure(head, knowledge_of(head, batch), batch)
    name = next(iter(head.trained))
    if plan.others or plan.routes.layouts.get(name) != "first":
        raise errors.ModelUnsuitable(
            f"{name} is not the weight of a plain linear layer over the samples; name another layer"
        )


def _factors(head: Point, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    name, count, seen = next(iter(head.trained)), batch_length(batch), list[tuple[torch.Tensor, torch.Tensor]]()

    def visit(call: Call, b: torch.Tensor) -> None:
        if call.operation is not linear:
            raise errors.ModelUnsuitable(f"{name} is not the weight of a linear layer; name another layer")
        if "weight" in call.places:
            seen.append(call.operation.split(call, b))

    layouts: dict[str, Layout] = dict.fromkeys(head.trained, "first")
    with Watching(head.trained, count, layouts, visit, constants=head.constants(), growing=frozenset()):
        losses = head.losses(head.trained, batch)
    if losses.requires_grad:
        losses.sum().backward()  # type: ignore[no-untyped-call]
    if not seen:
        raise errors.ModelUnsuitable(f"the loss does not depend on {name}; name the linear layer that gives the logits")
    if len(seen) > 1 or seen[0][0].shape[1] > 1:
        raise errors.ModelUnsuitable(
            f"the layer of {name} is applied more than once to a sample, so its gradient is not a product of two "
            "vectors; "
            "use sketches, or the exact products"
        )
    a, b = (part[:, 0].cpu() for part in seen[0])
    return a, b
