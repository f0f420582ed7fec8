"""What a selector is given."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.errors import MosoError


@dataclass(frozen=True)
class Problem:
    """Scores (high means keep), how many samples may stay, and what else a selector may ask for.

    `tie` is the rank of each sample's id: the order in which equal scores are taken.
    """

    scores: NDArray[np.float64]
    budget: int
    tie: NDArray[np.int64]
    labels: NDArray[np.int64] | None = None
    seed: int = 0

    def labels_for(self, selector: str) -> NDArray[np.int64]:
        """The labels, or an error that says who needs them."""
        if self.labels is None:
            raise MosoError(f"selector {selector!r} needs labels=, one class a sample; 'top' works without")
        return self.labels
