"""Correlation of two columns with bootstrap intervals, and fits of power laws."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.evaluation.paired import COVERAGE
from moso.randomness import generator

Kind = Literal["spearman", "pearson"]
RESAMPLES = 1_000
# Largest number of values per block of resamples, which bounds memory.
_BLOCK_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A measured value with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def correlation(
    first: NDArray[np.float64], second: NDArray[np.float64], kind: Kind, seed: int, resamples: int = RESAMPLES
) -> Interval:
    """Compute a correlation coefficient with a bootstrap interval over samples.

    Args:
        first: One float per sample, shape ``[samples]``.
        second: One float per sample, shape ``[samples]``.
        kind: ``"spearman"`` or ``"pearson"``.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    Returns:
        The coefficient and its 95 % interval; NaN for a constant column or fewer than 3 samples.

    Example:
        >>> line = np.arange(50.0)
        >>> str(correlation(line, line**3, "spearman", seed=0))
        '1.000 [1.000, 1.000]'
    """
    if len(first) < 3:
        return Interval(float("nan"), float("nan"), float("nan"))
    draw = generator(seed, "bootstrap", kind, len(first))
    drawn = []
    left = resamples
    while left > 0:
        rows = min(left, max(1, _BLOCK_NUMBERS // len(first)))
        chosen = draw.integers(len(first), size=(rows, len(first)))
        drawn.append(_coefficients(first[chosen], second[chosen], kind))
        left -= rows
    # With many ties a resample can be constant; it has no coefficient and is left out.
    values = np.concatenate(drawn)
    values = values[np.isfinite(values)]
    tail = (1 - COVERAGE) / 2
    low, high = np.quantile(values, [tail, 1 - tail]) if len(values) else (np.nan, np.nan)
    return Interval(float(_coefficients(first[None], second[None], kind)[0]), float(low), float(high))


def _coefficients(first: NDArray[np.float64], second: NDArray[np.float64], kind: Kind) -> NDArray[np.float64]:
    # One coefficient per row: SciPy's functions take an axis only in versions newer than the oldest supported one.
    if kind == "spearman":
        from scipy.stats import rankdata  # imported here: it takes half a second

        first, second = (rankdata(own, axis=1) for own in (first, second))
    first = first - first.mean(axis=1, keepdims=True)
    second = second - second.mean(axis=1, keepdims=True)
    spreads = np.sqrt(np.square(first).sum(axis=1) * np.square(second).sum(axis=1))
    result = np.full(len(first), np.nan)
    np.divide((first * second).sum(axis=1), spreads, out=result, where=spreads > 0)
    return result


@dataclass(frozen=True)
class PowerLaw:
    """The fit `value = c * product of factor ** exponent`, by least squares of logarithms."""

    exponents: Mapping[str, float]
    r_squared: float


def power_law(values: NDArray[np.float64], factors: Mapping[str, NDArray[np.float64]]) -> PowerLaw:
    """Fit the exponents with which `values` grow in the factors.

    Args:
        values: One value per observation; values that are not finite and positive are left out.
        factors: One positive array per factor, of the same length.

    Returns:
        The exponents (NaN for a factor that does not vary) and R squared.

    Example:
        >>> rate = np.array([0.1, 0.2, 0.1, 0.2]); steps = np.array([5.0, 5.0, 20.0, 20.0])
        >>> fit = power_law(3 * rate * steps**2, {"rate": rate, "steps": steps})
        >>> {name: round(exponent, 6) for name, exponent in fit.exponents.items()}, round(fit.r_squared, 6)
        ({'rate': 1.0, 'steps': 2.0}, 1.0)
    """
    usable = np.isfinite(values) & (values > 0)
    varying = [name for name, factor in factors.items() if len(np.unique(factor[usable])) > 1]
    exponents = dict.fromkeys(factors, float("nan"))
    if not varying or usable.sum() < len(varying) + 1:
        return PowerLaw(exponents, float("nan"))
    target = np.log(values[usable])
    design = np.column_stack([np.ones(len(target)), *(np.log(factors[name][usable]) for name in varying)])
    solution = np.linalg.lstsq(design, target, rcond=None)[0]
    left = np.square(target - design @ solution).sum()
    spread = np.square(target - target.mean()).sum()
    exponents.update(zip(varying, solution[1:].tolist(), strict=True))
    return PowerLaw(exponents, float(1 - left / spread) if spread > 0 else float("nan"))
