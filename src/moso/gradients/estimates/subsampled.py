"""A time step whose mean gradient comes from a subset of the samples: about half the cost of the exact one.

With `A` the subset, `m = |A|` and `G_A` its mean gradient, the leave-one-out product of a sample is estimated by the
mean over the samples of `A` other than the sample itself:

    a(z) = G_A . g_z                               z not in A
    a(z) = (m G_A . g_z - |g_z|^2) / (m - 1)       z in A

Both are unbiased over the draw of `A`. Norms are only needed inside the subset, where the first sweep computes them
anyway; outside they are unknown and set to 0. The returned terms are those from which a score obtains this `a` by its
own formula, `a = (N dot - squared_norm) / (N - 1)`:

    dot = ((N - 1) a + squared_norm) / N
"""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.gradients.audit import adds_up
from moso.gradients.engine import TimeStep, directional_derivatives, first_sweep, surely
from moso.gradients.point import Batches, Groups, Point


def subsampled_time_step(
    point: Point, batches: Batches, share: Batches, inside: NDArray[np.bool_], groups: Groups = ()
) -> TimeStep:
    """Compute the terms of all samples in `batches` with the mean gradient of the samples in `share`.

    Args:
        point: The network.
        batches: Returns an iterable over the batches of all samples.
        share: Returns an iterable over the batches of the subset, in the same order of samples.
        inside: Whether each sample is in the subset, shape ``[samples]``.
        groups: Parameter names per group.

    Returns:
        The time step; `squared_norm` is 0 outside of the subset.

    Raises:
        TooFewSamples: The subset has fewer than two samples.
        NotDeterministic: Two passes over the same samples give different gradients.

    Example:
        >>> import torch
        >>> from moso.tasks import cross_entropy
        >>> inputs, labels = torch.eye(3), torch.tensor([0, 1, 0])
        >>> point = Point.of(torch.nn.Linear(3, 2), cross_entropy)
        >>> step = subsampled_time_step(
        ...     point, lambda: [(inputs, labels)], lambda: [(inputs[:2], labels[:2])], np.array([True, True, False])
        ... )
        >>> (step.squared_norm > 0).tolist()
        [[True, True, False]]
    """
    N, m = len(inside), int(inside.sum())
    if m < 2:
        raise errors.TooFewSamples(f"a mean gradient of {m} of {N} samples cannot leave one out; take a larger share")
    groups = point.checked_groups(groups)

    def measure(slow: bool) -> TimeStep | None:
        first = first_sweep(point, share, groups, slow)
        mean, norms = first.mean, first.norms
        a = directional_derivatives(point, batches, point.along(mean), groups)
        if not adds_up(mean, a[:, inside], groups, first.known.rough, point.metric):
            return None
        squared_norm = np.zeros_like(a)
        squared_norm[:, inside] = norms
        a[:, inside] = (m * a[:, inside] - norms) / (m - 1)
        return TimeStep(mean, ((N - 1) * a + squared_norm) / N, squared_norm)

    return surely(point, measure)
