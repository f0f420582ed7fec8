"""One sweep over the data: the mean gradient, and the squared norm of every per-sample gradient.

Parameters with closed forms are detached where they meet samples, so autograd only carries gradients from layer to
layer. The closed form of each call then computes norms and the summed gradient from the call's input and output
gradient. A per-sample gradient is freed with its call, and only a few exist at one time (`layers/operation.py`).

Losses are weighted with random powers of two, so a gradient of the wrong sample shows in the sum (`identities.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Container, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from moso import errors
from moso.batch import Batch
from moso.gradients.derived_tensors import back_to_parameters
from moso.gradients.identities import loss_weights
from moso.gradients.layers import Call, Place
from moso.gradients.layers.operation import chunks, from_each, squares, weighted_sum
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan
from moso.gradients.point import Point, Tensors
from moso.gradients.shared import Use, as_one_call
from moso.gradients.watching.calls import Signature, Watching
from moso.gradients.watching.owners import told_owners

Apart = Callable[[Signature, frozenset[str]], frozenset[str]]


@dataclass(frozen=True)
class Swept:
    """The result of sweeping one batch.

    Attributes:
        total: The sum of all samples' gradients, by parameter name.
        norms: Squared norms, shape ``[batch]``, by parameter name.
        signature: Output shapes of the calls per parameter, independent of the number of samples.
        changing: Parameters met after rows were selected by value; their calls may differ from batch to batch.
        unseen: Parameters that received a gradient on a path that was not watched.
        apart: Parameters whose entry in `total` covers this batch only.
        depends: Whether the losses depend on any differentiated parameter.
        rough: Whether some of the computation ran in half precision.
        kept: The calls of the batch, if there was room to keep them.
    """

    total: Tensors
    norms: Tensors
    signature: Signature = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    depends: bool = True
    rough: bool = False
    kept: "Kept | None" = None


@dataclass(frozen=True)
class Kept:
    """The calls of one batch, from which directional derivatives follow without another pass through the network.

    Attributes:
        calls: Calls in which parameters met samples, with the gradients of their outputs.
        formed: Per-sample gradients, ``[batch, ...]``, of broadcast parameters, and of those smaller than their calls.
        slow: Per-sample gradients, ``[batch, ...]``, of parameters without closed forms, free of loss weights.
        scales: Reciprocals of the loss weights, ``[batch]``.
        leaves: The parameters as leaves of the derived tensors' autograd graph.
        bytes: Memory that the kept tensors take.
    """

    calls: list[tuple[Call, torch.Tensor]]
    formed: Tensors
    slow: Tensors
    scales: torch.Tensor
    leaves: Tensors
    bytes: int


def sweep_batch(
    point: Point,
    plan: Plan,
    batch: Batch,
    total: Tensors | None = None,
    *,
    apart: Apart | None = None,
    seed: int = 0,
    room: int = 0,
) -> Swept:
    """Compute gradient sums and squared norms of every planned parameter in one forward and one backward pass.

    Args:
        point: The network.
        plan: How each of its parameters is treated.
        batch: The samples.
        total: Sums to accumulate into (a gradient is as large as the network, so there should be one only).
        apart: Returns, from signatures and changing parameters, whose sums must cover this batch only.
        seed: Seed of the loss weights.
        room: Bytes of the batch's calls that may be kept.
    """
    count = batch_length(batch)
    if not plan.routes.covered:
        return _slow_sweep(point, plan, batch, total, room)
    sums = _Sums(point, plan, batch, total)
    spread = spread_out(point, plan, count)
    with sums.watching:
        losses = point.losses({**point.trained, **sums.leaves, **spread}, batch)
    if len(losses) != count:
        raise errors.LossInvalid(f"the loss gave {len(losses)} values for {count} samples; it must give one per sample")
    signature, changing = sums.watching.signature(), frozenset(sums.watching.changing)
    alone = frozenset[str]() if apart is None or total is None else apart(signature, changing)
    for name in alone:
        sums.total[name] = torch.zeros_like(point.trained[name])
    weights = loss_weights(count, seed, losses.detach())
    sums.scales = 1 / weights
    sums.room = room - count * sum(point.trained[name].nbytes for name in (*plan.others, *spread))
    if losses.requires_grad:
        (losses * weights).sum().backward()  # type: ignore[no-untyped-call]
    sums.finish()
    total, norms = sums.total, sums.norms
    for name, leaf in spread.items():
        if leaf.grad is not None:
            total[name] += weighted_sum(leaf.grad, sums.scales).view_as(total[name])
            norms[name] = squares(leaf.grad, point.metric.get(name)) * sums.scales.square()
    slow = _swept_slowly(point, plan, batch, total, norms, sums.room >= 0)
    kept = None
    if sums.room >= 0:
        formed = sums.formed | {name: leaf.grad for name, leaf in spread.items() if leaf.grad is not None}
        kept = Kept(sums.kept, formed, slow, sums.scales, sums.leaves, room - sums.room)
    rough = sums.watching.rough
    return Swept(total, norms, signature, changing, sums.unseen(), alone, losses.requires_grad, rough, kept)


def _slow_sweep(point: Point, plan: Plan, batch: Batch, total: Tensors | None, room: int) -> Swept:
    """Sweep a batch without any closed form."""
    count = batch_length(batch)
    sums = {name: torch.zeros_like(point.trained[name]) for name in plan.others} if total is None else dict(total)
    norms: Tensors = {}
    needed = count * sum(point.trained[name].nbytes for name in plan.others)
    gradients = _swept_slowly(point, plan, batch, sums, norms, needed <= room)
    scales = torch.ones(count, device=point.device)
    return Swept(sums, norms, kept=Kept([], {}, gradients, scales, {}, needed) if needed <= room else None)


def _swept_slowly(point: Point, plan: Plan, batch: Batch, total: Tensors, norms: Tensors, keeps: bool) -> Tensors:
    """Add norms and totals of the parameters without closed forms; return their gradients if `keeps`, else nothing."""
    if plan.slow is None:
        return {}
    pieces: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others}
    kept: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others if keeps}
    for gradients in plan.slow(point.only(plan.others), batch):
        for name, gradient in gradients.items():
            # Squares of half-precision numbers would overflow or vanish.
            own = wide(gradient) if gradient.dtype.itemsize < 4 else gradient
            pieces[name].append(wide(squares(own, point.metric.get(name))))
            total[name] += gradient.sum(0)
            if keeps:
                kept[name].append(gradient)
    norms.update({name: torch.cat(values) for name, values in pieces.items()})
    return {name: torch.cat(parts) if len(parts) > 1 else parts[0] for name, parts in kept.items()}


def spread_out(point: Point, plan: Plan, count: int) -> Tensors:
    """Broadcast the parameters of `plan.routes.spread` to one copy per sample, ``[count, ...]``."""
    return {
        name: point.trained[name].view(shape).expand(count, *shape[1:]).clone().requires_grad_()
        for name, shape in plan.routes.spread.items()
    }


def watching_for(point: Point, plan: Plan, batch: Batch, visit: Any, leaves: Tensors, **more: Any) -> Watching:
    """Return a `Watching` for the parameters that have closed forms, for one batch."""
    return Watching(
        leaves,
        batch_length(batch),
        plan.routes.layouts,
        visit,
        constants=point.constants(),
        growing=plan.routes.growing,
        row_owners=told_owners(batch),
        **more,
    )


class _Sums:
    """Accumulates norms and totals, call by call, in the order of the backward pass."""

    def __init__(self, point: Point, plan: Plan, batch: Batch, total: Tensors | None) -> None:
        names, count = [*plan.routes.covered, *plan.others], batch_length(batch)
        self.total = dict(total) if total is not None else {n: torch.zeros_like(point.trained[n]) for n in names}
        # One row per parameter, so that an operation on all norms is a single kernel.
        kind = torch.float32
        for name in names:
            kind = torch.promote_types(kind, point.trained[name].dtype)
        rows = torch.zeros(len(names), count, dtype=kind, device=point.device)
        self.norms = dict(zip(names, rows.unbind(), strict=True))
        self.leaves = {name: point.trained[name].detach().requires_grad_() for name in plan.routes.layouts}
        values = {**point.fixed, **point.trained}
        self.watching = watching_for(
            point, plan, batch, self._visit, self.leaves, folds=plan.routes.folds, values=values
        )
        self.scales = torch.ones(count)
        self.room = -1  # bytes left for kept calls; negative: keep nothing
        self.kept: list[tuple[Call, torch.Tensor]] = []
        self.formed: Tensors = {}
        self._metric = point.metric
        self._quick: set[Place] | None = None
        self._waiting: dict[Place, list[Use]] = defaultdict(list)
        self._count = count

    def _visit(self, call: Call, b: torch.Tensor) -> None:
        gradient = b
        a, b = call.operation.split(call, b)
        if a.is_floating_point() and a.dtype != b.dtype:  # under autocast
            both = torch.promote_types(a.dtype, b.dtype)
            a, b = a.to(both), b.to(both)
        if self._quick is None:
            self._quick = self._find_quick()
        once = {role for role, place in call.places.items() if place in self._quick}
        for role, place in call.places.items():
            if role not in once:
                self._waiting[place].append((call, role, a, b))
                self._combine_if_whole(place)
        small = self.room >= 0 and self._is_small(call, once, gradient)
        pieces: dict[str, list[torch.Tensor]] | None = {} if small else None
        if once:
            self._take(call, once, a, b, pieces)
        if self.room >= 0:
            self._keep(call, gradient, pieces)

    def _is_small(self, call: Call, once: Set[str], b: torch.Tensor) -> bool:
        """Return whether the per-sample gradients of a call need less memory than its input and output gradient."""
        places = call.places.values()
        if len(once) < len(places) or any(place.tensor is not None or place.rows is not None for place in places):
            return False
        return self._count * sum(self.leaves[place.name].numel() for place in places) <= call.a.numel() + b.numel()

    def _keep(self, call: Call, b: torch.Tensor, pieces: dict[str, list[torch.Tensor]] | None) -> None:
        """Keep a call, or the per-sample gradients formed from it, as far as there is room."""
        if pieces is None:
            self.kept.append((call, b))
            self.room -= call.a.nbytes + b.nbytes
        else:
            for role, parts in pieces.items():
                own = torch.cat(parts) if len(parts) > 1 else parts[0]
                self.formed[call.places[role].name] = own
                self.room -= own.nbytes
        if self.room < 0:
            self.kept, self.formed = [], {}

    def _take(
        self,
        call: Call,
        roles: Container[str],
        a: torch.Tensor,
        b: torch.Tensor,
        pieces: dict[str, list[torch.Tensor]] | None = None,
    ) -> None:
        """Add a call's norms and totals for the parameters of these roles, one addition per parameter.

        With a single addition, rounding does not depend on whether a batch's sums were kept apart for a comparison with
        autograd, so a resumed run is bit-identical to an uninterrupted one. Per-sample gradients are appended to
        `pieces`.
        """
        scales, metric = self._scales_as(b), self._metric_of(call, roles)
        quick = None
        if pieces is None:
            weighted = call.operation.weighted_sums
            quick = weighted(call, a, b, scales, metric) if metric else call.operation.sums(call, a, b, scales)
        found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for role, squared, total in from_each(call, a, b, scales, pieces, metric) if quick is None else quick:
            if role in found:
                found[role] = found[role][0] + squared, found[role][1] + total
            elif role in roles:
                found[role] = squared, total
        for role, own in found.items():
            self._add(call.places[role], *own)

    def _metric_of(self, call: Call, roles: Container[str]) -> Tensors:
        """Return the weights of squares for the parameters of a call, by role; those of rows are rows."""
        found: Tensors = {}
        for role, place in call.places.items():
            own = self._metric.get(place.name)
            if role in roles and own is not None:
                found[role] = own if place.rows is None else own[slice(*place.rows)]
        return found

    def _scales_as(self, b: torch.Tensor) -> torch.Tensor:
        kind = b.real.dtype if b.is_complex() else b.dtype
        return self.scales if self.scales.dtype == kind else self.scales.to(kind)

    def _find_quick(self) -> set[Place]:
        """Return the places whose norms can be computed alone: used once, disjoint from others of the parameter."""
        by_name: dict[str, list[Place]] = defaultdict(list)
        for place in self.watching.uses:
            for name in place.names:
                by_name[name].append(place)
        return {
            place
            for place, uses in self.watching.uses.items()
            if uses == 1
            and place.isometric
            and len(place.names) == 1
            and _disjoint(by_name[place.name])
            # The weights of squares belong to the parameter, not to a reshaped or transposed view of it.
            and (place.tensor is None or place.name not in self._metric)
        }

    def finish(self) -> None:
        """Combine the waiting uses whose remaining calls had no part in the loss."""
        while self._waiting:
            self._combine(self._linked(next(iter(self._waiting))))
        # Breaks a reference cycle, so the activations are freed now and not by the garbage collector.
        self.watching.visit = None

    def _linked(self, place: Place) -> list[Place]:
        """Return the used places that share a parameter with this one, directly or through other places."""
        linked, names = [place], set(place.names)
        while True:
            more = [own for own in self.watching.uses if own not in linked and names & set(own.names)]
            if not more:
                return linked
            linked += more
            names |= {name for own in more for name in own.names}

    def _combine_if_whole(self, place: Place) -> None:
        linked = self._linked(place)
        if all(len(self._waiting.get(own, ())) == self.watching.uses[own] for own in linked):
            self._combine(linked)

    def _combine(self, linked: list[Place]) -> None:
        """Sum the gradients of parameters that were used several times, or through derived tensors, before squaring."""
        uses = {place: self._waiting.pop(place, []) for place in linked}
        if not any(uses.values()):
            return
        one = as_one_call(uses, self.leaves)
        if one is not None:
            self._take(*one)
            return
        names = {name for place in linked for name in place.names if name in self.norms}
        made = [place.tensor.numel() for place in linked if place.tensor is not None]
        # A vector-Jacobian product passes over its numbers several times, and is fastest with half as many at once.
        numbers = (2 if made else 1) * max([*made, *(self.total[name].numel() for name in names)])
        totals: Tensors = {}
        for part in chunks(numbers, self._count):
            found: Tensors = {}
            for place, own in uses.items():
                if own:
                    gradient = _summed_uses(own, part)
                    for name, back in back_to_parameters(place, gradient, self.leaves):
                        found[name] = found[name] + back if name in found else back
            for name, gradient in found.items():
                if name in self.norms:
                    scales = self.scales[part].to(self.norms[name].dtype)
                    self.norms[name][part] += squares(gradient, self._metric.get(name)) * scales.square()
                    own_total = weighted_sum(gradient, scales)
                    totals[name] = totals[name] + own_total if name in totals else own_total
        for name, own_total in totals.items():
            self.total[name] += own_total

    def _add(self, place: Place, squared: torch.Tensor, total: torch.Tensor) -> None:
        name = place.name
        if name not in self.norms:
            return
        self.norms[name] += squared
        own = self.total[name]
        if place.rows is not None:
            own[slice(*place.rows)].add_(total)
        elif place.tensor is None:
            own.add_(total)
        else:
            [back] = torch.autograd.grad(place.tensor, [self.leaves[name]], total.to(place.tensor), retain_graph=True)
            own.add_(back)

    def unseen(self) -> frozenset[str]:
        """Return parameters that received a gradient from autograd although every watched call detached them."""
        return frozenset(name for name, leaf in self.leaves.items() if leaf.grad is not None and bool(leaf.grad.any()))


def _disjoint(places: list[Place]) -> bool:
    """Return whether no two of a parameter's places overlap."""
    if len(places) == 1:
        return True
    rows = sorted(place.rows or (0, 0) for place in places)
    return all(place.rows for place in places) and all(one[1] <= other[0] for one, other in pairwise(rows))


def _summed_uses(uses: list[Use], part: slice) -> torch.Tensor:
    gradients = [
        own for call, role, a, b in uses for name, own in call.operation.each(call, a[part], b[part]) if name == role
    ]
    return torch.stack(gradients).sum(0) if len(gradients) > 1 else gradients[0]
