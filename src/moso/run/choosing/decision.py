"""Decisions of `auto` on disk: what was tried for a seed and ratio, how sure the choice is, and what it cost."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moso import errors
from moso.evaluation.paired import PairedDifference
from moso.files import read_record, write_record
from moso.run.choosing.trial import trials_folder
from moso.run.job import Job

_FILE = "decision.json"
_ALL = "auto.json"


@dataclass(frozen=True)
class Tried:
    """One candidate: its values by fold, and its paired difference to random selection.

    `value`, `low` and `high` are None for random selection itself; `low` and `high` are None after a single fold.
    """

    name: str
    score: str | None
    selector: str
    settings: Mapping[str, Any]
    by_fold: Mapping[str, float]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    is_finalist: bool = False


@dataclass(frozen=True)
class Decision:
    """What `auto` stands for at one ratio and seed.

    Attributes:
        winner: Name of the candidate.
        metric: Name of the metric of all values, on held-out training samples.
        unit: Unit of the metric.
        tried: All candidates, in the order of preference among level ones.
        held_out: Numbers of samples of the folds.
        trainings: Number of trials.
        updates: Number of updates of all trials.
        noisy: Whether the run made or replaced labels, so that held-out labels are as noisy as the others.
    """

    seed: int
    ratio: float
    winner: str
    metric: str
    unit: str
    tried: tuple[Tried, ...]
    held_out: tuple[int, ...]
    trainings: int
    updates: int
    noisy: bool = False

    @property
    def chosen(self) -> Tried:
        """The candidate that won."""
        return next(one for one in self.tried if one.name == self.winner)

    @property
    def is_random(self) -> bool:
        """Whether nothing was clearly better than random selection."""
        return self.tried[0].name == self.winner

    def sentence(self) -> str:
        """Return what was chosen and how sure it is, in one sentence."""
        tried = f"{len(self.tried)} candidates, {self.trainings} short trainings on held-out training data"
        where = f"auto at {self.ratio:g} removed, seed {self.seed}"
        if self.is_random:
            best = max(self.tried[1:], key=lambda one: (one.is_finalist, one.value or 0.0), default=None)
            nearest = "" if best is None else f"; the nearest was {best.name} ({_signed(best, self.unit)})"
            return f"{where}: nothing is clearly better than random selection, so it is random{nearest}; {tried}"
        return f"{where}: {self.winner}, {_signed(self.chosen, self.unit)} against random selection; {tried}"


def _signed(one: Tried, unit: str) -> str:
    between = "" if one.low is None or one.high is None else f", 95 % interval {one.low:+.1f} to {one.high:+.1f}"
    return f"{one.value or 0.0:+.1f} {'points' if unit == '%' else unit}{between}".replace(" ,", ",")


def tried_from(
    name: str,
    score: str | None,
    selector: str,
    settings: Mapping[str, Any],
    by_fold: Mapping[int, float],
    difference: PairedDifference | None,
    is_finalist: bool,
) -> Tried:
    """Return the record of one candidate; `difference` is None for random selection."""
    folds = {str(fold): value for fold, value in by_fold.items()}
    if difference is None:
        return Tried(name, score, selector, settings, folds, is_finalist=is_finalist)
    low, high = (None, None) if math.isnan(difference.margin) else (difference.low, difference.high)
    return Tried(name, score, selector, settings, folds, difference.value, low, high, is_finalist)


def auto_path(job: Job) -> Path:
    """Return the path of the file with all decisions of a run."""
    return job.directory.root / _ALL


def decision_path(job: Job, seed: int, ratio: float) -> Path:
    """Return the path of the decision for a seed and ratio."""
    return trials_folder(job, seed, ratio) / _FILE


def write_decision(job: Job, decision: Decision) -> None:
    """Write a decision."""
    write_record(decision_path(job, decision.seed, decision.ratio), asdict(decision))


def write_decisions_view(job: Job) -> None:
    """Write `auto.json`: all decisions of the run."""
    write_record(auto_path(job), {"decisions": [asdict(one) for one in read_decisions(job)]})


def read_decision(job: Job, seed: int, ratio: float) -> Decision:
    """Read the decision for a seed and ratio.

    Raises:
        MosoError: ``stage-incomplete`` if candidates were not tried at this ratio.
    """
    path = decision_path(job, seed, ratio)
    if not path.exists():
        raise errors.StageIncomplete(
            f"candidates of auto were not tried at ratio {ratio:g} in {job.directory}; `moso score` tries those of the "
            "run's own ratios, so begin another run with this --ratio"
        )
    found = read_record(path)
    found["tried"] = tuple(Tried(**one) for one in found["tried"])
    return Decision(**{**found, "held_out": tuple(found["held_out"])})


def read_decisions(job: Job) -> list[Decision]:
    """Read all decisions of a run, by ratio and seed."""
    c = job.configuration
    places = [(seed, ratio) for ratio in c.ratios for seed in c.all_seeds()]
    return [read_decision(job, *place) for place in places if decision_path(job, *place).exists()]
