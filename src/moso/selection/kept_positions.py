"""`Kept`: what a selector keeps, as positions and, for weighted selectors, one weight per position.

A weight says how many samples a kept sample stands for, itself included. Weights are relative: training divides them by
their mean over all kept samples. Samples that are kept by hand stand for themselves, with weight 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors


@dataclass(frozen=True, eq=False)
class Kept:
    """Kept positions, with or without weights.

    Attributes:
        positions: Positions of the kept samples, each once, shape ``[kept]``.
        weights: One positive number per position, in the same order; None if the selection has no weights.

    Example:
        >>> part = Kept(np.array([0, 2]), np.array([3.0, 1.0])).within(np.array([5, 6, 7]))
        >>> both = joined([part, Kept(np.array([1]))]).ascending()
        >>> both.positions, both.weights
        (array([1, 5, 7]), array([1., 3., 1.]))
    """

    positions: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def within(self, where: NDArray[np.int64]) -> "Kept":
        """Return the same samples by the positions `where` that a subset of the samples had in the whole."""
        return Kept(where[self.positions], self.weights)

    def ascending(self) -> "Kept":
        """Return the same samples in ascending order of position."""
        if self.weights is None:
            return Kept(np.sort(self.positions))
        order = np.argsort(self.positions, kind="stable")
        return Kept(self.positions[order], self.weights[order])


def joined(parts: Iterable[Kept]) -> Kept:
    """Join the kept samples of several parts; where any part has weights, samples of the others get weight 1."""
    found = list(parts)
    positions = np.concatenate([part.positions for part in found])
    if all(part.weights is None for part in found):
        return Kept(positions)
    return Kept(
        positions, np.concatenate([np.ones(len(part)) if part.weights is None else part.weights for part in found])
    )


def checked(found: "Kept | NDArray[np.int64]", selector: str, samples: int, budget: int) -> Kept:
    """Check what a selector returned.

    Args:
        found: Positions, or positions with weights.
        selector: Name of the selector, for messages.
        samples: Number of samples there are.
        budget: Number of samples to keep.

    Raises:
        ExtensionBroken: A wrong number of positions, one of them twice, or weights that are not one positive finite
            number per position.
    """
    kept = found if isinstance(found, Kept) else Kept(found)
    mask = np.zeros(samples, dtype=bool)
    mask[kept.positions] = True
    count = int(np.count_nonzero(mask))
    if len(kept) != budget or count != budget:
        raise errors.ExtensionBroken(f"selector {selector!r} kept {count} samples where {budget} were to stay")
    if kept.weights is None:
        return kept
    weights = np.asarray(kept.weights, dtype=np.float64)
    if weights.shape != (budget,):
        raise errors.ExtensionBroken(
            f"selector {selector!r} gave weights of shape {weights.shape} for {budget} kept samples; one each is needed"
        )
    if not (np.isfinite(weights) & (weights > 0)).all():
        bad = weights[int(np.argmin(np.isfinite(weights) & (weights > 0)))]
        raise errors.ExtensionBroken(
            f"selector {selector!r} gave a kept sample the weight {bad:g}; weights are positive finite numbers"
        )
    return Kept(kept.positions, weights)
