"""How each differentiated parameter meets samples, found out by running a few of them.

The network runs once with a few samples and once with fewer, and each call's output tells where the samples are in it:
the dimension that grows with their number. Nothing found here is believed before it was compared with autograd
(`trust.py`).
"""

from collections.abc import Iterator
from typing import Any

import torch

from moso.gradients.layers import Layout
from moso.gradients.losses import batch_length, part_of
from moso.gradients.plan import Routes
from moso.gradients.point import Point
from moso.gradients.watching.calls import Watching
from moso.gradients.watching.folding import Fold, folds_of
from moso.gradients.watching.owners import told_owners

# Samples of a batch that something is tried on.
PROBES = 3
# A parameter larger than this is not copied for every sample.
SPREAD_NUMBERS = 2**18


def first_samples(batch: Any) -> Any:
    """A few samples of a batch, to try something on."""
    return part_of(batch, 0, min(PROBES, batch_length(batch)))


def find_routes(point: Point, batch: Any) -> Routes:
    """The closed forms that a network's calls suggest, seen with a few samples of a batch."""
    probe = first_samples(batch)
    count = batch_length(probe)
    if count == 1:
        # One sample shows every parameter that is met, and no dimension that grows.
        watching = _watched_run(point, probe, frozenset())
        return Routes(dict.fromkeys((*watching.shapes, *watching.given_layouts), "first"))
    fewer = part_of(probe, 0, count - 1)
    growing: frozenset[str] | None = None
    for _ in range(2):
        runs = [_watched_run(point, some, growing) for some in (probe, fewer)]
        found = frozenset(runs[0].grown & runs[1].grown)
        if growing is not None or runs[0].grown == runs[1].grown:
            break
        growing = found  # one of the two was a coincidence of sizes
    layouts: dict[str, Layout] = {}
    for name in point.trained:
        several, fewer_shapes = (run.shapes.get(name, []) for run in runs)
        layout = _layout_of(several, fewer_shapes, count)
        if layout is not None:
            layouts[name] = layout
        elif not several and not fewer_shapes:
            # Not met by these samples, or only in calls that say themselves whose rows they have.
            layouts[name] = "rows"
    growing = found if growing is None else growing
    folds = _folds(point, layouts, probe) if runs[0].normalises else {}
    return Routes(layouts, {}, folds, growing, _derived(runs[0]))


def _watched_run(point: Point, batch: Any, growing: frozenset[str] | None) -> Watching:
    """A forward pass that is only looked at."""
    leaves = {name: value.detach().requires_grad_() for name, value in point.trained.items()}
    watching = Watching(
        leaves, batch_length(batch), {}, None,
        constants=point.constants(), growing=growing, row_owners=told_owners(batch),
    )  # fmt: skip
    with watching, torch.enable_grad():
        point.losses(leaves, batch)
    return watching


def _derived(watching: Watching) -> frozenset[str]:
    return frozenset(
        name for place in watching.uses if place.tensor is not None and not place.isometric for name in place.names
    )


def _layout_of(several: list[torch.Size], fewer: list[torch.Size], count: int) -> Layout | None:
    """Where the samples are in all of a parameter's outputs, seen with `count` samples and with one fewer."""
    if not several or len(several) != len(fewer):
        return None
    found = {_layout(one, other, count) for one, other in zip(several, fewer, strict=True)}
    return found.pop() if len(found) == 1 else None


def _layout(several: torch.Size, fewer: torch.Size, count: int) -> Layout | None:
    if not several or len(several) != len(fewer):
        return None
    if several[1:] == fewer[1:] and several[0] * (count - 1) == fewer[0] * count:
        return "first"
    if len(several) > 1 and (several[1], fewer[1]) == (count, count - 1) and several[0] == fewer[0]:
        return "second"
    return None


def _folds(point: Point, layouts: dict[str, Layout], probe: Any) -> dict[str, Fold]:
    """The folds that pay: those of convolutions whose gradients of single samples are formed anyway."""
    return {
        name: fold
        for name, fold in folds_of(point, probe).items()
        if fold.formed
        and layouts.get(name) == "first"
        and all(layouts.get(own) == "first" for own in fold.names() if own in point.trained)
    }


def spread_shapes(value: torch.Tensor) -> Iterator[tuple[int, ...]]:
    """Ways in which a parameter may meet a batch: its own first dimension of one, or dimensions before its own."""
    if value.ndim and len(value) == 1:
        yield tuple(value.shape)
    for more in range(4):
        yield (1, *[1] * more, *value.shape)
