"""The engine's verbs: directional derivatives, squared norms, and a time step in two sweeps.

The first sweep over the data adds up the mean gradient `G` and takes `|g_z|^2` of every sample on the way; the second
takes `G . g_z` in forward mode. No gradient of a sample outlives the layer it was formed for. A time step ends with
identities that hold for right numbers only (`audit.py`); one that fails them is done again, one sample at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moso.columns import Growing
from moso.errors import MosoError, SampleError
from moso.gradients.audit import Audit, adds_up, blame
from moso.gradients.directional import Route, route_for
from moso.gradients.fitting import Fitting, TooLargeError, is_out_of_memory
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Batches, Groups, Point, Tensors, through
from moso.gradients.probe import first_samples
from moso.gradients.slow import announce, slow_route
from moso.gradients.sweep import Swept, identities_hold
from moso.gradients.trust import Knowledge, RestartError, forget, knowledge_of, trusted_sweep


@dataclass(frozen=True)
class TimeStep:
    """Everything a time step needs: `G`, and two scalars per sample and parameter group, `[groups, samples]`."""

    mean_gradient: Tensors
    dot: NDArray[np.float64]
    squared_norm: NDArray[np.float64]


def time_step(point: Point, batches: Batches, groups: Groups = ()) -> TimeStep:
    """One time step in two sweeps over the data; without `groups` there is one group of all parameters.

    >>> from moso.gradients.losses import cross_entropy
    >>> model = torch.nn.Linear(2, 2)
    >>> step = time_step(Point.of(model, cross_entropy), lambda: [(torch.eye(2), torch.tensor([0, 1]))])
    >>> step.dot.shape, step.squared_norm.shape
    ((1, 2), (1, 2))
    """
    groups = point.checked_groups(groups)
    return surely(point, lambda slow: _two_sweeps(point, batches, groups, slow))


def surely(point: Point, measure: Callable[[bool], TimeStep | None]) -> TimeStep:
    """A time step that passes its identities: by closed forms or, where that one does not, one sample at a time."""
    step = measure(False)
    if step is None:
        name = type(point.model).__name__
        announce(f"{name}: gradients of single samples do not add up; going on one sample at a time, which is slow")
        forget(point.model)
        step = measure(True)
    if step is None:
        raise MosoError(
            f"the gradients of {type(point.model).__name__} differ between two passes over the same samples: something "
            "in it is random in evaluation mode; make it repeatable"
        )
    return step


def _two_sweeps(point: Point, batches: Batches, groups: Groups, slow: bool) -> TimeStep | None:
    """A time step, or None where its numbers do not pass the identities."""
    mean, norms, known = first_sweep(point, batches, groups, slow)
    if not identities_hold.get():
        return TimeStep(mean, directional_derivatives(point, batches, mean, groups, known, Audit(0, mean)), norms)
    audit = Audit(norms.shape[1], mean, known.rough)
    dots = directional_derivatives(point, batches, mean, groups, known, audit)
    whole = adds_up(mean, dots, groups, known.rough) and audit.passes(point, groups, mean, dots, norms)
    return TimeStep(mean, dots, norms) if whole else None


def squared_norms(point: Point, batches: Batches, groups: Groups = ()) -> NDArray[np.float64]:
    """`|g_z|^2` for every sample and parameter group, `[groups, samples]`."""
    return first_sweep(point, batches, point.checked_groups(groups))[1]


def directional_derivatives(
    point: Point,
    batches: Batches,
    direction: Tensors,
    groups: Groups = (),
    known: Knowledge | None = None,
    audit: Audit | None = None,
) -> NDArray[np.float64]:
    """`V . g_z` for every sample and parameter group, `[groups, samples]`; `V` is any `direction`.

    Args:
        point: The network.
        batches: The samples.
        direction: `V`, by parameter.
        groups: Names of parameters whose parts are taken apart.
        known: What a first sweep over the same samples has found out; without it the samples are audited here.
        audit: Is shown the samples on their way.
    """
    groups = point.checked_groups(groups)
    rows = Growing(len(groups))
    routes: list[Route] = []
    fitting, own = Fitting(), audit
    seen = 0

    def derivatives(piece: Any) -> torch.Tensor:
        return torch.stack([wide(route(piece)) for route in routes]).cpu()

    for batch in through(point, batches):
        with _blaming(point, batch, seen):
            if not routes:
                compared = known is not None
                known = known or knowledge_of(point, batch)
                parts = [{name: direction[name] for name in group} for group in groups]
                routes = [route_for(point, batch, part, known, compared) for part in parts]
                own = audit or Audit(None, direction)
            assert own is not None
            own.look(batch, seen)
            for part in fitting.pieces(batch, derivatives):
                rows.add(part.numpy())
            seen += batch_length(batch)
    found = rows.done()
    if audit is None and own is not None and not own.passes(point, groups, direction, found, None):
        raise MosoError(
            f"derivatives of {type(point.model).__name__} along a risk's gradient are not those of single samples; "
            "is something in it random in evaluation mode?"
        )
    return found


def first_sweep(
    point: Point, batches: Batches, groups: Groups, slow: bool = False
) -> tuple[Tensors, NDArray[np.float64], Knowledge]:
    """`G`, `|g_z|^2` of every sample and parameter group, and how they were found, in one sweep over the data."""
    total, norms, known = _sums(point, batches, groups, slow)
    return mean_of(point, total, norms.shape[1]), norms, known


def gradient_sums(point: Point, batches: Batches, groups: Groups = ()) -> tuple[Tensors, NDArray[np.float64]]:
    """The sum of all samples' gradients, and `|g_z|^2` of each, `[groups, samples]`: what one shard gives to a mean."""
    return _sums(point, batches, point.checked_groups(groups))[:2]


