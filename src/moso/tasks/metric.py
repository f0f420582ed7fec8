"""Metrics of trained networks: one number per test sample, whose mean is reported under a name and a unit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from moso.batch import Batch

# `(model, batch) -> [batch]`, one number per sample: a loss or a metric.
PerSample = Callable[[nn.Module, Batch], torch.Tensor]


@dataclass(frozen=True)
class Measure:
    """The name and unit of an evaluation's numbers, and whether higher or lower is better.

    Example:
        >>> ACCURACY.text(91.234), LOSS.text(0.51234), R_SQUARED.title, LOSS.best([0.3, 0.2])
        ('91.2', '0.5123', 'R²', 0.2)
    """

    name: str
    unit: Literal["%", ""] = "%"
    better: Literal["higher", "lower"] = "higher"

    @property
    def title(self) -> str:
        """The name for display."""
        return "R²" if self.name == "r2" else self.name

    @property
    def heading(self) -> str:
        """The heading of a column of such numbers."""
        return f"{self.title} in %" if self.unit == "%" else self.title

    @property
    def sign(self) -> int:
        """1 if higher is better, -1 if lower is."""
        return 1 if self.better == "higher" else -1

    def text(self, value: float) -> str:
        """Format a value for display."""
        return f"{value:.1f}" if self.unit == "%" else f"{value:.4g}"

    def best(self, values: Iterable[float]) -> float:
        """Return the best of some values."""
        return max(values) if self.better == "higher" else min(values)


ACCURACY = Measure("accuracy")
R_SQUARED = Measure("r2")
LOSS = Measure("loss", unit="", better="lower")


@dataclass(frozen=True)
class Metric:
    """A measure, and the function that computes it per sample.

    Attributes:
        measure: Name, unit and direction of the mean over the test split. Under `ACCURACY`, 1 is right and 0 is wrong,
            and right answers are counted per class.
        per_sample: `(model, batch) -> [batch]`; from 0 to 1 if the unit is %.
    """

    measure: Measure
    per_sample: PerSample


def mean_loss(loss: PerSample) -> Metric:
    """Return a metric that is the mean of a loss; lower is better."""
    return Metric(LOSS, loss)


def own_metric(per_sample: PerSample) -> Metric:
    """Return the metric of a user's function, from 0 to 1, reported in %; higher is better."""
    return Metric(Measure(getattr(per_sample, "__name__", type(per_sample).__name__)), per_sample)
