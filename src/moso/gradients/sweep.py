"""One sweep over the data: the mean gradient, and with it the squared norm of every sample's gradient.

The parameters that have closed forms are cut off where they meet samples, so autograd only carries gradients from
layer to layer; each call's form then gives norms and gradient from its input and output gradient. No gradient of a
sample outlives the call it was formed for, and only a few of them exist at one time (`layers/operation.py`).

Every sample's loss enters the backward pass times a power of two, drawn at random, which is taken out again where a
form says that a gradient is that sample's. Given to the wrong sample it would not go away, and the sum of all gradients
would be another one than autograd's (`trust.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from moso import errors
from moso.gradients.derived_tensors import back_to_parameters
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
    """What one batch gives.

    Attributes:
        total: The sum of all samples' gradients, by parameter.
        norms: Squared norms `[batch]`, by parameter.
        signature: What the calls looked like, up to the number of samples.
        changing: The parameters met after rows were chosen by value, whose calls are never the same for sure.
        unseen: The parameters that a gradient reached on a way that was not watched.
        apart: The parameters whose sums are this batch's alone.
        depends: Whether the losses depended on any differentiated parameter.
        rough: Whether some of it was computed in half precision.
        kept: What the calls were given, where there was room for it.
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
    """What a batch's calls were given, from which derivatives follow without another pass through the network.

    Attributes:
        calls: Calls in which parameters met samples, and the gradients of their outputs.
        formed: Gradients `[batch, ...]` of the parameters that were given to each sample, and of those whose gradients
            take less memory than their calls.
        slow: Gradients `[batch, ...]` of the parameters without closed forms, free of the losses' weights.
        scales: What takes the weights of the samples' losses out again, `[batch]`.
        leaves: The parameters as leaves of what is computed from them.
        bytes: How much memory this takes.
    """

    calls: list[tuple[Call, torch.Tensor]]
    formed: Tensors
    slow: Tensors
    scales: torch.Tensor
    leaves: Tensors
    bytes: int


# Whether time steps end with their identities; off only to measure what they cost.
identities_hold: ContextVar[bool] = ContextVar("identities_hold", default=True)


@contextmanager
def without_identities() -> Iterator[None]:
    """Time steps without the identities that they end with: for measuring what those cost, and for nothing else."""
    token = identities_hold.set(False)
    try:
        yield
    finally:
        identities_hold.reset(token)


