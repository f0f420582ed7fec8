"""Which closed forms are believed: those that gave what autograd gives, where there was something to give.

A form is compared in the first batch in which its parameter has a gradient, wherever that is in the data, and again
whenever the calls look otherwise than before. Two things are held against plain autograd: the sum of all gradients,
which is right only if every gradient was given to the sample it belongs to (`sweep.py` says why), and the squared norms
of a few samples that have one. Whatever fails is tried in other ways, and in the end taken one sample at a time.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakMethod, ref

import torch
from torch import nn

from moso import errors
from moso.errors import MosoError, SampleError
from moso.gradients.fallback import gradients_of_one, slow_route, vmap_route, warn_once
from moso.gradients.fitting import is_out_of_memory
from moso.gradients.layers import Layout
from moso.gradients.losses import Loss, batch_length, one_of, part_of, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Point, Tensors
from moso.gradients.probe import PROBES, SPREAD_NUMBERS, find_routes, first_samples, spread_shapes
from moso.gradients.sweep import Apart, Swept, sweep_batch
from moso.gradients.watching.calls import Signature, StructureError
from moso.gradients.watching.folding import Fold

# Samples whose norms are compared, of those that have a gradient.
COMPARED = 2
# What is allowed for rounding, as a share of the size of what is compared: in float32 and wider, and below.
TOLERANCE, ROUGH_TOLERANCE = 1e-3, 5e-2
NORM_ROUNDING, TOTAL_ROUNDING = 1e-10, 1e-5
# Parameters, in numbers, below which those behind derived tensors are left to `vmap`.
SMALL_NUMBERS = 2**14
# Ways in which a parameter's layout can be told from that of another which looks the same.
_ALTERNATIVES: dict[Layout, Layout] = {"first": "inner"}


@dataclass
class Knowledge:
    """What is known of one network, loss and choice of parameters; it outlives the moment it was found at.

    Attributes:
        loss: Gives the loss, as long as somebody else holds it: it may hold the network, which is not held here.
        plan: How each parameter is treated.
        samples: How many samples it was found with.
        seen: By parameter, the signatures of calls that were compared with autograd and were right.
        route: How derivatives along a direction are taken, once that is known.
        rough: Whether some of it is computed in half precision, where rounding is a share of everything.
        forward_folds: For forward mode, the convolutions that do the work of the batch-norm behind them.
        mended: The parameters for which another way was found once; the next is one sample at a time.
    """

    loss: Callable[[], Loss | None]
    names: tuple[str, ...]
    plan: Plan
    samples: int
    route: Literal["forward", "backward"] | None = None
    rough: bool = False
    forward_folds: Mapping[str, Fold] = field(default_factory=dict)
    seen: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)

    def uncompared(self, count: int) -> Apart:
        """Says which parameters' calls, of which only the signature is known, were never compared."""

        def apart(signature: Signature, changing: frozenset[str]) -> frozenset[str]:
            return frozenset(
                name
                for name in self.plan.routes.covered
                if name in changing or (count > 1, *signature.get(name, ())) not in self.seen.get(name, ())
            )

        return apart

    def believe(self, names: Iterable[str], signature: Signature, count: int) -> None:
        """Note that these were right."""
        for name in names:
            self.seen.setdefault(name, set()).add((count > 1, *signature.get(name, ())))


class RestartError(Exception):
    """The plan did not hold for a batch whose sums are mixed with those of others: begin again with the new one."""


_known: WeakKeyDictionary[nn.Module, list[Knowledge]] = WeakKeyDictionary()


def knowledge_of(point: Point, batch: Any) -> Knowledge:
    """What is known of the network at this point; the first time, it is looked at with a few samples of the batch."""
    names, count = tuple(point.trained), min(PROBES, batch_length(batch))
    held = _known.setdefault(point.model, [])
    held[:] = [known for known in held if known.loss() is not None]
    for known in held:
        if known.loss() == point.loss and known.names == names:
            if known.samples >= count:
                return known
            held.remove(known)  # found with one sample, which shows too little
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


