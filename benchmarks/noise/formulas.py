"""The formulas of docs/noise.md: mean gradient under label noise, gap and spread of scores, and when order survives.

A transition matrix `T[j, k]` is the probability that a sample of class `j` carries the label `k`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Array = NDArray[np.float64]


def symmetric(rate: float, classes: int) -> Array:
    """Return the transition matrix of noise that draws a share of the labels uniformly from all classes."""
    return (1 - rate) * np.eye(classes) + rate / classes


def pair(rate: float, classes: int) -> Array:
    """Return the transition matrix of noise that flips a share of the labels to the next class."""
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def keeps_order(transition: Array) -> bool:
    """Return whether every class's own label is the most likely one in its row and in its column, by itself."""
    own = np.diag(transition)
    others = transition - np.diag(np.full(len(own), np.inf))
    return bool((own > others.max(axis=1)).all() and (own > others.max(axis=0)).all())


@dataclass(frozen=True)
class Gaussian:
    """Balanced classes with orthogonal means of length `length`, and normal spread `spread` in each of `width` axes."""

    classes: int
    width: int
    length: float
    spread: float

    def early_gap(self, transition: Array, label: int, other: int) -> float:
        """Return the expected score of a right sample of `label` less that of a sample of `other` with that label."""
        return float(self.length**2 / self.classes * (transition[label, label] - transition[other, label]))

    def early_variance(self, transition: Array, label: int, samples: int) -> tuple[float, float]:
        """Return the variance of scores of one label: of the samples themselves, and of the estimated mean gradient.

        The first stays for any number of samples, the second falls as 1 / samples.
        """
        mean = (transition[:, label] - transition[:, label].mean()) / self.classes * self.length
        own = self.spread**2 * float(mean @ mean)
        share = float(transition[:, label].mean())
        square = self.length**2 + self.width * self.spread**2
        spread_of_rows = (share * (1 - 2 / self.classes) + 1 / self.classes**2) * square
        estimated = (spread_of_rows - self._squared_mean(transition, label)) / samples
        return own, self.spread**2 * estimated

    def _squared_mean(self, transition: Array, label: int) -> float:
        """Return the squared length of the mean of `(1{label} - 1/C) x`."""
        mean = (transition[:, label] - 1 / self.classes) / self.classes * self.length
        return float(mean @ mean)

    def early_auroc(self, transition: Array, label: int, samples: int) -> float:
        """Return the probability that a right sample of a label scores above a wrong one, at equal predictions.

        Wrong samples are of the classes that the column of the label says, each normal around its own mean.
        """
        column = transition[:, label]
        variance = sum(self.early_variance(transition, label, samples))
        total, weight = 0.0, 0.0
        for other in range(self.classes):
            if other != label and column[other] > 0:
                gap = self.early_gap(transition, label, other)
                total += column[other] * float(norm.cdf(gap / np.sqrt(2 * variance)))
                weight += column[other]
        return total / weight

    def samples_needed(self, transition: Array, label: int) -> float:
        """Return the number of samples at which both variances are equal: with fewer, noise dominates."""
        own, estimated = self.early_variance(transition, label, 1)
        return estimated / own


def late_gap(transition: Array, label: int, other: int) -> float:
    """Return the difference of logits between the right class and another at the optimum of the noisy risk."""
    return float(np.log(transition[label, label]) - np.log(transition[label, other]))
