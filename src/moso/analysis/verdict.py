"""The verdict on a run: how much of the data can go, by which method, and whether drawing at random does as well.

Terminal, page and library show this one object. The share is the largest retrained ratio at which a method stays within
a tolerance of training on all data, overall (mean over seeds) and in every class (`analysis/class_changes.py`). The
comparison with random selection is the paired difference (`evaluation/paired.py`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from moso.analysis.class_changes import ClassChange, class_changes, worst_change
from moso.analysis.costs import costs
from moso.analysis.retraining_names import with_unique_names
from moso.analysis.verdict_words import sentences_of
from moso.analysis.wording import data_name
from moso.evaluation.paired import PairedDifference
from moso.evaluation.standings import RANDOM, Row, compared, entries, is_method
from moso.evaluation.summary import FULL, Costs
from moso.evaluation.tolerance import check_tolerance
from moso.results.reading import Run
from moso.selection import kept_count
from moso.tasks.metric import Measure


@dataclass(frozen=True)
class Finding:
    """One method at one ratio: its retrainings beside all data and random selection, and its worst class.

    Attributes:
        row: The values and their paired differences.
        worst_class: The class that loses most; None without classes or without training on all data.
        within: Whether it is within the tolerance, overall and in every class; None without training on all data.
    """

    row: Row
    worst_class: ClassChange | None
    within: bool | None

    @property
    def ratio(self) -> float:
        """The share of samples that is removed."""
        return self.row.entry.ratio


@dataclass(frozen=True)
class Verdict:
    """How much of the data can go, and how that is known. `str()` is the whole verdict in words.

    Attributes:
        data: Short name of the data set.
        samples: Number of training samples.
        test_samples: Number of test samples; 0 if there are none.
        tolerance: Accepted loss against all data: points of a metric in %, else per cent of its value on all data.
        finding: The method at the largest share within the tolerance; if there is none, the best method at the smallest
            share that was retrained; None if nothing was retrained.
        held_back: The method at a larger share that is within the tolerance overall, but harms a class; or None.
        random_ratio: The largest share that random selection can remove within the tolerance, 0 if none; None if it was
            not measured.
        anything_beats_random: Whether any method is better than random selection at any ratio, beyond chance; None if
            that is unknown (one seed, or no random selection).
        spent: Seconds of computation of the run.
    """

    data: str
    samples: int
    test_samples: int
    tolerance: float
    finding: Finding | None
    held_back: Finding | None
    random_ratio: float | None
    anything_beats_random: bool | None
    spent: Costs

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in words; the first two sentences are the headline."""
        return sentences_of(self)

    @property
    def headline(self) -> str:
        """How much can go, what that does to the worst class, and the comparison with random selection."""
        return " ".join(self.sentences[:2])

    def __str__(self) -> str:
        return " ".join(self.sentences)

    @property
    def within_tolerance(self) -> bool:
        """Whether any share that was retrained can go within the tolerance, overall and in every class."""
        return self.finding is not None and self.finding.within is True

    @property
    def removable(self) -> float:
        """The largest share that can go within the tolerance; 0 if none can, or that is not known."""
        return self.finding.ratio if self.finding is not None and self.finding.within else 0.0

    @property
    def method(self) -> str | None:
        """Name of the method that the verdict is about; None if nothing was retrained."""
        return None if self.finding is None else self.finding.row.entry.method

    @property
    def selector(self) -> str | None:
        """Name of the method's selector."""
        return None if self.finding is None else self.finding.row.entry.selector

    @property
    def ratio(self) -> float | None:
        """The share removed that the verdict is about: within the tolerance only if `within_tolerance`."""
        return None if self.finding is None else self.finding.ratio

    @property
    def kept(self) -> int | None:
        """Number of samples that stay at this ratio."""
        return None if self.ratio is None else kept_count(self.samples, self.ratio)

    @property
    def measure(self) -> Measure | None:
        """The metric of the retrainings."""
        return None if self.finding is None else self.finding.row.entry.measure

    @property
    def value(self) -> float | None:
        """The metric after retraining on the kept samples, mean over seeds."""
        return None if self.finding is None else self.finding.row.entry.line.mean

    @property
    def against_full(self) -> PairedDifference | None:
        """The difference to training on all data."""
        return None if self.finding is None else self.finding.row.against_full

    @property
    def against_random(self) -> PairedDifference | None:
        """The difference to the better random selection of the same size."""
        return None if self.finding is None else self.finding.row.against_random

    @property
    def beats_random(self) -> bool | None:
        """Whether the method is better than random selection beyond chance; None if that is unknown."""
        found = None if self.against_random is None else self.against_random.verdict
        return None if found in (None, "unknown") else found == "better"

    @property
    def worst_class(self) -> ClassChange | None:
        """The class that loses most."""
        return None if self.finding is None else self.finding.worst_class

    @property
    def seeds(self) -> int:
        """Number of seeds behind the method's value."""
        return 0 if self.finding is None else len(self.finding.row.entry.by_seed)

    @property
    def scoring_seconds(self) -> float:
        """Seconds of training surrogates and scoring, under one seed."""
        return self.spent.surrogates + self.spent.scoring

    @property
    def paid_after(self) -> int | None:
        """After how many retrainings the saved time covers scoring.

        None where accuracy is lost, where random selection does as well without scoring, and where no time is saved.
        """
        if self.ratio is None or not self.within_tolerance or self.beats_random is False:
            return None
        return self.spent.paid_after(self.ratio)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON; NaN becomes None."""
        names = (
            *("data", "samples", "test_samples", "tolerance", "within_tolerance", "removable"),
            *("method", "selector", "ratio", "kept", "value", "seeds", "beats_random", "anything_beats_random"),
            *("random_ratio", "scoring_seconds", "paid_after"),
        )
        measure, row = self.measure, None if self.finding is None else self.finding.row
        return {
            **{name: getattr(self, name) for name in names},
            "metric": None if measure is None else measure.name,
            "unit": None if measure is None else measure.unit,
            "full_value": None if row is None or row.full is None else row.full.line.mean,
            "random_value": None if row is None or row.random is None else row.random.line.mean,
            "against_full": _plain(self.against_full),
            "against_random": _plain(self.against_random),
            "worst_class": None if self.worst_class is None else self.worst_class.to_dict(),
            "class_harmed": self.worst_class is not None and self.worst_class.is_harm(self.tolerance),
            "retraining_seconds": None if self.ratio is None else self.spent.retraining.get(self.ratio),
            "full_retraining_seconds": self.spent.retraining.get(0.0),
            "headline": self.headline,
            "sentences": list(self.sentences),
        }


def verdict_of(run: Run, tolerance: float | None = None) -> Verdict:
    """Return the verdict on a run, finished or not.

    Args:
        run: The run.
        tolerance: Accepted loss against all data, in points; None takes that of the run's configuration.

    Raises:
        MosoError: ``setting-invalid``.
    """
    described = run.manifest.get("dataset", {})
    return judge(
        run.evaluation(),
        data=data_name(run.configuration.dataset),
        samples=described.get("train", 0),
        test_samples=described.get("test", 0),
        classes=run.task.classes if described else (),
        tolerance=run.configuration.tolerance if tolerance is None else tolerance,
        spent=costs(run.directory, run.configuration),
    )


def judge(
    retrainings: Iterable[Mapping[str, Any]],
    *,
    data: str,
    samples: int,
    test_samples: int,
    classes: Sequence[str],
    tolerance: float,
    spent: Costs,
) -> Verdict:
    """Return the verdict on retrainings.

    Args:
        retrainings: One mapping per retraining (`results/retrainings.py`).
        data: Short name of the data set.
        samples: Number of training samples.
        test_samples: Number of test samples.
        classes: Names of the classes; empty if samples have none.
        tolerance: Accepted loss against all data, in points.
        spent: Seconds of computation.

    Raises:
        MosoError: ``setting-invalid``.
    """
    check_tolerance(tolerance)
    cells = with_unique_names(retrainings)
    found = [_finding(row, cells, classes, tolerance) for row in compared(entries(cells), test_samples)]
    methods = [one for one in found if is_method(one.row.entry.method)]
    chosen = _chosen(methods)
    return Verdict(
        data=data,
        samples=samples,
        test_samples=test_samples,
        tolerance=tolerance,
        finding=chosen,
        held_back=_held_back(methods, chosen, tolerance),
        random_ratio=_reach([one for one in found if one.row.entry.method == RANDOM]),
        anything_beats_random=_any_better([one.row for one in methods]),
        spent=spent,
    )


def allowed_loss(row: Row, tolerance: float) -> float:
    """Return the tolerance in the unit of the metric: points, or per cent of the value on all data."""
    return tolerance if row.entry.measure.unit == "%" or row.full is None else tolerance / 100 * abs(row.full.line.mean)


def _finding(row: Row, cells: Sequence[dict[str, Any]], classes: Sequence[str], tolerance: float) -> Finding:
    entry = row.entry
    asked = entry.method, entry.selector, entry.parameters, entry.ratio
    own = [one for one in cells if (one["method"], one["selector"], one["parameters"], one["ratio"]) == asked]
    worst = worst_change(class_changes(own, [one for one in cells if one["method"] == FULL], classes), tolerance)
    if row.against_full is None:
        return Finding(row, worst, None)
    return Finding(row, worst, _is_close(row, tolerance) and not (worst is not None and worst.is_harm(tolerance)))


def _is_close(row: Row, tolerance: float) -> bool:
    """Return whether the mean is within the tolerance of all data; a rounding error is not a loss."""
    return row.against_full is not None and row.against_full.gain >= -allowed_loss(row, tolerance) - 1e-9


def _chosen(methods: Sequence[Finding]) -> Finding | None:
    within = [one for one in methods if one.within]
    if within:
        return max(within, key=lambda one: (one.ratio, one.row.entry.line.merit))
    return min(methods, key=lambda one: (one.ratio, -one.row.entry.line.merit), default=None)


def _held_back(methods: Sequence[Finding], chosen: Finding | None, tolerance: float) -> Finding | None:
    """Return the finding at the largest share that only a harmed class keeps from being chosen."""
    beyond = chosen.ratio if chosen is not None and chosen.within else -math.inf
    harmed = [one for one in methods if one.within is False and one.ratio > beyond and _is_close(one.row, tolerance)]
    return max(harmed, key=lambda one: (one.ratio, one.row.entry.line.merit), default=None)


def _reach(random: Sequence[Finding]) -> float | None:
    known = [one for one in random if one.within is not None]
    return max((one.ratio for one in known if one.within), default=0.0) if known else None


def _any_better(rows: Sequence[Row]) -> bool | None:
    verdicts = [row.against_random.verdict for row in rows if row.against_random is not None]
    if not verdicts or set(verdicts) == {"unknown"}:
        return None
    return "better" in verdicts


def _plain(difference: PairedDifference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    ends = {name: getattr(difference, name) for name in ("value", "low", "high")}
    return {
        **{name: None if math.isnan(end) else end for name, end in ends.items()},
        "pairs": difference.pairs,
        "verdict": difference.verdict,
        "text": str(difference),
    }
