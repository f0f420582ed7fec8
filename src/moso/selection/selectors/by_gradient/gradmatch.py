"""`gradmatch`: keep samples whose weighted gradients add up to the gradient of their class (GradMatch).

Believes that a subset trains like the whole data if its weighted gradient is that of the data. With g_z the gradient of
sample z (of the last layer, at the end of training) and G = sum_z g_z over a class:

    minimise  | G - sum_{j in A} w_j g_j |^2 + lambda m |w|^2      so that  w >= 0,  |A| = the class's quota

m is the mean of |g_z|^2 over the class, so that `regularisation` (lambda) means the same however small gradients have
become; the source's lambda (0.5) is absolute. Orthogonal matching pursuit: add the sample whose gradient has the
largest inner product with the residual G - sum_j w_j g_j, and solve for all weights anew. Weights stay non-negative by
the inner loop of Lawson & Hanson's algorithm: a sample whose weight would become negative leaves the set, and may
return. Every step decreases the objective, and without a quota the end is the solution of the non-negative least
squares. It can come before the quota is full, when no further sample with a positive weight improves the match: the
rest of the quota is then drawn at random with weight 1, as in the authors' code.

Weights say how many samples a sample stands for: for equal gradients and lambda -> 0 they are n_c / |A|. Everything is
computed from the inner products of gradients: O(n_c^2 (C + D) + n_c k_c^2) time for k_c kept of n_c samples, 8 bytes
per pair of samples; classes of up to 10,000 samples.

Source: Killamsetty et al., GRAD-MATCH: Gradient Matching based Data Subset Selection for Efficient Deep Model Training,
ICML 2021, Algorithm 2 (per class, last layer). Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.linalg import cholesky, solve_triangular

from moso.selection.classes import class_problems
from moso.selection.kept_positions import Kept, joined
from moso.selection.orders import shuffled
from moso.selection.problem import Problem
from moso.selection.selectors.by_gradient.factored_gradients import WeightedSettings, gradients_of

# Most samples of a class: their inner products take 0.8 GB, and what is kept of them up to twice as much.
MOST_MATCHED = 10_000
# An inner product with the residual below this share of the largest one with G is rounding error.
_NOTHING = 1e-9


class GradMatchSettings(WeightedSettings):
    """Settings of `gradmatch`: the classes, the regularisation, and whether kept samples are weighted."""

    regularisation: float = Field(
        0.5, ge=1e-6, description="weight of |w|^2 (the paper's lambda), in units of the mean squared gradient"
    )


def gradmatch(problem: Problem, settings: GradMatchSettings) -> Kept:
    """Return `budget` positions, each with the weight of its gradient in the match."""
    parts = class_problems(problem, "gradmatch", settings.classes)
    return joined(_match(part, settings).within(where) for where, part in parts)


def _match(problem: Problem, settings: GradMatchSettings) -> Kept:
    gram = gradients_of(problem, "gradmatch").gram()
    chosen, weights = matching_pursuit(gram, problem.budget, settings.regularisation)
    order = shuffled(problem.keys, problem.seed, "gradmatch")
    rest = order[~np.isin(order, chosen)][: problem.budget - len(chosen)]
    kept = np.concatenate([chosen, rest])
    return Kept(kept, np.concatenate([weights, np.ones(len(rest))]) if settings.weights else None)


def matching_pursuit(
    gram: NDArray[np.float64], budget: int, regularisation: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Match the sum of all gradients by non-negative orthogonal matching pursuit; ties go to the lower position.

    Args:
        gram: Inner products of the gradients, shape ``[n, n]``.
        budget: Largest number of gradients to use.
        regularisation: Lambda, in units of the mean squared gradient; above 0.

    Returns:
        Positions, and one positive weight per position; fewer than `budget` if no further gradient improves the match.

    Example:
        >>> chosen, weights = matching_pursuit(np.ones((4, 4)), 2, 1e-6)
        >>> chosen.tolist(), weights.round(3).tolist()
        ([0, 1], [2.0, 2.0])
    """
    scale = float(np.trace(gram)) / len(gram)
    if not scale > 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    target = gram.sum(axis=1) / scale
    support = _Support(gram, scale, target, budget, regularisation)
    least = _NOTHING * float(np.abs(target).max())
    barred = np.zeros(len(gram), dtype=bool)  # would enter with a weight of 0 or less, by rounding errors alone
    while len(support) < budget:
        pull = np.where(support.inside | barred, -np.inf, support.residual_products())
        best = int(np.argmax(pull))
        if pull[best] <= least:
            break
        barred[best] = not support.add(best)
    return support.positions.copy(), support.weights.copy()


