"""What an evaluation shows, in sentences that claim no more than its numbers do.

The best pair of method and selector is compared with random selection of the same size. It was picked by its
accuracy (or what takes its place), so the interval of the difference is widened for the number of pairs it was picked
from (Bonferroni), and a difference inside its interval is never called one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from moso.evaluation.baselines import BASELINES
from moso.evaluation.standings import is_method
from moso.evaluation.statistics import student_quantile
from moso.evaluation.summary import ACCURACY, Line, Measure
from moso.report.wording import count_of, percent
from moso.results.retrainings import FULL
from moso.selection import kept_count

RANDOM = "random"
COVERAGE = 0.95
# What pruning may cost before the headline stops saying that data "can go": points of accuracy, or per cent of a loss.
CLOSE = 1.0

Verdict = Literal["better", "worse", "level", "unknown"]


@dataclass(frozen=True)
class Difference:
    """How far one line's mean is above another's, and half the width of its 95 % interval; None for a single seed."""

    points: float
    margin: float | None
    measure: Measure = ACCURACY

    @property
    def gain(self) -> float:
        """The same, turned so that more is better."""
        return self.measure.sign * self.points

    @property
    def verdict(self) -> Verdict:
        """Whether the first is better or worse than the second, or chance explains it.

        >>> Difference(1.2, 0.5).verdict, Difference(-1.2, 2.0).verdict, Difference(1.2, None).verdict
        ('better', 'level', 'unknown')
        """
        if self.margin is None:
            return "unknown"
        if abs(self.points) <= self.margin:
            return "level"
        return "better" if self.gain > 0 else "worse"

    def __str__(self) -> str:
        text = self.measure.text
        signed = ("−" if self.points < 0 else "+") + text(abs(self.points))  # noqa: RUF001 - as wide as the plus
        return signed + ("" if self.margin is None else f" ± {text(self.margin)}")


def difference(
    first: Line, second: Line, beside: Sequence[Line] = (), test_samples: int = 0, tried: int = 1
) -> Difference:
    """How far the mean of one line is above another's, with Student's interval over seeds.

    A few seeds know little of their own spread, so it is pooled over the two lines and those `beside` them, which
    should be of the same ratio. Accuracy comes in steps of one test sample, and no spread is taken to be smaller
    than that: two seeds that happen to agree say little. `tried` is the number of lines that `first` is the best of.

    >>> first, second = Line("moso", "top", 0.5, (92.0, 93.0, 94.0)), Line("random", "random", 0.5, (90.0, 90.5, 91.0))
    >>> str(difference(first, second))
    '+2.5 ± 1.8'
    """
    points = first.mean - second.mean
    counts = len(first.values), len(second.values)
    if min(counts) < 2:
        return Difference(points, None, first.measure)
    pool = [(line.spread**2, len(line.values) - 1) for line in dict.fromkeys([first, second, *beside])]
    freedom = sum(own for _, own in pool)
    spread = math.sqrt(sum(variance * own for variance, own in pool) / freedom)
    if test_samples and first.measure == ACCURACY:
        spread = max(spread, 100 / test_samples)
    quantile = student_quantile(1 - (1 - COVERAGE) / (2 * tried), freedom)
    return Difference(points, quantile * spread * math.sqrt(sum(1 / count for count in counts)), first.measure)


@dataclass(frozen=True)
class Comparison:
    """The best pair at one ratio, beside random selection and all data, where they were measured.

    `matched` is the better of the baselines that make as many updates without pruning.
    """

    ratio: float
    best: Line
    tried: int
    random: Line | None
    full: Line | None
    against_random: Difference | None
    against_full: Difference | None
    matched: Line | None = None
    against_matched: Difference | None = None


def compare(lines: Sequence[Line], test_samples: int = 0) -> list[Comparison]:
    """A comparison for every ratio at which something other than random selection was retrained.

    The stronger of several random baselines is the one to beat.
    """
    full = next((line for line in lines if line.method == FULL), None)
    found = []
    for ratio in sorted({line.ratio for line in lines if is_method(line.method)}):
        here = [line for line in lines if line.ratio == ratio]
        scored = [line for line in here if is_method(line.method)]
        best = max(scored, key=lambda line: line.merit)
        random = max((line for line in here if line.method == RANDOM), key=lambda line: line.merit, default=None)
        matched = max((line for line in here if line.method in BASELINES), key=lambda line: line.merit, default=None)
        found.append(
            Comparison(
                ratio,
                best,
                len(scored),
                random,
                full,
                None if random is None else difference(best, random, here, test_samples, len(scored)),
                None if full is None else difference(best, full, here, test_samples, len(scored)),
                matched,
                None if matched is None else difference(best, matched, here, test_samples, len(scored)),
            )
        )
    return found


def headline(comparisons: Sequence[Comparison], data: str, samples: int) -> str:
    """What came out, in two sentences: what removing data costs, and whether random selection would do as well."""
    if not comparisons:
        return f"Nothing has been retrained on a pruned {data} yet, so nothing can be said about accuracy."
    chosen, close = headline_comparison(comparisons)
    removed, name, measure = percent(chosen.ratio), chosen.best.name, chosen.best.measure
    kept = count_of(kept_count(samples, chosen.ratio), "sample")
    reaches = f"trained on the {kept} that {name} keeps, the network reaches {_value(chosen.best, named=True)}"
    if chosen.full is None or chosen.against_full is None:
        first = f"With {removed} of {data} removed, {reaches}; training on all data has not been measured."
    else:
        beside = f"{_side(chosen.against_full)} all data ({_value(chosen.full)})"
        if close:
            first = f"{removed} of {data} {_certainty(chosen.against_full, _close(chosen))}: {reaches}, {beside}."
        else:
            price = measure.title if measure.better == "higher" else "something"
            first = f"Removing data costs {price} here: with {removed} of {data} removed, {reaches}, {beside}."
    return " ".join(filter(None, (first, _beside_random(chosen), _beside_matched(chosen))))


def headline_comparison(comparisons: Sequence[Comparison]) -> tuple[Comparison, bool]:
    """The comparison a headline is about, and whether it comes close to all data.

    It is that of the largest ratio that costs at most one point (or one per cent of a loss), or else of the smallest.
    """
    close = [one for one in comparisons if one.against_full and one.against_full.gain >= -_close(one)]
    return (close[-1], True) if close else (comparisons[0], False)


def _close(one: Comparison) -> float:
    """What counts as close to all data: a point, or for what is not in % one per cent of what all data gives."""
    return CLOSE if one.best.measure.unit == "%" or one.full is None else CLOSE / 100 * abs(one.full.mean)


def _value(line: Line, named: bool = False) -> str:
    measure = line.measure
    text = measure.text(line.mean) + (" %" if measure.unit == "%" else "")
    return f"{text} ({measure.title})" if named and measure != ACCURACY else text


def _certainty(against_full: Difference, close: float) -> str:
    if against_full.margin is None:
        return "may be able to go"
    return "can go" if against_full.gain - against_full.margin >= -close else "can probably go"


def _side(difference: Difference) -> str:
    text = difference.measure.text(abs(difference.points))
    if float(text) == 0:
        return "the same as"
    unit = "" if difference.measure.unit != "%" else " point" if text == "1.0" else " points"
    return f"{text}{unit} {'above' if difference.points > 0 else 'below'}"


def _beside_random(chosen: Comparison) -> str:
    if chosen.random is None or chosen.against_random is None:
        return "Random selection of the same size has not been measured beside it."
    baseline = f"random selection of the same size ({_value(chosen.random)})"
    seeds = min(len(chosen.best.values), len(chosen.random.values))
    side = _side(chosen.against_random)
    match chosen.against_random.verdict:
        case "unknown":
            return f"That is {side} {baseline}, but a single seed cannot tell merit from chance."
        case "level":
            return f"That is {side} {baseline}: no difference that {count_of(seeds, 'seed')} can tell from chance."
        case "better":
            return f"That is {side} {baseline}."
        case "worse":
            return f"But that is {side} {baseline}, which is the better choice here."


def _beside_matched(chosen: Comparison) -> str:
    """Whether it is the pruning that did it, where as many updates without pruning were measured."""
    if chosen.matched is None or chosen.against_matched is None:
        return ""
    reached = f"As many updates without any pruning ({chosen.matched.name}) reach {_value(chosen.matched)}"
    match chosen.against_matched.verdict:
        case "better":
            return f"{reached}, so it is the choice of samples that helps."
        case "worse":
            return f"{reached}, which is better: not to prune costs no more time here."
        case "level":
            return f"{reached}: pruning is no better than that, as far as the seeds can tell."
        case "unknown":
            return f"{reached}."


def tally(comparisons: Sequence[Comparison]) -> str:
    """How the best pairs fare against random selection over all ratios, wins and losses alike."""
    verdicts = [one.against_random.verdict for one in comparisons if one.against_random is not None]
    if not verdicts or "unknown" in verdicts:
        return ""
    counts = {verdict: verdicts.count(verdict) for verdict in ("better", "level", "worse")}
    return (
        f"Over {count_of(len(verdicts), 'ratio')}, the best method beats random selection of the same size at "
        f"{counts['better']}, cannot be told apart from it at {counts['level']}, and loses to it at {counts['worse']}."
    )
