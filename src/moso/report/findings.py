"""What an evaluation shows, in sentences that claim no more than its numbers do.

The best pair of method and selector is compared with random selection of the same size. It was picked by its
accuracy, so the interval of the difference is widened for the number of pairs it was picked from (Bonferroni), and
a difference inside its interval is never called one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.stats import t as student

from moso.evaluation.summary import Line
from moso.report.wording import count_of, percent
from moso.run.cells import FULL
from moso.selection import kept_count

RANDOM = "random"
COVERAGE = 0.95
# Points of accuracy that pruning may cost before the headline stops saying that data "can go".
CLOSE = 1.0

Verdict = Literal["above", "below", "level", "unknown"]


@dataclass(frozen=True)
class Difference:
    """Points of accuracy between two lines, and half the width of its 95 % interval; None for a single seed."""

    points: float
    margin: float | None

    @property
    def verdict(self) -> Verdict:
        """Whether the first is above or below the second, or chance explains it.

        >>> Difference(1.2, 0.5).verdict, Difference(-1.2, 2.0).verdict, Difference(1.2, None).verdict
        ('above', 'level', 'unknown')
        """
        if self.margin is None:
            return "unknown"
        if abs(self.points) <= self.margin:
            return "level"
        return "above" if self.points > 0 else "below"

    def __str__(self) -> str:
        signed = f"{self.points:+.1f}".replace("-", "−")  # noqa: RUF001 - as wide as the plus it stands under
        return signed + ("" if self.margin is None else f" ± {self.margin:.1f}")


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
    counts = len(first.accuracies), len(second.accuracies)
    if min(counts) < 2:
        return Difference(points, None)
    pool = [(line.spread**2, len(line.accuracies) - 1) for line in dict.fromkeys([first, second, *beside])]
    freedom = sum(own for _, own in pool)
    spread = math.sqrt(sum(variance * own for variance, own in pool) / freedom)
    spread = max(spread, 100 / test_samples if test_samples else 0.0)
    quantile = float(student.ppf(1 - (1 - COVERAGE) / (2 * tried), freedom))
    return Difference(points, quantile * spread * math.sqrt(sum(1 / count for count in counts)))


@dataclass(frozen=True)
class Comparison:
    """The best pair at one ratio, beside random selection and all data, where they were measured."""

    ratio: float
    best: Line
    tried: int
    random: Line | None
    full: Line | None
    against_random: Difference | None
    against_full: Difference | None


def compare(lines: Sequence[Line], test_samples: int = 0) -> list[Comparison]:
    """A comparison for every ratio at which something other than random selection was retrained.

    The stronger of several random baselines is the one to beat.
    """
    full = next((line for line in lines if line.method == FULL), None)
    found = []
    for ratio in sorted({line.ratio for line in lines if line.method not in (FULL, RANDOM)}):
        here = [line for line in lines if line.ratio == ratio]
        scored = [line for line in here if line.method not in (FULL, RANDOM)]
        best = max(scored, key=lambda line: line.mean)
        random = max((line for line in here if line.method == RANDOM), key=lambda line: line.mean, default=None)
        found.append(
            Comparison(
                ratio,
                best,
                len(scored),
                random,
                full,
                None if random is None else difference(best, random, here, test_samples, len(scored)),
                None if full is None else difference(best, full, here, test_samples, len(scored)),
            )
        )
    return found


def headline(comparisons: Sequence[Comparison], data: str, samples: int) -> str:
    """What came out, in two sentences: what removing data costs, and whether random selection would do as well.

    The ratio spoken of is the largest that costs at most one point, or else the smallest there is.
    """
    if not comparisons:
        return f"Nothing has been retrained on a pruned {data} yet, so nothing can be said about accuracy."
    close = [one for one in comparisons if one.against_full and one.against_full.points >= -CLOSE]
    chosen = close[-1] if close else comparisons[0]
    removed, name = percent(chosen.ratio), chosen.best.name
    kept = count_of(kept_count(samples, chosen.ratio), "sample")
    reaches = f"trained on the {kept} that {name} keeps, the network reaches {chosen.best.mean:.1f} %"
    if chosen.full is None or chosen.against_full is None:
        first = f"With {removed} of {data} removed, {reaches}; training on all data has not been measured."
    else:
        beside = f"{_side(chosen.against_full.points)} all data ({chosen.full.mean:.1f} %)"
        if close:
            first = f"{removed} of {data} {_certainty(chosen.against_full)}: {reaches}, {beside}."
        else:
            first = f"Removing data costs accuracy here: with {removed} of {data} removed, {reaches}, {beside}."
    return f"{first} {_beside_random(chosen)}"


def _certainty(against_full: Difference) -> str:
    if against_full.margin is None:
        return "may be able to go"
    return "can go" if against_full.points - against_full.margin >= -CLOSE else "can probably go"


def _side(points: float) -> str:
    if abs(points) < 0.05:
        return "the same as"
    return f"{abs(points):.1f} {'point' if f'{abs(points):.1f}' == '1.0' else 'points'} {_direction(points)}"


def _direction(points: float) -> str:
    return "above" if points > 0 else "below"


def _beside_random(chosen: Comparison) -> str:
    if chosen.random is None or chosen.against_random is None:
        return "Random selection of the same size has not been measured beside it."
    baseline = f"random selection of the same size ({chosen.random.mean:.1f} %)"
    seeds = min(len(chosen.best.accuracies), len(chosen.random.accuracies))
    match chosen.against_random.verdict:
        case "unknown":
            side = _side(chosen.against_random.points)
            return f"That is {side} {baseline}, but a single seed cannot tell merit from chance."
        case "level":
            side = _side(chosen.against_random.points)
            return f"That is {side} {baseline}: no difference that {count_of(seeds, 'seed')} can tell from chance."
        case "above":
            return f"That is {_side(chosen.against_random.points)} {baseline}."
        case "below":
            return f"But that is {_side(chosen.against_random.points)} {baseline}, which is the better choice here."


def tally(comparisons: Sequence[Comparison]) -> str:
    """How the best pairs fare against random selection over all ratios, wins and losses alike."""
    verdicts = [one.against_random.verdict for one in comparisons if one.against_random is not None]
    if not verdicts or "unknown" in verdicts:
        return ""
    counts = {verdict: verdicts.count(verdict) for verdict in ("above", "level", "below")}
    return (
        f"Over {count_of(len(verdicts), 'ratio')}, the best method beats random selection of the same size at "
        f"{counts['above']}, cannot be told apart from it at {counts['level']}, and loses to it at {counts['below']}."
    )