def _sums(
    point: Point, batches: Batches, groups: Groups, slow: bool = False
) -> tuple[Tensors, NDArray[np.float64], Knowledge]:
    fitting = Fitting()
    while True:
        try:
            return _swept(point, batches, groups, fitting, slow)
        except (TooLargeError, RestartError):
            # What an unfinished batch has added to the sums cannot be taken back: from the start, in smaller pieces
            # or by another plan.
            continue


def _swept(
    point: Point, batches: Batches, groups: Groups, fitting: Fitting, slow: bool
) -> tuple[Tensors, NDArray[np.float64], Knowledge]:
    total: Tensors = {}
    rows = Growing(len(groups))
    known: Knowledge | None = None
    depends, seen = False, 0
    for number, batch in enumerate(through(point, batches)):
        with _blaming(point, batch, seen):
            known = _slowly(point, batch) if slow and known is None else known
            # A first batch of one sample shows too little, which later ones are looked at for.
            known = known if known is not None and (slow or known.samples > 1) else knowledge_of(point, batch)
        total = total or _zeros(point)
        for piece in fitting.parts(batch):
            with _blaming(point, piece, seen), fitting.refusing(piece):
                swept = trusted_sweep(point, known, piece, total, seed=number)
            depends = depends or swept.depends
            rows.add(torch.stack([_norms(swept, group) for group in groups]).cpu().numpy())
            seen += batch_length(piece)
    if known is None:
        raise MosoError("there is no sample to take the mean gradient of")
    if not depends and not known.plan.others:
        raise MosoError(
            "the loss depends on none of the parameters that are scored: it was detached from the network, or computed "
            "outside of PyTorch; give a loss that gradients can flow back through"
        )
    return total, rows.done(), known


def _slowly(point: Point, batch: Any) -> Knowledge:
    """No closed form at all: every gradient one sample at a time."""
    names = tuple(point.trained)
    plan = Plan(Routes(), names, slow_route(point, first_samples(batch)))
    return Knowledge(point.loss, names, plan, batch_length(batch), route="backward")


class _blaming:  # noqa: N801 - used as a statement
    """Whatever goes wrong in a user's network becomes a `MosoError` that names the sample, with its cause."""

    def __init__(self, point: Point, batch: Any, before: int) -> None:
        self.point, self.batch, self.before = point, batch, before

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> None:
        if isinstance(problem, SampleError):
            raise SampleError(problem.template, problem.index + self.before) from problem.__cause__
        passes = isinstance(problem, MosoError | TooLargeError | RestartError)
        if not isinstance(problem, Exception) or passes or is_out_of_memory(problem):
            return
        raise blame(self.point, self.batch, self.before, problem) from problem


def _norms(swept: Swept, group: tuple[str, ...]) -> torch.Tensor:
    total = wide(torch.zeros_like(next(iter(swept.norms.values()))))
    for name in group:
        total += wide(swept.norms[name])
    return total


def _zeros(point: Point) -> Tensors:
    """What sums begin with: at least float32. In float64 they would take more memory than a training step does."""
    return {
        name: torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))
        for name, value in point.trained.items()
    }


def mean_of(point: Point, total: Tensors, count: int) -> Tensors:
    """The mean gradient from a sum over `count` samples, in the parameters' own precision; the sum is used up."""
    if count == 0:
        raise MosoError("there is no sample to take the mean gradient of")
    return {name: (total.pop(name) / count).to(value) for name, value in point.trained.items()}
