"""What a trained network is judged by: one number per test sample, whose mean is reported under a name and a unit."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

# Whatever a data set's views make of some samples: a pair of tensors, a dictionary, an object.
Batch = Any
# One number per sample, `(model, batch) -> [batch]`: a loss, or what a metric takes of a sample.
PerSample = Callable[[nn.Module, Batch], torch.Tensor]


@dataclass(frozen=True)
class Measure:
    """What the numbers of an evaluation are: their name, their unit, and which end is the better one.

    >>> ACCURACY.text(91.234), LOSS.text(0.51234), R_SQUARED.title, LOSS.best([0.3, 0.2])
    ('91.2', '0.5123', 'R²', 0.2)
    """

    name: str
    unit: Literal["%", ""] = "%"
    better: Literal["higher", "lower"] = "higher"

    @property
    def title(self) -> str:
        """What a person calls it."""
        return "R²" if self.name == "r2" else self.name

    @property
    def heading(self) -> str:
        """What stands above a column of it."""
        return f"{self.title} in %" if self.unit == "%" else self.title

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.better == "higher" else -1

    def text(self, value: float) -> str:
        """A value as it is printed."""
        return f"{value:.1f}" if self.unit == "%" else f"{value:.4g}"

    def best(self, values: Iterable[float]) -> float:
        """The best of some values."""
        return max(values) if self.better == "higher" else min(values)


ACCURACY = Measure("accuracy")
R_SQUARED = Measure("r2")
LOSS = Measure("loss", unit="", better="lower")


@dataclass(frozen=True)
class Metric:
    """A measure, and the number that it takes of every sample.

    Attributes:
        measure: Name, unit and direction of the mean over the test. Under `ACCURACY`, 1 is right and 0 is wrong, and
            right answers are counted per class.
        per_sample: `(model, batch) -> [batch]`; from 0 to 1 where the unit is %.
    """

    measure: Measure
    per_sample: PerSample


def mean_loss(loss: PerSample) -> Metric:
    """A loss as the metric; lower is better."""
    return Metric(LOSS, loss)


def own_metric(per_sample: PerSample) -> Metric:
    """The user's own metric, from 0 to 1, reported in %; higher is better."""
    return Metric(Measure(getattr(per_sample, "__name__", type(per_sample).__name__)), per_sample)
