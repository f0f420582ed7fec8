"""Which closed forms are trusted: those whose results equal autograd's, on samples with a non-zero gradient.

A closed form is compared with autograd in the first batch in which its parameter has a gradient, and again whenever the
calls have a new signature. Two quantities are compared: the sum of all gradients, which is right only if every gradient
was attributed to its own sample (`identities.py`), and the squared norms of a few samples with a non-zero gradient.
A parameter that fails is tried with other layouts, and finally falls back to one sample at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal
from weakref import WeakKeyDictionary, WeakMethod, ref

import torch
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.errors import MosoError, SampleError
from moso.gradients.fallback import gradients_of_one, slow_route, vmap_route, warn_once
from moso.gradients.fitting import is_out_of_memory
from moso.gradients.layers import Layout
from moso.gradients.losses import Loss, batch_length, one_of, part_of, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Point, Tensors
from moso.gradients.probe import PROBES, SPREAD_NUMBERS, check_separate, find_routes, first_samples, spread_shapes
from moso.gradients.sweep import Apart, Swept, sweep_batch
from moso.gradients.watching.calls import Signature, StructureError
from moso.gradients.watching.folding import Fold

# Number of samples (with a non-zero gradient) whose norms are compared.
COMPARED = 2
# Relative tolerances for rounding: in float32 and wider, and in half precision.
TOLERANCE, ROUGH_TOLERANCE = 1e-3, 5e-2
NORM_ROUNDING, TOTAL_ROUNDING = 1e-10, 1e-5
# Number of scalars in all parameters up to which parameters behind derived tensors are left to `vmap`.
SMALL_NUMBERS = 2**14
# Layouts to try when a comparison fails, because two layouts can have outputs of the same shape.
_ALTERNATIVES: dict[Layout, Layout] = {"first": "inner"}


@dataclass
class Knowledge:
    """What is known of one network, loss and choice of parameters; valid for all moments of a training.

    Attributes:
        loss: Weak reference to the loss. A loss may hold the network, which must not be kept alive here.
        names: Names of the differentiated parameters.
        plan: How each parameter is treated.
        samples: Number of samples that the network was probed with.
        seen: By parameter, the call signatures for which the closed form was equal to autograd.
        route: How directional derivatives are computed, once that is known.
        rough: Whether some of the computation is in half precision, where only coarse tolerances hold.
        forward_folds: For forward mode, the convolutions that have the batch-norm behind them folded in.
        mended: Parameters for which another closed form was tried once; the next failure falls back to single samples.
    """

    loss: Callable[[], Loss | None]
    names: tuple[str, ...]
    plan: Plan
    samples: int
    route: Literal["forward", "backward"] | None = None
    rough: bool = False
    forward_folds: Mapping[str, Fold] = field(default_factory=dict)
    seen: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)

    def uncompared(self, count: int) -> Apart:
        """Return a function that gives the parameters whose call signature was never compared with autograd."""

        def apart(signature: Signature, changing: frozenset[str]) -> frozenset[str]:
            return frozenset(
                name
                for name in self.plan.routes.covered
                if name in changing or (count > 1, *signature.get(name, ())) not in self.seen.get(name, ())
            )

        return apart

    def believe(self, names: Iterable[str], signature: Signature, count: int) -> None:
        """Record that the closed forms of these parameters were right for calls of this signature."""
        for name in names:
            self.seen.setdefault(name, set()).add((count > 1, *signature.get(name, ())))


class RestartError(Exception):
    """The plan failed on a batch whose sums are mixed with those of other batches: restart with the new plan."""


_known: WeakKeyDictionary[nn.Module, list[Knowledge]] = WeakKeyDictionary()


def knowledge_of(point: Point, batch: Batch) -> Knowledge:
    """Return what is known of the network at this point; the first time, probe it with a few samples of the batch.

    Raises:
        LossInvalid: The loss does not return one value per sample.
        SamplesMixed: The loss of a sample depends on other samples of its batch.
    """
    names, count = tuple(point.trained), min(PROBES, batch_length(batch))
    held = _known.setdefault(point.model, [])
    held[:] = [known for known in held if known.loss() is not None]
    for known in held:
        if known.loss() == point.loss and known.names == names:
            if known.samples >= count:
                return known
            held.remove(known)  # probed with one sample, which does not show the batch dimension
            break
    check_separate(point, first_samples(batch))
    try:
        routes = find_routes(point, batch)
    except Exception as problem:  # noqa: BLE001 - a user's network may raise anything while it is watched
        warn_once(f"{type(point.model).__name__}: its calls cannot be watched ({_told(problem)})")
        routes = Routes()
    plan = _small_plan(point, routes, batch)
    left = tuple(name for name in names if name not in routes.covered)
    if left and count > 1 and plan is None:
        routes = _joined(routes, _spread(point.only(left), part_of(batch, 0, min(8, batch_length(batch)))))
    known = Knowledge(weakly(point.loss), names, plan or _planned(point, routes, batch), count)
    held.append(known)
    return known


def _small_plan(point: Point, routes: Routes, batch: Batch) -> Plan | None:
    """Return a plan without closed forms for small networks with many derived tensors, if `vmap` supports the network.

    Gradients with respect to a derived tensor go back to the parameters sample by sample, which is all that `vmap`
    does. Closed forms save nothing there, and the gradients are small enough to be kept for the second sweep.
    """
    numbers = sum(value.numel() for value in point.trained.values())
    derived = sum(point.trained[name].numel() for name in routes.derived)
    if numbers > SMALL_NUMBERS or 2 * derived < numbers:
        return None
    slow = vmap_route(point, first_samples(batch))
    return None if slow is None else Plan(Routes(), tuple(point.trained), slow)


def weakly(loss: Loss) -> Callable[[], Loss | None]:
    """Return a weak reference to a loss, or a strong one where its type supports no weak reference."""
    try:
        return WeakMethod(loss) if hasattr(loss, "__self__") else ref(loss)
    except TypeError:  # not every callable supports weak references
        return lambda: loss


def forget(model: nn.Module) -> None:
    """Drop what is known of a network, after its identities failed."""
    _known.pop(model, None)


def plan_for(point: Point, batch: Batch) -> Plan:
    """Return the plan that holds for this batch, compared with autograd where it was not yet."""
    return trusted_plan(point, knowledge_of(point, batch), batch)


def ensure(point: Point, known: Knowledge, batch: Batch) -> Plan:
    """Return the known plan, compared on a batch first if some closed form never was with a non-zero gradient."""
    if all(name in known.seen for name in known.plan.routes.covered):
        return known.plan
    return trusted_plan(point, known, batch)


def trusted_plan(point: Point, known: Knowledge, batch: Batch) -> Plan:
    """Return the known plan after comparing it with autograd on a batch."""
    while True:
        try:
            trusted_sweep(point, known, batch)
        except RestartError:
            continue
        return known.plan


def trusted_sweep(
    point: Point, known: Knowledge, batch: Batch, total: Tensors | None = None, seed: int = 0, room: int = 0
) -> Swept:
    """Sweep one batch, comparing with autograd whatever was not compared yet; update `known`.

    Args:
        point: The network.
        known: What is known of the network; learns from the comparison.
        batch: The samples.
        total: Sums to accumulate into.
        seed: Seed of the loss weights.
        room: Bytes of the batch's calls that may be kept.

    Raises:
        RestartError: The plan failed, and `known` has a new one.
        SampleError: The gradient of a sample is not finite.
    """
    plan, count = known.plan, batch_length(batch)
    mixed = {} if total is None else total
    if total is None:
        mixed = {name: torch.zeros_like(value) for name, value in point.trained.items()}
    try:
        swept = sweep_batch(point, plan, batch, mixed, apart=known.uncompared(count), seed=seed, room=room)
    except Exception as problem:
        if not plan.routes.covered or isinstance(problem, MosoError) or is_out_of_memory(problem):
            raise
        warn_once(f"{type(point.model).__name__}: closed forms of gradients fail here ({_told(problem)})")
        failing = set(problem.names) if isinstance(problem, StructureError) else _failing(point, plan, batch)
        known.plan = _planned(point, plan.routes.without(failing), batch)
        raise RestartError from problem
    check_finite(swept)
    known.rough = known.rough or swept.rough
    # A parameter whose gradient is zero in this batch adds nothing, and is compared on a later batch.
    doubtful = frozenset(name for name in swept.apart if bool(swept.norms[name].any()))
    wrong = set(swept.unseen)
    if wrong - swept.apart:
        known.plan = _planned(point, plan.routes.without(wrong), batch)
        raise RestartError
    if doubtful - wrong and point.metric:
        # What is compared with autograd is the plain sweep of the same batch: its norms have one scale.
        trusted_plan(replace(point, metric={}), known, batch)
        if known.plan is not plan:
            raise RestartError
    elif doubtful - wrong:
        wrong |= find_wrong(point, swept, doubtful - wrong, batch, frozenset(known.seen))
    known.believe(doubtful - wrong, swept.signature, count)
    if wrong:
        _mend(point, known, wrong, batch)
        raise RestartError
    for name in swept.apart:
        mixed[name] += swept.total[name]
    return replace(swept, total=mixed)


def _mend(point: Point, known: Knowledge, wrong: set[str], batch: Batch) -> None:
    """Find other closed forms for the parameters that came out wrong, and replace the plan."""
    routes = known.plan.routes
    first_time, known.mended = wrong - known.mended, known.mended | wrong
    sub = point.only(first_time)
    same: dict[str, Layout] = {name: routes.layouts[name] for name in first_time if name in routes.layouts}
    tries = [same] if routes.folds else []
    tries.append({name: _ALTERNATIVES[layout] for name, layout in same.items() if layout in _ALTERNATIVES})
    found = Routes()
    for layouts in tries:
        left = {name: layout for name, layout in layouts.items() if name not in found.covered}
        found = _joined(found, _right(sub, Routes(left, growing=routes.growing), batch))
    left_names = tuple(name for name in first_time if name not in found.covered)
    if left_names:
        found = _joined(found, _spread(point.only(left_names), batch))
    known.plan = _planned(point, _joined(routes.without(wrong), found), batch)


def _right(point: Point, routes: Routes, batch: Batch) -> Routes:
    """Return those of the routes that are right, compared on a batch."""
    if not routes.covered:
        return routes
    try:
        swept = sweep_batch(point, Plan(routes), batch)
    except Exception:  # noqa: BLE001 - a route that raises is not the right one; another is tried
        return Routes()
    return routes.without(set(swept.unseen) | find_wrong(point, swept, frozenset(routes.covered), batch))


def _spread(point: Point, batch: Batch) -> Routes:
    """Return the parameters that can be broadcast to each sample, with the shape that autograd confirms."""
    found: dict[str, tuple[int, ...]] = {}
    for name, value in point.trained.items():
        if value.numel() > SPREAD_NUMBERS or value.is_complex():
            continue
        alone = point.only([name])
        for shape in spread_shapes(value):
            routes = Routes(spread={name: shape})
            if _right(alone, routes, batch).covered and _has_gradient(alone, routes, batch):
                found[name] = shape
                break
    return _right(point.only(found), Routes(spread=found), batch) if found else Routes()


def _has_gradient(point: Point, routes: Routes, batch: Batch) -> bool:
    """Return whether every parameter has a non-zero gradient in the batch; comparing zeros would prove nothing."""
    return all(bool(norms.any()) for norms in sweep_batch(point, Plan(routes), batch).norms.values())


def _joined(one: Routes, other: Routes) -> Routes:
    return replace(
        one, layouts={**one.layouts, **other.layouts}, spread={**one.spread, **other.spread},
        growing=one.growing | other.growing,
    )  # fmt: skip


def _planned(point: Point, routes: Routes, batch: Batch) -> Plan:
    others = tuple(name for name in point.trained if name not in routes.covered)
    slow = slow_route(point.only(others), first_samples(batch)) if others else None
    return Plan(routes, others, slow)


def _failing(point: Point, plan: Plan, batch: Batch) -> set[str]:
    """Return the parameters whose closed forms raise when used alone; all covered parameters if none does."""
    failing = set()
    for name in plan.routes.covered:
        others = {other for other in plan.routes.covered if other != name}
        try:
            sweep_batch(point.only([name]), Plan(replace(plan.routes.without(others), folds={})), batch)
        except Exception:  # noqa: BLE001 - only which of them raises matters
            failing.add(name)
    return failing or set(plan.routes.covered)


def find_wrong(
    point: Point, swept: Swept, names: frozenset[str], batch: Batch, seen: frozenset[str] = frozenset()
) -> set[str]:
    """Return those of the parameters `names` whose gradient sums or squared norms differ from plain autograd.

    The norms of `seen` parameters were compared before and follow from the same closed form, so only their sums are
    compared again.
    """
    some = point.only(names)
    leaves = {name: value.detach().requires_grad_() for name, value in some.trained.items()}
    losses = some.losses(leaves, batch)
    truth = gradients_by(losses.sum(), leaves, keep=True)
    sizes = {name: float(wide(swept.norms[name]).sum()) ** 0.5 for name in names}
    floor, tolerance = TOTAL_ROUNDING * max(sizes.values()), ROUGH_TOLERANCE if swept.rough else TOLERANCE
    wrong = {name for name in names if not _distance(swept.total[name], truth[name]) <= tolerance * sizes[name] + floor}
    return wrong | _wrong_norms(some, swept, names - wrong - seen, batch, losses, leaves)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm((one - other).flatten()))


def _wrong_norms(
    point: Point, swept: Swept, names: frozenset[str], batch: Batch, losses: torch.Tensor, leaves: Tensors
) -> set[str]:
    """Return the parameters whose norm is wrong for one of a few samples with a non-zero gradient."""
    wrong: set[str] = set()
    largest = max((float(swept.norms[name].max()) for name in names), default=0.0)
    for number in _shown_by(swept, names):
        found = {name: float(swept.norms[name][number]) for name in names}
        _, alone = gradients_of_one(point, one_of(batch, number))
        off = {name for name in names if not _same_norm(found[name], alone[name], largest, swept.rough)}
        if off:
            # Alone, rounding may put a ReLU on the other side of its kink: compare again within the same batch.
            together = gradients_by(losses[number], leaves, keep=True)
            wrong |= {name for name in off if not _same_norm(found[name], together[name], largest, swept.rough)}
    return wrong


def _same_norm(found: float, gradient: torch.Tensor, largest: float, rough: bool) -> bool:
    expected = float(wide(gradient).square().sum())
    if rough:
        return abs(found - expected) <= ROUGH_TOLERANCE * (expected + ROUGH_TOLERANCE * largest)
    return abs(found - expected) <= TOLERANCE * expected + NORM_ROUNDING * largest


def _shown_by(swept: Swept, names: frozenset[str]) -> list[int]:
    """Choose a few samples such that, as far as possible, each parameter has a non-zero gradient in one of them."""
    left, chosen = set(names), list[int]()
    while left and len(chosen) < COMPARED:
        name = min(left)
        chosen.append(int(swept.norms[name].argmax()))
        left = {name for name in left if not bool(swept.norms[name][chosen[-1]] > 0)}
    return chosen


def gradients_by(number: torch.Tensor, leaves: Tensors, keep: bool = False) -> Tensors:
    """Return the gradient of a scalar by every leaf, zeros for leaves that it does not depend on.

    `keep` retains the autograd graph.
    """
    if not number.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    parts = torch.autograd.grad(number, list(leaves.values()), retain_graph=keep, allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if part is None else part
        for (name, leaf), part in zip(leaves.items(), parts, strict=True)
    }


def check_finite(swept: Swept) -> None:
    """Raise a `SampleError` for the first sample of a batch whose gradient is NaN or infinite."""
    bad = ~torch.isfinite(torch.stack(list(swept.norms.values())).sum(0))
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        raise SampleError(
            errors.ValuesNotFinite, "the gradient of {sample} is not finite; look at its input and loss", first
        )


def _told(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