def _small_plan(point: Point, routes: Routes, batch: Any) -> Plan | None:
    """A plan without closed forms for few parameters behind derived tensors, if `vmap` knows the network.

    Gradients by a derived tensor go back to the parameters sample by sample, which is all that `vmap` does. Closed
    forms save nothing there, and so few gradients can be kept for the second sweep.
    """
    numbers = sum(value.numel() for value in point.trained.values())
    derived = sum(point.trained[name].numel() for name in routes.derived)
    if numbers > SMALL_NUMBERS or 2 * derived < numbers:
        return None
    slow = vmap_route(point, first_samples(batch))
    return None if slow is None else Plan(Routes(), tuple(point.trained), slow)


def weakly(loss: Loss) -> Callable[[], Loss | None]:
    """A reference to a loss that does not keep it alive."""
    try:
        return WeakMethod(loss) if hasattr(loss, "__self__") else ref(loss)
    except TypeError:  # some callables cannot be referred to in this way
        return lambda: loss


def forget(model: nn.Module) -> None:
    """Drop what is known of a network: it did not hold."""
    _known.pop(model, None)


def plan_for(point: Point, batch: Any) -> Plan:
    """The plan that holds for this batch, compared with autograd where it was not yet."""
    return trusted_plan(point, knowledge_of(point, batch), batch)


def ensure(point: Point, known: Knowledge, batch: Any) -> Plan:
    """The plan of what is known, compared on a batch if some closed form never was where its gradient is not zero."""
    if all(name in known.seen for name in known.plan.routes.covered):
        return known.plan
    return trusted_plan(point, known, batch)


def trusted_plan(point: Point, known: Knowledge, batch: Any) -> Plan:
    """The plan of what is known, after it was compared with autograd on a batch."""
    while True:
        try:
            trusted_sweep(point, known, batch)
        except RestartError:
            continue
        return known.plan


def trusted_sweep(
    point: Point, known: Knowledge, batch: Any, total: Tensors | None = None, seed: int = 0, room: int = 0
) -> Swept:
    """A sweep over one batch in which nothing is believed that was not compared; `known` learns from it.

    Raises:
        RestartError: The plan failed midway, and is another one now.
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
    # A parameter without a gradient in this batch adds nothing, whoever it is given to; it is looked at another time.
    doubtful = frozenset(name for name in swept.apart if bool(swept.norms[name].any()))
    wrong = set(swept.unseen)
    if wrong - swept.apart:
        known.plan = _planned(point, plan.routes.without(wrong), batch)
        raise RestartError
    if doubtful - wrong:
        wrong |= find_wrong(point, swept, doubtful - wrong, batch, frozenset(known.seen))
    known.believe(doubtful - wrong, swept.signature, count)
    if wrong:
        _mend(point, known, wrong, batch)
        raise RestartError
    for name in swept.apart:
        mixed[name] += swept.total[name]
    return replace(swept, total=mixed)


def _mend(point: Point, known: Knowledge, wrong: set[str], batch: Any) -> None:
    """Find other ways for the parameters that came out wrong, and plan with them."""
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


def _right(point: Point, routes: Routes, batch: Any) -> Routes:
    """What is right of these routes, compared on a batch in which every parameter has a gradient."""
    if not routes.covered:
        return routes
    try:
        swept = sweep_batch(point, Plan(routes), batch)
    except Exception:  # noqa: BLE001 - a way that fails is not the right one; another one is taken
        return Routes()
    return routes.without(set(swept.unseen) | find_wrong(point, swept, frozenset(routes.covered), batch))


def _spread(point: Point, batch: Any) -> Routes:
    """The parameters that can be given to each sample separately, in the shape that autograd confirms."""
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


def _has_gradient(point: Point, routes: Routes, batch: Any) -> bool:
    """Whether any of these samples has a gradient: finding none would show nothing."""
    return all(bool(norms.any()) for norms in sweep_batch(point, Plan(routes), batch).norms.values())


def _joined(one: Routes, other: Routes) -> Routes:
    return replace(
        one, layouts={**one.layouts, **other.layouts}, spread={**one.spread, **other.spread},
        growing=one.growing | other.growing,
    )  # fmt: skip


def _planned(point: Point, routes: Routes, batch: Any) -> Plan:
    others = tuple(name for name in point.trained if name not in routes.covered)
    slow = slow_route(point.only(others), first_samples(batch)) if others else None
    return Plan(routes, others, slow)


def _failing(point: Point, plan: Plan, batch: Any) -> set[str]:
    """The parameters whose closed forms raise by themselves; all of them where none does."""
    failing = set()
    for name in plan.routes.covered:
        others = {other for other in plan.routes.covered if other != name}
        try:
            sweep_batch(point.only([name]), Plan(replace(plan.routes.without(others), folds={})), batch)
        except Exception:  # noqa: BLE001 - which of them raises is what is asked
            failing.add(name)
    return failing or set(plan.routes.covered)


def find_wrong(
    point: Point, swept: Swept, names: frozenset[str], batch: Any, seen: frozenset[str] = frozenset()
) -> set[str]:
    """Of these parameters, those whose sum of gradients or squared norms are not what plain autograd gives.

    Norms follow from the same calls in the same way each time, and are not compared again for those that were `seen`.
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
    point: Point, swept: Swept, names: frozenset[str], batch: Any, losses: torch.Tensor, leaves: Tensors
) -> set[str]:
    """The parameters whose norms are wrong for one of a few samples that have a gradient."""
    wrong: set[str] = set()
    largest = max((float(swept.norms[name].max()) for name in names), default=0.0)
    for number in _shown_by(swept, names):
        found = {name: float(swept.norms[name][number]) for name in names}
        _, alone = gradients_of_one(point, one_of(batch, number))
        off = {name for name in names if not _same_norm(found[name], alone[name], largest, swept.rough)}
        if off:
            # Rounding may put a ReLU on the other side of its kink: once more among the same neighbours.
            together = gradients_by(losses[number], leaves, keep=True)
            wrong |= {name for name in off if not _same_norm(found[name], together[name], largest, swept.rough)}
    return wrong


