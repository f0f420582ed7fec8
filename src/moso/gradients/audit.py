"""The identities that end every time step; a gradient attributed to the wrong sample violates them.

The mean of `G . g_z` is `|G|^2`. In the sum `G` every gradient carries the random loss weight of the sample it was
attributed to (`sweep.py`), so this identity checks every batch, not only the sum. For the neighbours of one randomly
drawn sample, `V . grad(sum s_z l_z)` with random signs `s_z` equals `sum s_z (V . g_z)`. And both terms of the drawn
sample are compared with plain autograd.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.batch import Batch
from moso.errors import MosoError, SampleError
from moso.gradients.fallback import gradients_of_one
from moso.gradients.fitting import is_out_of_memory
from moso.gradients.layers.operation import Metric
from moso.gradients.losses import batch_length, one_of, part_of, to_device, wide
from moso.gradients.point import Groups, Point, Tensors, evaluation_mode
from moso.gradients.probe import mixes
from moso.gradients.trust import ROUGH_TOLERANCE, TOLERANCE, gradients_by
from moso.randomness import generator

# Number of neighbours of the audited sample, including itself, that the signed identity is checked on.
SIGNED = 16
# Rounding error of float32, relative to the largest product `V . g_z`; squared, relative to the largest squared norm.
ROUNDING = 1e-6


def squared_sizes(direction: Tensors, groups: Groups, metric: Metric | None = None) -> list[float]:
    """Return `|V|^2`, one number per group; under a metric, `sum P V^2`."""
    weights = metric or {}
    return [
        sum(_squared(direction[name], weights.get(name)) for name in group if name in direction) for group in groups
    ]


def _squared(tensor: torch.Tensor, weights: torch.Tensor | None = None) -> float:
    if weights is not None:
        return float((wide(tensor).square() * wide(weights)).sum())
    norm = float(torch.linalg.vector_norm(tensor.float() if tensor.dtype.itemsize < 4 else tensor))
    return norm * norm


def _tolerance(direction: Tensors, rough: bool) -> float:
    return ROUGH_TOLERANCE if rough or any(value.dtype.itemsize < 4 for value in direction.values()) else TOLERANCE


def adds_up(
    mean: Tensors, dots: NDArray[np.float64], groups: Groups, rough: bool = False, metric: Metric | None = None
) -> bool:
    """Return whether the mean of `G . g_z` is `|G|^2` in every group, up to rounding.

    Args:
        mean: `G`, by parameter name.
        dots: `G . g_z`, shape ``[groups, samples]``.
        groups: Parameter names per group.
        rough: Whether half precision was involved.
        metric: Diagonal `P` under which products and squares are taken, by parameter name.

    >>> mean = {"weight": torch.tensor([3.0, 4.0])}
    >>> adds_up(mean, np.array([[20.0, 30.0]]), (("weight",),)), adds_up(mean, np.array([[20.0, 40.0]]), (("weight",),))
    (True, False)
    """
    tolerance = _tolerance(mean, rough)
    return all(
        abs(float(row.mean()) - size) <= tolerance * float(np.abs(row).mean()) + 1e-30
        for row, size in zip(dots, squared_sizes(mean, groups, metric), strict=True)
    )


@dataclass(frozen=True)
class _Sample:
    """A sample of the data: its position in the data, its batch, and its number in the batch."""

    position: int
    batch: Batch
    number: int


class Audit:
    """Draws one sample from the data and compares its terms, and its neighbours', with plain autograd.

    Attributes:
        rough: Whether something is computed in half precision.
    """

    def __init__(self, point: Point) -> None:
        """Seed the draw with the network's first parameter, so that each moment of training draws other samples."""
        self.rough = False
        address = float(next(iter(point.trained.values())).flatten()[0].real) if point.trained else 0.0
        self._random = generator("audit", repr(address))
        self._kept: list[_Sample] = []

    def look(self, batch: Batch, start: int) -> None:
        """Show the audit a batch, whose first sample is number `start`.

        Reservoir sampling: every sample shown so far is the kept one with the same probability.
        """
        size = batch_length(batch)
        if start == 0 or self._random.random() * (start + size) < size:
            number = int(self._random.integers(size))
            self._kept = [_Sample(start + number, batch, number)]

    def passes(
        self,
        point: Point,
        groups: Groups,
        direction: Tensors,
        dots: NDArray[np.float64],
        norms: NDArray[np.float64] | None,
    ) -> bool:
        """Return whether the terms of the drawn sample and its neighbours are those of plain autograd.

        Args:
            point: The network.
            groups: Parameter names per group.
            direction: `V`, by parameter name.
            dots: `V . g_z`, shape ``[groups, samples]``.
            norms: `|g_z|^2`, shape ``[groups, samples]``; None to check the products only.

        Raises:
            SamplesMixed: The loss of the drawn sample depends on its batch.
        """
        with evaluation_mode(point.model):
            return self._signed_passes(point, groups, direction, dots) and all(
                self._passes(point, groups, direction, dots, norms, sample) for sample in self._kept
            )

    def _signed_passes(self, point: Point, groups: Groups, direction: Tensors, dots: NDArray[np.float64]) -> bool:
        """Return whether autograd's `V . grad(sum s_z l_z)` is `sum s_z (V . g_z)` for neighbours of the sample."""
        if not self._kept:
            return True
        sample = self._kept[0]
        losses, leaves, start = _among_neighbours(point, sample)
        signs = torch.from_numpy(generator("signs", sample.position).choice([-1.0, 1.0], len(losses)))
        gradients = gradients_by((losses * signs.to(losses)).sum(), leaves)
        first = sample.position - sample.number + start
        for number, group in enumerate(groups):
            found = dots[number, first : first + len(losses)]
            names = [name for name in group if name in direction]
            expected = sum(float(_product(direction[name], gradients[name])) for name in names)
            allowed = _tolerance(gradients, self.rough) * (float(np.abs(found).sum()) + abs(expected))
            if not abs(expected - float(signs.numpy() @ found)) <= allowed + 1e-30:
                return False
        return True

    def _passes(self, point: Point, groups: Groups, direction: Tensors, dots: Any, norms: Any, sample: _Sample) -> bool:
        def agree(gradients: Tensors) -> bool:
            tolerance = _tolerance(gradients, self.rough)
            sizes, truths = squared_sizes(direction, groups), squared_sizes(gradients, groups)
            measured = squared_sizes(gradients, groups, point.metric)
            for number, group in enumerate(groups):
                found, floor = dots[number, sample.position], ROUNDING * float(np.abs(dots[number]).max())
                dot = sum(float(_product(direction[name], gradients[name])) for name in group if name in direction)
                if not abs(dot - found) <= tolerance * (sizes[number] * truths[number]) ** 0.5 + floor:
                    return False
                if norms is not None:
                    found, floor = norms[number, sample.position], ROUNDING**2 * float(norms[number].max())
                    if not abs(measured[number] - found) <= tolerance * measured[number] + floor:
                        return False
            return True

        loss, gradients = gradients_of_one(point, one_of(sample.batch, sample.number))
        if agree(gradients):
            return True
        # In a batch of one, rounding may put a ReLU on the other side of its kink: compare again within the same
        # neighbours.
        losses, leaves, start = _among_neighbours(point, sample)
        alone, together = float(loss[0]), float(losses[sample.number - start].detach())
        tolerance = _tolerance(gradients, self.rough)
        if abs(together - alone) > tolerance * (tolerance + abs(alone)):
            raise mixes()
        return agree(gradients_by(losses[sample.number - start], leaves))


