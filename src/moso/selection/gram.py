"""Inner products of a block of samples, a row at a time: what greedy selectors look up in every step."""

import numpy as np
from numpy.typing import NDArray

# Up to this many samples all inner products are kept (128 MiB in float64); beyond, each row is computed when asked for.
KEPT = 4096


class Gram:
    """The inner products of the rows of `points: [n, d]`, in float64.

    >>> gram = Gram(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> gram.row(1), gram.squared_norms
    (array([1., 5.]), array([1., 5.]))
    """

    def __init__(self, points: NDArray[np.float64]) -> None:
        self._points = points
        self._all = points @ points.T if len(points) <= KEPT else None
        self.squared_norms: NDArray[np.float64] = np.einsum("nd,nd->n", points, points)

    def row(self, position: int) -> NDArray[np.float64]:
        """One sample's inner products with all, `[n]`."""
        return np.asarray(self._all[position] if self._all is not None else self._points @ self._points[position])
