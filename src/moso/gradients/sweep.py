"""One sweep over the data: the mean gradient, and with it the squared norm of every sample's gradient.

The parameters that have closed forms are held fixed, so autograd only carries gradients from layer to layer; each
call's form then gives norms and gradient from its input and output gradient. No gradient of a sample outlives the
call it was formed for, and only a few of them exist at one time (`layers/parts.py`).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from moso.gradients.calls import Watching
from moso.gradients.layers import Call, Place
from moso.gradients.layers.parts import chunks, from_each
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan
from moso.gradients.point import Point, Tensors


@dataclass(frozen=True)
class Swept:
    """What one batch gives: sums of gradients, and squared norms `[batch]`, by parameter."""

    total: Tensors
    norms: Tensors


def sweep_batch(point: Point, plan: Plan, batch: Any, total: Tensors | None = None) -> Swept:
    """One forward and one backward pass: sums of gradients and squared norms of every planned parameter.

    The sums are added to `total`, if there is one: a network's gradient is large, and one of it is enough.
    """
    count = batch_length(batch)
    sums = _Sums(point, plan, count, total)
    spread = {
        name: point.trained[name].view(shape).expand(count, *shape[1:]).clone().requires_grad_()
        for name, shape in plan.routes.spread.items()
    }
    with sums.watching:
        losses = point.losses({**point.trained, **spread}, batch)
    if losses.requires_grad:
        losses.sum().backward()  # type: ignore[no-untyped-call]
    sums.finish()
    total, norms = sums.total, sums.norms
    for name, leaf in spread.items():
        if leaf.grad is not None:
            total[name] += leaf.grad.sum(0).view_as(total[name])
            norms[name] = leaf.grad.flatten(1).square().sum(1)
    if plan.slow is not None:
        pieces: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others}
        for gradients in plan.slow(batch):
            for name, gradient in gradients.items():
                pieces[name].append(wide(gradient.flatten(1)).square().sum(1))
                total[name] += gradient.sum(0)
        norms.update({name: torch.cat(values) for name, values in pieces.items()})
    return Swept(total, norms)


class _Sums:
    """Collects norms and totals, call by call, in the order of the backward pass."""

    def __init__(self, point: Point, plan: Plan, count: int, total: Tensors | None) -> None:
        names = [*plan.routes.covered, *plan.others]
        self.total = {name: torch.zeros_like(point.trained[name]) for name in names} if total is None else total
        self.norms = {name: point.trained[name].new_zeros(count) for name in names}
        fixed = {name: point.trained[name] for name in plan.routes.layouts}
        values = {**point.fixed, **point.trained}
        self.watching = Watching(fixed, count, plan.routes.layouts, self._visit, plan.routes.folds, values)
        self._waiting: dict[Place, list[tuple[Call, str, torch.Tensor, torch.Tensor]]] = defaultdict(list)

    def _visit(self, call: Call, b: torch.Tensor) -> None:
        a, b = call.operation.split(call, b)
        if a.is_floating_point() and a.dtype != b.dtype:  # under autocast
            both = torch.promote_types(a.dtype, b.dtype)
            a, b = a.to(both), b.to(both)
        once = {role for role, place in call.places.items() if self.watching.uses[place] == 1}
        for role, place in call.places.items():
            if role not in once:
                self._waiting[place].append((call, role, a, b))
                if len(self._waiting[place]) == self.watching.uses[place]:
                    self._combine(place)
        if once:
            for role, squared, total in _sums(call, a, b):
                if role in once:
                    self._add(call.places[role], squared, total)

    def finish(self) -> None:
        """Take what waits for calls that had no part in the loss."""
        for place in list(self._waiting):
            self._combine(place)
        # The two know each other, and would wait for the garbage collector with all they hold.
        self.watching.visit = None

    def _combine(self, place: Place) -> None:
        """A parameter that was used several times: its gradient is the sum over its uses, and only then squared."""
        uses = self._waiting.pop(place)
        first, role_of_first, _, b_of_first = uses[0]
        for part in chunks(first, role_of_first, len(b_of_first)):
            gradient = sum(
                own
                for call, role, a, b in uses
                for name, own in call.operation.each(call, a[part], b[part])
                if name == role
            )
            squared = torch.zeros_like(self.norms[place.name])
            squared[part] = gradient.flatten(1).square().sum(1)  # type: ignore[union-attr]
            self._add(place, squared, gradient.sum(0))  # type: ignore[union-attr]

    def _add(self, place: Place, squared: torch.Tensor, total: torch.Tensor) -> None:
        self.norms[place.name] += squared
        own = self.total[place.name]
        (own if place.rows is None else own[slice(*place.rows)]).add_(total)


def _sums(call: Call, a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Norms and totals of a call's parameters, by its cheaper form."""
    quick = call.operation.sums(call, a, b)
    yield from from_each(call, a, b) if quick is None else quick