def loss_weights(count: int, seed: int, like: torch.Tensor) -> torch.Tensor:
    """Weights of samples' losses `[count]`: powers of two of either sign, all of them among any sixteen neighbours.

    Powers of two go into a number and out of it again without rounding.
    """
    if not identities_hold.get():
        return torch.ones(count).to(like)
    values = torch.tensor([sign * 2.0**power for power in range(-4, 4) for sign in (-1, 1)], dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    blocks = [values[torch.randperm(len(values), generator=generator)] for _ in range(-(-count // len(values)))]
    return torch.cat(blocks)[:count].to(like)


def sweep_batch(
    point: Point,
    plan: Plan,
    batch: Any,
    total: Tensors | None = None,
    *,
    apart: Apart | None = None,
    seed: int = 0,
    room: int = 0,
) -> Swept:
    """One forward and one backward pass: sums of gradients and squared norms of every planned parameter.

    Args:
        point: The network.
        plan: How each of its parameters is treated.
        batch: The samples.
        total: Sums to add to: a network's gradient is large, and one of it is enough.
        apart: Says of the calls' signatures, and of what may change with the batch, which parameters' sums are to be
            this batch's alone all the same.
        seed: What the weights of the samples' losses are drawn from.
        room: Bytes that may be kept of the batch's calls.
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
            norms[name] = squares(leaf.grad) * sums.scales.square()
    slow = _swept_slowly(point, plan, batch, total, norms, sums.room >= 0)
    kept = None
    if sums.room >= 0:
        formed = sums.formed | {name: leaf.grad for name, leaf in spread.items() if leaf.grad is not None}
        kept = Kept(sums.kept, formed, slow, sums.scales, sums.leaves, room - sums.room)
    rough = sums.watching.rough
    return Swept(total, norms, signature, changing, sums.unseen(), alone, losses.requires_grad, rough, kept)


def _slow_sweep(point: Point, plan: Plan, batch: Any, total: Tensors | None, room: int) -> Swept:
    """A sweep in which no parameter has a closed form."""
    count = batch_length(batch)
    sums = {name: torch.zeros_like(point.trained[name]) for name in plan.others} if total is None else dict(total)
    norms: Tensors = {}
    needed = count * sum(point.trained[name].nbytes for name in plan.others)
    gradients = _swept_slowly(point, plan, batch, sums, norms, needed <= room)
    scales = torch.ones(count, device=point.device)
    return Swept(sums, norms, kept=Kept([], {}, gradients, scales, {}, needed) if needed <= room else None)


def _swept_slowly(point: Point, plan: Plan, batch: Any, total: Tensors, norms: Tensors, keeps: bool) -> Tensors:
    """Add norms and totals of the parameters without closed forms; returns their gradients, if they are to be kept."""
    if plan.slow is None:
        return {}
    pieces: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others}
    kept: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others if keeps}
    for gradients in plan.slow(point.only(plan.others), batch):
        for name, gradient in gradients.items():
            pieces[name].append(wide(squares(gradient)))
            total[name] += gradient.sum(0)
            if keeps:
                kept[name].append(gradient)
    norms.update({name: torch.cat(values) for name, values in pieces.items()})
    return {name: torch.cat(parts) if len(parts) > 1 else parts[0] for name, parts in kept.items()}


def spread_out(point: Point, plan: Plan, count: int) -> Tensors:
    """The parameters that are given to each sample separately, `[count, ...]`."""
    return {
        name: point.trained[name].view(shape).expand(count, *shape[1:]).clone().requires_grad_()
        for name, shape in plan.routes.spread.items()
    }


def watching_for(point: Point, plan: Plan, batch: Any, visit: Any, leaves: Tensors, **more: Any) -> Watching:
    """Watches for the parameters that have closed forms, while a batch passes."""
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
    """Collects norms and totals, call by call, in the order of the backward pass."""

    def __init__(self, point: Point, plan: Plan, batch: Any, total: Tensors | None) -> None:
        names, count = [*plan.routes.covered, *plan.others], batch_length(batch)
        self.total = dict(total) if total is not None else {n: torch.zeros_like(point.trained[n]) for n in names}
        # One row per parameter, so that what is done to all of them is done once.
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
        self.room = -1  # bytes that are left for what is kept; below zero nothing is
        self.kept: list[tuple[Call, torch.Tensor]] = []
        self.formed: Tensors = {}
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
        """Whether the gradients of a call's parameters take less memory than its input and output gradient."""
        places = call.places.values()
        if len(once) < len(places) or any(place.tensor is not None or place.rows is not None for place in places):
            return False
        return self._count * sum(self.leaves[place.name].numel() for place in places) <= call.a.numel() + b.numel()

    def _keep(self, call: Call, b: torch.Tensor, pieces: dict[str, list[torch.Tensor]] | None) -> None:
        """Keep a call, or the gradients that it gave, as far as there is room."""
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
        """Add what a call gives for the parameters of these roles, each in one addition.

        Rounding is then the same whether a batch's sums were kept apart, to be compared with autograd, or not; so a
        run that was resumed has the bits of one that was not. Gradients of single samples go to `pieces`.
        """
        scales = self._scales_as(b)
        quick = call.operation.sums(call, a, b, scales) if pieces is None else None
        found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        for role, squared, total in from_each(call, a, b, scales, pieces) if quick is None else quick:
            if role in found:
                found[role] = found[role][0] + squared, found[role][1] + total
            elif role in roles:
                found[role] = squared, total
        for role, own in found.items():
            self._add(call.places[role], *own)

    def _scales_as(self, b: torch.Tensor) -> torch.Tensor:
        kind = b.real.dtype if b.is_complex() else b.dtype
        return self.scales if self.scales.dtype == kind else self.scales.to(kind)

    def _find_quick(self) -> set[Place]:
        """The places whose norms can be taken by themselves: used once, and nothing else is a part of the parameter."""
        by_name: dict[str, list[Place]] = defaultdict(list)
        for place in self.watching.uses:
            for name in place.names:
                by_name[name].append(place)
        return {
            place
            for place, uses in self.watching.uses.items()
            if uses == 1 and place.isometric and len(place.names) == 1 and _disjoint(by_name[place.name])
        }

    def finish(self) -> None:
        """Take what waits for calls that had no part in the loss."""
        while self._waiting:
            self._combine(self._linked(next(iter(self._waiting))))
        # Breaks a reference cycle, so the activations are freed now and not by the garbage collector.
        self.watching.visit = None

    def _linked(self, place: Place) -> list[Place]:
        """The used places that have a parameter in common with this one, directly or through others."""
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
        """Parameters that were used several times, or to compute something else: first summed, then squared."""
        uses = {place: self._waiting.pop(place, []) for place in linked}
        if not any(uses.values()):
            return
        one = as_one_call(uses, self.leaves)
        if one is not None:
            self._take(*one)
            return
        names = {name for place in linked for name in place.names if name in self.norms}
        made = [place.tensor.numel() for place in linked if place.tensor is not None]
        # A Jacobian product passes over its numbers several times, and is quickest with half as many at once.
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
                    self.norms[name][part] += squares(gradient) * scales.square()
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
        """Parameters that autograd brought a gradient to, although every way to them was to be cut."""
        return frozenset(name for name, leaf in self.leaves.items() if leaf.grad is not None and bool(leaf.grad.any()))


def _disjoint(places: list[Place]) -> bool:
    """Whether no two of a parameter's places share a number."""
    if len(places) == 1:
        return True
    rows = sorted(place.rows or (0, 0) for place in places)
    return all(place.rows for place in places) and all(one[1] <= other[0] for one, other in pairwise(rows))


def _summed_uses(uses: list[Use], part: slice) -> torch.Tensor:
    gradients = [
        own for call, role, a, b in uses for name, own in call.operation.each(call, a[part], b[part]) if name == role
    ]
    return torch.stack(gradients).sum(0) if len(gradients) > 1 else gradients[0]
