"""How each differentiated parameter is treated, found out by trying it on three samples.

Closed forms are believed only where they give what plain autograd gives, one sample at a time. A parameter that meets
no operation with a form but is only broadcast over the samples (class tokens, positions, scales) is given to each of
them separately, so that autograd keeps their gradients apart. Whatever is left goes the slow way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from moso.errors import MosoError
from moso.gradients.calls import Watching
from moso.gradients.folding import Fold, folds_of
from moso.gradients.layers import Layout
from moso.gradients.losses import batch_length, map_tensors, one_of, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Point, Tensors
from moso.gradients.slow import announce, gradients_of_one, slow_route
from moso.gradients.sweep import sweep_batch

PROBES = 3
# How often something that fails is tried, each time on other samples.
TRIES = 3
# A parameter larger than this is not copied for every sample.
SPREAD_NUMBERS = 2**18
TOLERANCE = 1e-3
NORM_ROUNDING, TOTAL_ROUNDING = 1e-10, 1e-5


# Which routes held for a network the last time: they are tried first, and verified like all others.
_held: WeakKeyDictionary[nn.Module, Routes] = WeakKeyDictionary()


def plan_for(point: Point, batch: Any) -> Plan:
    """Find the routes that hold for this network and loss, by trying them on the first samples of a batch.

    A ReLU at its kink may fall one way in a batch and another way alone, so what fails is tried on others, too.
    """
    best = Routes()
    for number in range(TRIES):
        probe = first_samples(batch, number)
        if number and batch_length(probe) < PROBES:
            break
        routes = _tried(point, probe)
        if len(routes.covered) > len(best.covered):
            best = routes
        if len(best.covered) == len(point.trained):
            _held[point.model] = best
            return Plan(best)
    others = tuple(name for name in point.trained if name not in best.covered)
    return Plan(best, others, slow_route(point.only(others), first_samples(batch)))


def _tried(point: Point, probe: Any) -> Routes:
    """The routes that hold for these samples."""
    singles = [one_of(probe, number) for number in range(batch_length(probe))]
    truth = _Truth.of(point, singles)
    _check_separate(point, probe, truth.losses)
    routes = _held.get(point.model)
    if routes is None or set(routes.covered) != set(point.trained) or _wrong(point, routes, probe, truth):
        routes = _routes(point, probe, singles[0], truth)
    return routes


@dataclass(frozen=True)
class _Truth:
    """What plain autograd says of single samples: losses, squared norms `[samples]` and the sum of gradients."""

    losses: list[torch.Tensor]
    norms: Tensors
    total: Tensors

    @classmethod
    def of(cls, point: Point, singles: list[Any]) -> "_Truth":
        """One after the other: gradients of a whole network are large, and are not kept."""
        losses = []
        norms: dict[str, list[torch.Tensor]] = {name: [] for name in point.trained}
        total = {name: torch.zeros_like(value) for name, value in point.trained.items()}
        for one in singles:
            loss, gradients = gradients_of_one(point, one)
            losses.append(loss)
            for name, gradient in gradients.items():
                norms[name].append(wide(gradient).square().sum())
                total[name] += gradient
        return cls(losses, {name: torch.stack(values) for name, values in norms.items()}, total)


def first_samples(batch: Any, number: int = 0) -> Any:
    """A few samples of a batch, to try something on, or the few after them."""
    return map_tensors(lambda tensor: tensor[number * PROBES : (number + 1) * PROBES], batch)


def _check_separate(point: Point, probe: Any, alone: list[torch.Tensor]) -> None:
    """Refuse a loss in which samples mix: the gradient of one of them would not exist."""
    with torch.no_grad():
        together = wide(point.losses(point.trained, probe))
    if len(together) != len(alone) or any(len(one) != 1 for one in alone):
        raise MosoError(f"the loss gave {len(together)} values for {len(alone)} samples; it must give one a sample")
    difference = float((together - wide(torch.cat(alone))).abs().max())
    if difference > TOLERANCE * (TOLERANCE + float(together.abs().max())):
        raise MosoError(
            "the loss of a sample depends on the other samples of its batch, so it has no gradient of its own; give a "
            "loss that treats samples one by one (no normalisation over the batch, no pairs)"
        )


def _routes(point: Point, probe: Any, single: Any, truth: _Truth) -> Routes:
    layouts = _layouts(point, probe, single)
    folds = _folds(point, layouts, probe)
    wrong = _wrong(point, Routes(layouts, {}, folds), probe, truth)
    if wrong and folds:
        folds = {}
        wrong = _wrong(point, Routes(layouts), probe, truth)
    if wrong and "shared" in layouts.values():
        # Giving each sample its own copy may have changed a shape that the network relies on.
        layouts = {name: layout for name, layout in layouts.items() if layout != "shared"}
        wrong = _wrong(point, Routes(layouts), probe, truth)
    routes = Routes(layouts, {}, folds).without(wrong)
    spread = {}
    for name, value in point.trained.items():
        # Where these samples have no gradient, nothing would be shown by finding none.
        touched = bool(truth.norms[name].any())
        if name not in layouts and touched and value.numel() <= SPREAD_NUMBERS:
            fits = (
                shape for shape in _spread_shapes(value) if not _wrong(point, Routes({}, {name: shape}), probe, truth)
            )
            shape = next(fits, None)
            if shape is not None:
                spread[name] = shape
    routes = Routes(routes.layouts, spread, routes.folds)
    return routes.without(_wrong(point, routes, probe, truth) if spread else set())


def _folds(point: Point, layouts: Mapping[str, Layout], probe: Any) -> dict[str, Fold]:
    """The folds that pay: those of convolutions whose gradients of single samples are formed anyway."""
    return {
        name: fold
        for name, fold in folds_of(point, probe).items()
        if fold.formed
        and layouts.get(name) == "first"
        and all(layouts.get(own) == "first" for own in fold.names() if own in point.trained)
    }


def _layouts(point: Point, probe: Any, single: Any) -> dict[str, Layout]:
    """Where the samples are in the inputs of each parameter's calls: the dimension that grows with their number."""
    shapes = []
    for batch in (probe, single):
        watching = Watching(point.trained, batch_length(batch), {}, None)
        with watching, torch.no_grad():
            point.losses(point.trained, batch)
        shapes.append(watching.shapes)
    layouts: dict[str, Layout] = {}
    for name, several in shapes[0].items():
        pairs = zip(several, shapes[1].get(name, []), strict=False)
        found = {_layout(shape, one, batch_length(probe)) for shape, one in pairs}
        if len(several) == len(shapes[1].get(name, [])) and len(found) == 1 and (layout := found.pop()) is not None:
            layouts[name] = layout
    return layouts


