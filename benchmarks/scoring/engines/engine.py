"""What an engine is: a network, its loss and batches in, one number per sample out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from benchmarks.scoring.problem import Batches
from moso.gradients import Loss, batch_length, map_tensors

Scores = NDArray[np.float64]
Run = Callable[[nn.Module, Loss, Batches], Scores]


@dataclass(frozen=True)
class Engine:
    """One way to get the scores of a time step.

    `run(model, loss, batches)` is given a copy of the model that it may change, in evaluation mode, and gives
    `[samples]` in order. `quantity` is what these numbers are held against: `a_t(z)`, or `G . g_z` alone. An engine
    that cannot do a network raises, and the row of a rival says so.
    """

    title: str
    run: Run
    rival: bool = True
    quantity: Literal["score", "product"] = "score"


class Refused(Exception):
    """A rival does not do this network; the message says why."""


def one_at_a_time(batches: Batches) -> list[Any]:
    """Every sample as a batch of one."""
    return [
        map_tensors(lambda tensor, i=number: tensor[i : i + 1], batch)  # type: ignore[misc]
        for batch in batches
        for number in range(batch_length(batch))
    ]
