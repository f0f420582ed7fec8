"""Pieces of work that take turns, so that a machine that slows down slows all of them down."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import torch

Work = Callable[[], Callable[[], Any]]


@dataclass(frozen=True)
class Spread:
    """A quantity seen several times: median, quartiles and the smallest."""

    median: float
    lower_quartile: float
    upper_quartile: float
    smallest: float
    times: int

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """The spread of values.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, lower_quartile=1.5, upper_quartile=2.5, smallest=1.0, times=3)
        """
        low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(median(values), low, high, min(values), len(values))


def take_turns(
    works: Mapping[str, Work], repeats: int, device: torch.device | None = None, warm_up: bool = True
) -> list[dict[str, float]]:
    """Seconds of every piece of work in each of `repeats` turns.

    A piece of work is a function that prepares and gives what is timed. With `warm_up` there is one turn more, and
    the first is forgotten.
    """
    turns = []
    for turn in range(repeats + warm_up):
        seconds = {}
        for name, prepare in works.items():
            timed = prepare()
            _settle(device)
            started = perf_counter()
            timed()
            _settle(device)
            seconds[name] = perf_counter() - started
        if turn or not warm_up:
            turns.append(seconds)
    return turns


def _settle(device: torch.device | None) -> None:
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