def _layout(several: torch.Size, one: torch.Size, count: int) -> Layout | None:
    if several == one:
        return "shared" if count > 1 else "first"
    if several[1:] == one[1:] and several[0] == count * one[0]:
        return "first"
    if len(several) > 1 and several[1] == count * one[1] and several[0] == one[0]:
        return "second"
    return None


def _spread_shapes(value: torch.Tensor) -> Iterator[tuple[int, ...]]:
    """Ways in which a parameter may meet a batch: its own first dimension of one, or dimensions before its own."""
    if value.ndim and len(value) == 1:
        yield tuple(value.shape)
    for more in range(4):
        yield (1, *[1] * more, *value.shape)


def _wrong(point: Point, routes: Routes, probe: Any, truth: _Truth) -> set[str]:
    """The parameters for which these routes do not give what one sample at a time gives."""
    try:
        swept = sweep_batch(point, Plan(routes), probe)
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as problem:
        if routes.layouts:
            announce(f"{type(point.model).__name__}: closed forms of gradients fail here ({problem})")
        return set(routes.covered)
    # Some gradients are zero but for rounding (a bias of attention's keys): all are held to the largest one's rounding.
    norm_floor = NORM_ROUNDING * max(float(norm.max()) for norm in truth.norms.values())
    total_floor = TOTAL_ROUNDING * max(float(total.abs().max()) for total in truth.total.values())
    return {
        name
        for name in routes.covered
        if not _close(swept.norms[name], truth.norms[name], norm_floor)
        or not _close(swept.total[name], truth.total[name], total_floor)
    }


def _close(found: torch.Tensor, expected: torch.Tensor, floor: float) -> bool:
    return float((found - expected).abs().max()) <= TOLERANCE * float(expected.abs().max()) + floor