class _Support:
    """The chosen samples with their weights, and the Cholesky factor of their regularised inner products."""

    def __init__(
        self,
        gram: NDArray[np.float64],
        scale: float,
        target: NDArray[np.float64],
        budget: int,
        regularisation: float,
    ) -> None:
        self.gram, self.scale, self.target, self.regularisation = gram, scale, target, regularisation
        self.inside = np.zeros(len(gram), dtype=bool)
        self._positions = np.empty(budget, dtype=np.int64)
        self._rows = np.empty((budget, len(gram)))  # inner products of the chosen samples with all
        self._factor = np.zeros((budget, budget))
        self._solved = np.empty(budget)  # the factor's inverse times the target
        self.weights = np.empty(0)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def positions(self) -> NDArray[np.int64]:
        """Positions of the chosen samples."""
        return self._positions[: self.count]

    def residual_products(self) -> NDArray[np.float64]:
        """Return the inner products of all gradients with the residual, shape ``[n]``."""
        return np.asarray(self.target - self.weights @ self._rows[: self.count])

    def add(self, position: int) -> bool:
        """Add a sample, solve for all weights, and drop samples until no weight is negative; False if it cannot stay.

        Lawson & Hanson's inner loop: go from the old weights towards the new solution until the first weight reaches 0,
        drop its sample, and solve again.
        """
        before = self.weights
        self._append(position)
        found = self._solution()
        if found[-1] <= 0:
            self._keep(np.arange(self.count - 1))
            self.weights = before
            return False
        current = np.append(before, 0.0)
        while (found <= 0).any():
            low = found <= 0
            step = float((current[low] / (current[low] - found[low])).min())
            current = current + step * (found - current)
            stay = np.flatnonzero(~(low & (current <= 1e-12 * current.max())))
            self._keep(stay)
            current = current[stay]
            found = self._solution()
        self.weights = found
        return True

    def _append(self, position: int) -> None:
        n, row = self.count, self.gram[position] / self.scale
        across = _forward(self._factor[:n, :n], row[self.positions])
        corner = np.sqrt(row[position] + self.regularisation - across @ across)
        self._factor[n, :n], self._factor[n, n] = across, corner
        self._solved[n] = (self.target[position] - across @ self._solved[:n]) / corner
        self._positions[n], self._rows[n], self.inside[position] = position, row, True
        self.count += 1

    def _keep(self, stay: NDArray[np.int64]) -> None:
        """Keep the chosen samples with these numbers, ascending, and factorise again."""
        self.inside[self.positions] = False
        n = len(stay)
        self._positions[:n], self._rows[:n] = self._positions[stay], self._rows[stay]
        self.count = n
        self.inside[self.positions] = True
        inner = self._rows[:n][:, self.positions] + self.regularisation * np.eye(n)
        self._factor[:n, :n] = cholesky(inner, lower=True, check_finite=False) if n else inner
        self._solved[:n] = _forward(self._factor[:n, :n], self.target[self.positions])

    def _solution(self) -> NDArray[np.float64]:
        n = self.count
        return np.asarray(
            solve_triangular(self._factor[:n, :n], self._solved[:n], lower=True, trans="T", check_finite=False)
        )


def _forward(factor: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(values):
        return values
    return np.asarray(solve_triangular(factor, values, lower=True, check_finite=False))