def _same_norm(found: float, gradient: torch.Tensor, largest: float, rough: bool) -> bool:
    expected = float(wide(gradient).square().sum())
    if rough:
        return abs(found - expected) <= ROUGH_TOLERANCE * (expected + ROUGH_TOLERANCE * largest)
    return abs(found - expected) <= TOLERANCE * expected + NORM_ROUNDING * largest


def _shown_by(swept: Swept, names: frozenset[str]) -> list[int]:
    """A few samples of which each parameter, as far as they reach, has one with a gradient."""
    left, chosen = set(names), list[int]()
    while left and len(chosen) < COMPARED:
        name = min(left)
        chosen.append(int(swept.norms[name].argmax()))
        left = {name for name in left if not bool(swept.norms[name][chosen[-1]] > 0)}
    return chosen


def gradients_by(number: torch.Tensor, leaves: Tensors, keep: bool = False) -> Tensors:
    """The gradient of one number by every leaf, zero where the number does not depend on it."""
    if not number.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    parts = torch.autograd.grad(number, list(leaves.values()), retain_graph=keep, allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if part is None else part
        for (name, leaf), part in zip(leaves.items(), parts, strict=True)
    }


def check_separate(point: Point, probe: Any) -> None:
    """Refuse a loss in which samples mix: the gradient of one of them would not exist."""
    count = batch_length(probe)
    some = sorted({0, count - 1})
    with torch.no_grad():
        together = wide(point.losses(point.trained, probe))
        alone = [wide(point.losses(point.trained, one_of(probe, number))) for number in some]
    if len(together) != count or any(len(one) != 1 for one in alone):
        raise errors.LossInvalid(
            f"the loss gave {len(together)} values for {count} samples; it must give one per sample"
        )
    difference = (together[some] - torch.cat(alone)).abs()
    if float(difference.max()) > TOLERANCE * (TOLERANCE + float(together.abs().max())):
        raise mixes()


def mixes() -> MosoError:
    """The error for a loss that is none of single samples."""
    return errors.SamplesMixed(
        "the loss of a sample depends on the other samples of its batch, so it has no gradient of its own; give a "
        "loss that treats samples one by one (no normalisation over the batch, no pairs)"
    )


def check_finite(swept: Swept) -> None:
    """Name the first sample of a batch whose gradient is not finite."""
    bad = ~torch.isfinite(torch.stack(list(swept.norms.values())).sum(0))
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        raise SampleError(
            errors.ValuesNotFinite, "the gradient of {sample} is not finite; look at its input and loss", first
        )


def _told(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
