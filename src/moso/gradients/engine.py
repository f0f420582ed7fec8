"""The public functions of the gradient engine: time steps, squared norms, directional derivatives.

A time step takes two sweeps over the data. The first sweep accumulates the mean gradient `G` and computes `|g_z|^2` for
every sample. The second sweep computes `G . g_z` in forward mode or, as far as memory allowed, from the calls that the
first sweep kept. A per-sample gradient is freed as soon as its layer is done. A time step ends with identities that
only correct numbers satisfy (`audit.py`); a time step that violates them is computed again, one sample at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.batch import Batch
from moso.columns import AppendBuffer
from moso.errors import MosoError, SampleError
from moso.gradients.audit import Audit, adds_up, blame
from moso.gradients.derived_tensors import PushedForward
from moso.gradients.directional import Route, kept_derivative, route_for
from moso.gradients.fallback import slow_route, warn_once
from moso.gradients.fitting import Fitting, TooLargeError, is_out_of_memory
from moso.gradients.identities import identities_hold
from moso.gradients.losses import batch_length, wide
from moso.gradients.plan import Plan, Routes
from moso.gradients.point import Batches, Groups, Point, Tensors, through
from moso.gradients.probe import first_samples
from moso.gradients.sweep import Kept, Swept
from moso.gradients.trust import Knowledge, RestartError, forget, knowledge_of, trusted_sweep, weakly

# Bytes of calls (activations and output gradients) that the first sweep may keep. The second sweep needs no pass
# through the network for batches whose calls were kept.
KEPT_CALLS = 512 * 2**20


@dataclass(frozen=True)
class TimeStep:
    """The result of one time step.

    Attributes:
        mean_gradient: `G`, by parameter name.
        dot: `G . g_z`, shape ``[groups, samples]``.
        squared_norm: `|g_z|^2`, shape ``[groups, samples]``.

    Under a metric of the point both products are taken in it: `(P G) . g_z` and `(P g_z) . g_z`.
    """

    mean_gradient: Tensors
    dot: NDArray[np.float64]
    squared_norm: NDArray[np.float64]


def time_step(point: Point, batches: Batches, groups: Groups = ()) -> TimeStep:
    """Compute one time step in two sweeps over the data.

    Args:
        point: The network at one moment of its training.
        batches: Returns an iterable over the batches, in the same order each time; called for every sweep, and again
            when a sweep restarts.
        groups: Parameter names per group; without groups there is one group of all parameters.

    Returns:
        `G`, and two scalars per sample and parameter group.

    Raises:
        NotDeterministic: Two passes over the same samples give different gradients.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> model = torch.nn.Linear(2, 2)
        >>> step = time_step(Point.of(model, cross_entropy), lambda: [(torch.eye(2), torch.tensor([0, 1]))])
        >>> step.dot.shape, step.squared_norm.shape
        ((1, 2), (1, 2))
    """
    groups = point.checked_groups(groups)
    return surely(point, lambda slow: _two_sweeps(point, batches, groups, slow))


def surely(point: Point, measure: Callable[[bool], TimeStep | None]) -> TimeStep:
    """Return a time step that passes its identities, with the per-sample fallback if the closed forms fail them.

    Args:
        point: The network.
        measure: Computes a time step, or None if the identities fail; its argument is whether to take every gradient
            one sample at a time.

    Raises:
        NotDeterministic: The identities fail one sample at a time, too.
    """
    step = measure(False)
    if step is None:
        name = type(point.model).__name__
        warn_once(f"{name}: gradients of single samples do not add up; going on one sample at a time, which is slow")
        forget(point.model)
        step = measure(True)
    if step is None:
        raise errors.NotDeterministic(
            f"the gradients of {type(point.model).__name__} differ between two passes over the same samples: something "
            "in it is random in evaluation mode; make it repeatable"
        )
    return step


@dataclass(frozen=True)
class FirstSweep:
    """The result of the first sweep over the data.

    Attributes:
        mean: `G`, by parameter name.
        norms: `|g_z|^2`, shape ``[groups, samples]``.
        known: The knowledge of the network (closed forms, layouts) that the sweep used and extended.
        kept: The kept calls of a batch, keyed by the position of the batch's first sample; only as far as memory
            allowed.
    """

    mean: Tensors
    norms: NDArray[np.float64]
    known: Knowledge
    kept: Mapping[int, Kept]


def _two_sweeps(point: Point, batches: Batches, groups: Groups, slow: bool) -> TimeStep | None:
    """Compute a time step; return None if its numbers violate the identities."""
    audit = Audit(point) if identities_hold.get() else None
    first = first_sweep(point, batches, groups, slow, KEPT_CALLS, audit)
    mean, norms = first.mean, first.norms
    direction = point.along(mean)
    dots = directional_derivatives(point, batches, direction, groups, first)
    if audit is None:
        return TimeStep(mean, dots, norms)
    audit.rough = first.known.rough
    whole = adds_up(mean, dots, groups, audit.rough, point.metric)
    whole = whole and audit.passes(point, groups, direction, dots, norms)
    return TimeStep(mean, dots, norms) if whole else None


def squared_norms(point: Point, batches: Batches, groups: Groups = ()) -> NDArray[np.float64]:
    """Compute `|g_z|^2` for every sample and parameter group, shape ``[groups, samples]``.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        groups: Parameter names per group; without groups there is one group of all parameters.
    """
    return first_sweep(point, batches, point.checked_groups(groups)).norms


def directional_derivatives(
    point: Point, batches: Batches, direction: Tensors, groups: Groups = (), first: FirstSweep | None = None
) -> NDArray[np.float64]:
    """Compute `V . g_z` for every sample and parameter group.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        direction: `V`, by parameter name.
        groups: Parameter names per group; one row of the result per group.
        first: The result of a first sweep over the same samples; without it, the derivatives are audited here.

    Returns:
        The derivatives, shape ``[groups, samples]``.

    Raises:
        NotDeterministic: The audited derivatives differ from those of single samples.
    """
    return derivatives_along(point, batches, [direction], groups, first)[0]


def derivatives_along(
    point: Point,
    batches: Batches,
    directions: Sequence[Tensors],
    groups: Groups = (),
    first: FirstSweep | None = None,
) -> list[NDArray[np.float64]]:
    """Compute `V . g_z` for several directions `V` in one pass over the data.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        directions: Each `V`, by parameter name.
        groups: Parameter names per group; one row of each result per group.
        first: The result of a first sweep over the same samples; without it, the derivatives are audited here.

    Returns:
        The derivatives, shape ``[groups, samples]`` for each direction.

    Raises:
        NotDeterministic: The audited derivatives differ from those of single samples.
    """
    groups = point.checked_groups(groups)
    parts = [{name: direction[name] for name in group} for direction in directions for group in groups]
    pushed = [PushedForward(part) for part in parts]
    rows, fitting, seen = AppendBuffer(len(parts)), Fitting(), 0
    kept = {} if first is None else first.kept
    audit = Audit(point) if first is None else None
    routes: list[Route] = []

    def derivatives(piece: Batch) -> torch.Tensor:
        return torch.stack([wide(route(piece)) for route in routes]).cpu()

    if first is not None and sum(len(own.scales) for own in kept.values()) == first.norms.shape[1]:
        for own in kept.values():  # every batch was kept: no data to load again
            rows.add(torch.stack([kept_derivative(own, part) for part in pushed]).cpu().numpy())
        return _by_direction(rows.done(), len(groups))
    for batch in through(point, batches):
        count = batch_length(batch)
        with _blaming(point, batch, seen):
            if audit is not None:
                audit.look(batch, seen)
            if seen in kept and len(kept[seen].scales) == count:
                rows.add(torch.stack([kept_derivative(kept[seen], part) for part in pushed]).cpu().numpy())
            else:
                if not routes:
                    known = knowledge_of(point, batch) if first is None else first.known
                    routes = [route_for(point, batch, part, known, first is not None) for part in parts]
                for found in fitting.pieces(batch, derivatives):
                    rows.add(found.numpy())
            seen += count
    products = _by_direction(rows.done(), len(groups))
    for direction, dots in zip(directions, products, strict=True):
        if audit is not None and not audit.passes(point, groups, direction, dots, None):
            raise errors.NotDeterministic(
                f"derivatives of {type(point.model).__name__} along a risk's gradient are not those of single samples; "
                "is something in it random in evaluation mode?"
            )
    return products


def _by_direction(rows: NDArray[np.float64], groups: int) -> list[NDArray[np.float64]]:
    return [rows[start : start + groups] for start in range(0, len(rows), groups)]


def first_sweep(
    point: Point, batches: Batches, groups: Groups, slow: bool = False, room: int = 0, audit: Audit | None = None
) -> FirstSweep:
    """Compute `G`, and `|g_z|^2` per sample and parameter group, in one sweep over the data.

    Args:
        point: The network.
        batches: Returns an iterable over the batches.
        groups: Parameter names per group.
        slow: Whether to take every gradient one sample at a time.
        room: Bytes of calls that may be kept for the second sweep.
        audit: Is shown every batch, so that it can draw the samples to check.
    """
    total, norms, known, kept = _sums(point, batches, groups, slow, room, audit)
    return FirstSweep(mean_of(point, total, norms.shape[1]), norms, known, kept)


def gradient_sums(point: Point, batches: Batches, groups: Groups = ()) -> tuple[Tensors, NDArray[np.float64]]:
    """Compute one shard's part of a mean gradient and of the squared norms.

    Args:
        point: The network.
        batches: Returns an iterable over the batches of the shard.
        groups: Parameter names per group; without groups there is one group of all parameters.

    Returns:
        The sum of all per-sample gradients by parameter name, and `|g_z|^2`, shape ``[groups, samples]``.
    """
    return _sums(point, batches, point.checked_groups(groups))[:2]


_Sums = tuple[Tensors, NDArray[np.float64], Knowledge, dict[int, Kept]]


def _sums(
    point: Point, batches: Batches, groups: Groups, slow: bool = False, room: int = 0, audit: Audit | None = None
) -> _Sums:
    fitting = Fitting()
    while True:
        try:
            return _swept(point, batches, groups, fitting, slow, room, audit)
        except (TooLargeError, RestartError):
            # An unfinished batch has already changed the sums. Begin again, in smaller pieces or with the new plan.
            continue


def _swept(
    point: Point, batches: Batches, groups: Groups, fitting: Fitting, slow: bool, room: int, audit: Audit | None
) -> _Sums:
    total: Tensors = {}
    rows = AppendBuffer(len(groups))
    known: Knowledge | None = None
    kept: dict[int, Kept] = {}
    depends, seen = False, 0
    for number, batch in enumerate(through(point, batches)):
        with _blaming(point, batch, seen):
            known = _slowly(point, batch) if slow and known is None else known
            # A batch of one sample does not show which dimension is the batch, so a later, larger batch is probed
            # again.
            known = known if known is not None and (slow or known.samples > 1) else knowledge_of(point, batch)
        total = total or _zeros(point)
        if audit is not None:
            audit.look(batch, seen)
        for piece in fitting.parts(batch):
            with _blaming(point, piece, seen), fitting.refusing(piece):
                swept = trusted_sweep(point, known, piece, total, seed=number, room=room)
            if swept.kept is None:
                room = 0  # keep a prefix of the batches, so that the same data always keep the same calls
            else:
                kept[seen], room = swept.kept, room - swept.kept.bytes
            depends = depends or swept.depends
            rows.add(torch.stack([_norms(swept, group) for group in groups]).cpu().numpy())
            seen += batch_length(piece)
    if known is None:
        raise errors.DataEmpty("there is no sample to take the mean gradient of")
    if not depends and not known.plan.others:
        raise errors.LossInvalid(
            "the loss depends on none of the parameters that are scored: it was detached from the network, or computed "
            "outside of PyTorch; give a loss that gradients can flow back through"
        )
    return total, rows.done(), known, kept


def _slowly(point: Point, batch: Batch) -> Knowledge:
    """Return a plan without closed forms: every gradient one sample at a time."""
    names = tuple(point.trained)
    plan = Plan(Routes(), names, slow_route(point, first_samples(batch)))
    return Knowledge(weakly(point.loss), names, plan, batch_length(batch), route="backward")


class _blaming:  # noqa: N801 - used as a statement
    """Context manager: any error of the user's network becomes a `MosoError` that names the sample."""

    def __init__(self, point: Point, batch: Batch, before: int) -> None:
        self.point, self.batch, self.before = point, batch, before

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, SampleError):
            raise SampleError(problem.kind, problem.template, problem.index + self.before) from problem.__cause__
        passes = isinstance(problem, MosoError | TooLargeError | RestartError)
        if not isinstance(problem, Exception) or passes or is_out_of_memory(problem):
            return
        raise blame(self.point, self.batch, self.before, problem) from problem


def _norms(swept: Swept, group: tuple[str, ...]) -> torch.Tensor:
    if not group:
        return wide(torch.zeros_like(next(iter(swept.norms.values()))))
    return wide(torch.stack([swept.norms[name] for name in group])).sum(0)


def _zeros(point: Point) -> Tensors:
    """Return zeros to accumulate into, at least float32; float64 would take more memory than a training step does."""
    return {
        name: torch.zeros_like(value, dtype=torch.promote_types(value.dtype, torch.float32))
        for name, value in point.trained.items()
    }


def mean_of(point: Point, total: Tensors, count: int) -> Tensors:
    """Compute the mean gradient from a sum over samples, in the parameters' own dtype.

    Args:
        point: The network.
        total: The sum, by parameter name; emptied, so that sum and mean do not both take memory.
        count: Number of samples.

    Raises:
        DataEmpty: `count` is 0.
    """
    if count == 0:
        raise errors.DataEmpty("there is no sample to take the mean gradient of")
    return {name: (total.pop(name) / count).to(value) for name, value in point.trained.items()}
