"""Hashed sketches: each coordinate of the whole gradient is added, with a random sign, to one of `d` numbers.

    s[h(i)] += sigma(i) g[i]        E[s . s'] = g . g'        Var[s . s'] <= (|g|^2 |g'|^2 + (g . g')^2) / d

so a cosine has a standard error of at most sqrt(2 / d), whatever the network's size or structure. Buckets and signs are
hashes of (seed, parameter name, coordinate): nothing is stored, and two sketches of the same seed can be compared
wherever and whenever they were made. Sketches of `sketch.py` cost less, but their error depends on the rank of a
gradient. A network with at most `d` parameters is not projected at all.

Source: Charikar, Chen, Farach-Colton, Finding frequent items in data streams, ICALP 2002; Weinberger et al., Feature
hashing for large scale multitask learning, ICML 2009 (the variance).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod

import numpy as np
import torch

from moso import errors
from moso.batch import Batch
from moso.gradients.estimates.sketch import formed_parts, swept_pieces
from moso.gradients.layers import Call
from moso.gradients.layers.embedding import embedding
from moso.gradients.losses import batch_length
from moso.gradients.plan import Plan
from moso.gradients.point import Batches, Point, Tensors
from moso.gradients.sweep import spread_out, watching_for
from moso.randomness import hashes


def numbers_for(error: float) -> int:
    """Return the numbers per sketch with which a cosine has at most this standard error.

    Raises:
        SettingInvalid: The error is outside (0, 1).

    Example:
        >>> numbers_for(0.03125)
        2048
    """
    if not 0 < error < 1:
        raise errors.SettingInvalid(f"error {error:g} is outside (0, 1): it is the standard error of a cosine")
    return ceil(2 / error**2)


def error_of(numbers: int) -> float:
    """Return the largest standard error of a cosine between sketches of this many numbers.

    Example:
        >>> error_of(2048)
        0.03125
    """
    return float((2 / numbers) ** 0.5)


@dataclass(frozen=True)
class HashedProjection:
    """Maps the gradient of one parameter to its share of a sketch.

    Attributes:
        numbers: Size of the sketch.
        buckets: The number that each coordinate is added to, ``[parameter]``.
        signs: The sign of each coordinate, ``[parameter]``; None if nothing is projected.
    """

    numbers: int
    buckets: torch.Tensor
    signs: torch.Tensor | None

    def of_gradients(self, gradients: torch.Tensor) -> torch.Tensor:
        """Project gradients ``[samples, *shape]`` to ``[samples, numbers]``."""
        flat = gradients.reshape(len(gradients), -1)
        found = flat.new_zeros(len(flat), self.numbers)
        return found.index_add_(1, self.buckets, flat if self.signs is None else flat * self.signs.to(flat))


def hashed_projections(point: Point, numbers: int, seed: int) -> dict[str, HashedProjection]:
    """Return the projection of every parameter of a point; all share one sketch.

    Args:
        point: The network.
        numbers: Size of a sketch; a network with fewer parameters has sketches of its own size, its gradients.
        seed: Seed of the projection.

    Raises:
        ModelUnsuitable: A parameter is complex.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> found = hashed_projections(Point.of(torch.nn.Linear(2, 2), cross_entropy), 100, seed=0)
        >>> {name: one.buckets.tolist() for name, one in found.items()}
        {'weight': [0, 1, 2, 3], 'bias': [4, 5]}
    """
    if point.complex_names:
        raise errors.ModelUnsuitable("gradients of complex parameters are not indexed; freeze them")
    total, start = sum(value.numel() for value in point.trained.values()), 0
    found = {}
    for name, value in point.trained.items():
        size = prod(value.shape)
        if total <= numbers:
            buckets, signs = torch.arange(start, start + size), None
        else:
            drawn = hashes(np.arange(size, dtype=np.uint64), seed, "index", name)
            buckets = torch.from_numpy(((drawn >> np.uint64(1)) % np.uint64(numbers)).astype(np.int64))
            signs = torch.from_numpy((drawn & np.uint64(1)).astype(np.float32) * 2 - 1).to(point.device)
        found[name] = HashedProjection(min(numbers, total), buckets.to(point.device), signs)
        start += size
    return found


def hashed_sketches(
    point: Point, batches: Batches, projections: Mapping[str, HashedProjection]
) -> Iterator[torch.Tensor]:
    """Iterate over the sketches of per-sample gradients, ``[some, numbers]`` in float32 on the CPU, in order.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        projections: What `hashed_projections` returned.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> point = Point.of(torch.nn.Linear(100, 10), cross_entropy)
        >>> batches = lambda: [(torch.ones(3, 100), torch.tensor([0, 1, 2]))]
        >>> torch.cat(list(hashed_sketches(point, batches, hashed_projections(point, 64, 0)))).shape
        torch.Size([3, 64])
    """
    return swept_pieces(point, batches, lambda plan, piece: _sketched(point, plan, projections, piece))


def _add_rows(total: torch.Tensor, projection: HashedProjection, a: torch.Tensor, b: torch.Tensor) -> None:
    """Add the gradient of an embedding: only the rows that a sample looked up are not zero."""
    width = b.shape[-1]
    places = projection.buckets.view(-1, width)[a]
    values = b if projection.signs is None else b * projection.signs.view(-1, width)[a].to(b)
    total.scatter_add_(1, places.flatten(1), values.flatten(1).to(total))


def sketch_of(direction: Tensors, projections: Mapping[str, HashedProjection]) -> torch.Tensor:
    """Return the sketch ``[numbers]`` of one gradient by parameter name."""
    return torch.stack([one.of_gradients(direction[name][None])[0] for name, one in projections.items()]).sum(0)


def _sketched(point: Point, plan: Plan, projections: Mapping[str, HashedProjection], batch: Batch) -> torch.Tensor:
    count, numbers = batch_length(batch), next(iter(projections.values())).numbers
    total = torch.zeros(count, numbers, device=point.device)
    leaves = {name: point.trained[name].detach().requires_grad_() for name in plan.routes.layouts}
    spread = spread_out(point, plan, count)

    def visit(call: Call, b: torch.Tensor) -> None:
        weight = call.places.get("weight")
        if call.operation is embedding and weight is not None and weight.tensor is None:
            _add_rows(total, projections[weight.name], *call.operation.split(call, b))
            return
        for _, part in formed_parts(call, b, projections, leaves):
            total.add_(part)

    with watching_for(point, plan, batch, visit, leaves):
        losses = point.losses({**point.trained, **leaves, **spread}, batch)
    if losses.requires_grad:
        losses.sum().backward()  # type: ignore[no-untyped-call]
    for name, leaf in spread.items():
        if leaf.grad is not None:
            total.add_(projections[name].of_gradients(leaf.grad))
    if plan.slow is not None:
        start = 0
        for gradients in plan.slow(point.only(plan.others), batch):
            for name, own in gradients.items():
                total[start : start + len(own)] += projections[name].of_gradients(own)
            start += len(own)
    return total.to("cpu", torch.float32)