def _among_neighbours(point: Point, sample: _Sample) -> tuple[torch.Tensor, Tensors, int]:
    """Return the losses of a sample and its neighbours, the leaves, and where in the batch the neighbours start."""
    count, size = batch_length(sample.batch), SIGNED
    while True:
        start = max(0, min(sample.number - size // 2, count - size))
        some = part_of(sample.batch, start, min(count, start + size))
        leaves = {name: value.detach().requires_grad_() for name, value in point.trained.items()}
        try:
            return point.losses(leaves, to_device(some, point.device)), leaves, start
        except (RuntimeError, MemoryError) as problem:
            if size == 1 or not is_out_of_memory(problem):
                raise
            size //= 2


def _product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return wide(one.flatten()) @ wide(other.flatten())


def blame(point: Point, batch: Batch, before: int, problem: Exception) -> MosoError:
    """Return the error for a batch on which the user's network or loss raises, naming the sample if one raises alone.

    Args:
        point: The network.
        batch: The samples.
        before: Number of samples before this batch.
        problem: What the network or the loss raised.
    """
    count = batch_length(batch)
    for number in range(count):
        try:
            gradients_of_one(point, one_of(batch, number))
        except MosoError as own:
            return own
        except Exception as own:  # noqa: BLE001 - whatever a user's network raises is what is reported
            words = f"the network or its loss fails on {{sample}}: {_told(own)}"
            error = SampleError(errors.NetworkFailed, words, number + before)
            error.__cause__ = own
            return error
    return errors.NetworkFailed(
        f"the network or its loss fails on a batch of {count} samples, though on none of them alone: {_told(problem)}"
    )


def _told(problem: Exception) -> str:
    words = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {words[0]}" if words else type(problem).__name__
