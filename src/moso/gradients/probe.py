"""Finds out how each differentiated parameter meets samples, by running the network on a few samples.

The network runs once with a few samples and once with one fewer. The dimension of a call's output that grows with the
number of samples is the batch dimension. Nothing found here is trusted before it was compared with autograd
(`trust.py`).
"""

from collections.abc import Iterator

import torch

from moso import errors
from moso.batch import Batch
from moso.errors import MosoError
from moso.gradients.layers import Layout
from moso.gradients.losses import batch_length, one_of, part_of, wide
from moso.gradients.plan import Routes
from moso.gradients.point import Point
from moso.gradients.watching.calls import Watching
from moso.gradients.watching.folding import Fold, folds_of
from moso.gradients.watching.owners import told_owners

# Number of samples of a batch that a network is probed with.
PROBES = 3
# Number of scalars above which a parameter is not copied for every sample.
SPREAD_NUMBERS = 2**18
# Relative rounding within which the loss of a sample alone must equal its loss in a batch.
LOSS_TOLERANCE = 1e-3


def first_samples(batch: Batch) -> Batch:
    """Return the first few samples of a batch, to probe a network with."""
    return part_of(batch, 0, min(PROBES, batch_length(batch)))


def find_routes(point: Point, batch: Batch) -> Routes:
    """Return the closed forms that a network's calls suggest, by watching it on a few samples of a batch."""
    probe = first_samples(batch)
    count = batch_length(probe)
    if count == 1:
        # One sample shows which parameters are used, but not which dimension is the batch.
        watching = _watched_run(point, probe, frozenset())
        return Routes(dict.fromkeys((*watching.shapes, *watching.given_layouts), "first"))
    fewer = part_of(probe, 0, count - 1)
    growing: frozenset[str] | None = None
    for _ in range(2):
        runs = [_watched_run(point, some, growing) for some in (probe, fewer)]
        found = frozenset(runs[0].grown & runs[1].grown)
        if growing is not None or runs[0].grown == runs[1].grown:
            break
        growing = found  # in one of the two runs a dimension had the batch size by coincidence
    layouts: dict[str, Layout] = {}
    for name in point.trained:
        several, fewer_shapes = (run.shapes.get(name, []) for run in runs)
        layout = _layout_of(several, fewer_shapes, count)
        if layout is not None:
            layouts[name] = layout
        elif not several and not fewer_shapes:
            # Not used by these samples, or only in calls that know the owner of each row.
            layouts[name] = "rows"
    growing = found if growing is None else growing
    folds = _folds(point, layouts, probe) if runs[0].normalises else {}
    return Routes(layouts, {}, folds, growing, _derived(runs[0]))


def _watched_run(point: Point, batch: Batch, growing: frozenset[str] | None) -> Watching:
    """Run a forward pass under `Watching`, without a visitor."""
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
    """Return the batch dimension of all of a parameter's outputs, from runs with `count` samples and with one fewer."""
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


def _folds(point: Point, layouts: dict[str, Layout], probe: Batch) -> dict[str, Fold]:
    """Return the folds that pay off: those of convolutions whose per-sample gradients are formed anyway."""
    return {
        name: fold
        for name, fold in folds_of(point, probe).items()
        if fold.formed
        and layouts.get(name) == "first"
        and all(layouts.get(own) == "first" for own in fold.names() if own in point.trained)
    }


def spread_shapes(value: torch.Tensor) -> Iterator[tuple[int, ...]]:
    """Yield the shapes ``[1, ...]`` in which a parameter may be broadcast: its own, or with leading ones added."""
    if value.ndim and len(value) == 1:
        yield tuple(value.shape)
    for more in range(4):
        yield (1, *[1] * more, *value.shape)


def check_separate(point: Point, probe: Batch) -> None:
    """Raise `SamplesMixed` (or `LossInvalid`) if a sample's loss depends on the rest of its batch."""
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
    if float(difference.max()) > LOSS_TOLERANCE * (LOSS_TOLERANCE + float(together.abs().max())):
        raise mixes()


def mixes() -> MosoError:
    """Return the error for a loss in which samples mix."""
    return errors.SamplesMixed(
        "the loss of a sample depends on the other samples of its batch, so it has no gradient of its own; give a "
        "loss that treats samples one by one (no normalisation over the batch, no negatives from it: task "
        "'contrastive' takes them from a bank, docs/pairs.md)"
    )
