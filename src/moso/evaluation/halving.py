"""The choice among candidates that were tried on held-out data: rounds of halving, and a winner that is clearly better.

A trial gives one value per candidate and fold (a part of the data that is held out). All candidates are tried on the
same folds, so differences are paired by fold. Random selection is always among the candidates and never leaves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moso.evaluation.paired import PairedDifference, paired_difference
from moso.tasks.metric import Measure

# One value per fold.
ByFold = Mapping[int, float]


@dataclass(frozen=True)
class Verdict:
    """The outcome of all rounds.

    Attributes:
        winner: Name of the candidate to take; random selection if nothing is clearly better.
        differences: Paired difference to random selection of every other candidate, over the folds it was tried on.
        finalists: Candidates that were tried on all folds, without random selection, the best first.
    """

    winner: str
    differences: Mapping[str, PairedDifference]
    finalists: tuple[str, ...]


def fold_rounds(folds: int) -> list[tuple[int, ...]]:
    """Return the folds of each of three rounds: the first round sees enough to halve by, the last sees what is left.

    Example:
        >>> fold_rounds(5), fold_rounds(3)
        ([(0, 1), (2,), (3, 4)], [(0,), (1,), (2,)])
    """
    first = 2 if folds > 3 else 1
    return [tuple(range(first)), (first,), tuple(range(first + 1, folds))]


def survivors(values: Mapping[str, ByFold], random: str, measure: Measure) -> list[str]:
    """Return the better half of the candidates by mean gain over random selection, in their order, random included.

    At least two others survive, so that the last round compares.

    Args:
        values: Values by candidate, then by fold; the candidate that is preferred among level ones first.
        random: Name of the candidate that is random selection.
        measure: The metric of the values.

    Example:
        >>> from moso.tasks.metric import ACCURACY
        >>> values = {"random": {0: 50.0}, "a": {0: 51.0}, "b": {0: 49.0}, "c": {0: 53.0}, "d": {0: 52.0}}
        >>> survivors(values, "random", ACCURACY)
        ['random', 'c', 'd']
    """
    others = [name for name in values if name != random]
    found = {name: _difference(values[name], values[random], measure).gain for name in others}
    best = sorted(others, key=lambda name: -found[name])[: max(2, -(-len(others) // 2))]
    return [name for name in values if name == random or name in best]


def decide(
    values: Mapping[str, ByFold], random: str, measure: Measure, held_out: int, finalists: Sequence[str]
) -> Verdict:
    """Choose among the finalists.

    A finalist whose 95 % interval of the difference to random selection is above zero counts as better; the best of
    these wins, unless one that is preferred (earlier in order) is level with it. The interval is not corrected for the
    number of finalists: taking a candidate that is only as good as random selection does no harm.

    Args:
        values: Values by candidate, then by fold; the candidate that is preferred among level ones first.
        random: Name of the candidate that is random selection.
        measure: The metric of the values.
        held_out: Number of samples of a fold, below which differences are not resolved.
        finalists: Names of the candidates that were tried on all folds.

    Example:
        >>> from moso.tasks.metric import ACCURACY
        >>> values = {"random": {0: 50.0, 1: 51.0}, "a": {0: 53.0, 1: 54.1}, "b": {0: 50.5, 1: 50.6}}
        >>> decide(values, "random", ACCURACY, 1000, ["random", "a", "b"]).winner
        'a'
    """
    others = [name for name in values if name != random]
    differences = {name: _difference(values[name], values[random], measure, held_out) for name in others}
    ranked = sorted((name for name in finalists if name != random), key=lambda name: -differences[name].gain)
    better = [name for name in ranked if is_clearly_better(differences[name])]
    if not better:
        return Verdict(random, differences, tuple(ranked))
    best = better[0]
    for name in others:  # the preferred first
        if name in better and not is_clearly_better(_difference(values[best], values[name], measure, held_out)):
            return Verdict(name, differences, tuple(ranked))
    return Verdict(best, differences, tuple(ranked))


def is_clearly_better(difference: PairedDifference) -> bool:
    """Return whether the whole 95 % interval is on the better side of zero; never for a single pair."""
    return difference.gain - difference.margin > 0


def _difference(first: ByFold, second: ByFold, measure: Measure, held_out: int = 0) -> PairedDifference:
    found = paired_difference(first, second, measure=measure, test_samples=held_out)
    assert found is not None, "every candidate is tried on the first fold"
    return found
