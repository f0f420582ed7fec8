"""How well scores of one estimator agree with those of another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from benchmarks.estimators.problems import Problem
from benchmarks.estimators.terms import EXACT, Terms
from moso.evidence import PartitionTerms
from moso.scores import agreement, moso_rank_score, moso_score
from moso.selection import select

SCORES = {"moso": moso_score, "moso-rank": moso_rank_score}
SELECTORS = ("balanced", "top")
RATIOS = (0.2, 0.5, 0.8)
RANDOM = "random order"
DRAWS = 20

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """An estimator beside the exact one.

    `step` is the rank correlation at one and the same time step, median over steps; `scores` that of the two scores;
    `overlap` the share of what the exact score keeps that this one keeps too, by score, selector and ratio; `wrong` the
    share of pairs of a wrong and a right label that the score puts in this order.
    """

    title: str
    step: float | None
    scores: dict[str, float]
    overlap: dict[str, dict[str, list[float]]]
    wrong: dict[str, float]


def rows(problem: Problem, terms: Terms) -> list[dict[str, Any]]:
    """A row an estimator, the exact one first and a random order last."""
    exact = terms.by_title[EXACT]
    reference = {name: score(exact) for name, score in SCORES.items()}
    found = []
    for title, part in terms.by_title.items():
        own = {name: score(part) for name, score in SCORES.items()}
        found.append(_row(problem, title, reference, own, _step(exact, part)))
    draws = []
    for number in range(DRAWS):
        random = np.random.default_rng((problem.seed, number)).random(len(problem.positions))
        draws.append(vars(_row(problem, RANDOM, reference, dict.fromkeys(SCORES, random), 0.0)))
    return [*(vars(row) for row in found), _mean(draws)]


def _mean(values: list[Any]) -> Any:
    """The mean of several results of one shape, number by number."""
    one = values[0]
    if isinstance(one, dict):
        return {name: _mean([value[name] for value in values]) for name in one}
    if isinstance(one, list):
        return [_mean(list(parts)) for parts in zip(*values, strict=True)]
    return one if isinstance(one, str) else float(np.mean(values))


def _row(problem: Problem, title: str, exact: dict[str, Values], own: dict[str, Values], step: float | None) -> Row:
    overlaps = {
        name: {selector: [_overlap(problem, exact[name], own[name], selector, ratio) for ratio in RATIOS]
               for selector in SELECTORS}
        for name in SCORES
    }  # fmt: skip
    wrong = problem.wrong
    found = {} if wrong is None else {name: area(own[name], wrong) for name in SCORES}
    return Row(title, step, {name: _rank(exact[name], own[name]) for name in SCORES}, overlaps, found)


def _step(exact: PartitionTerms, other: PartitionTerms) -> float | None:
    mine = {step.step: agreement(step) for step in other.steps}
    pairs = [(agreement(step), mine[step.step]) for step in exact.steps if step.step in mine]
    return float(np.median([_rank(one, two) for one, two in pairs])) if len(pairs) == len(exact.steps) else None


def _overlap(problem: Problem, exact: Values, own: Values, selector: str, ratio: float) -> float:
    kept = [set(select(one, ratio=ratio, labels=problem.labels, selector=selector).tolist()) for one in (exact, own)]
    return len(kept[0] & kept[1]) / len(kept[0])


def _rank(one: Values, other: Values) -> float:
    return float(spearmanr(one, other)[0])


def area(scores: Values, wrong: NDArray[np.bool_]) -> float:
    """The area under the curve of wrong labels found from the lowest score on: 0.5 is chance, 1 finds all first.

    >>> area(np.array([0.1, 0.5, 0.9]), np.array([True, False, False]))
    1.0
    """
    ranks = rankdata(scores)
    count, of = int(wrong.sum()), len(wrong)
    return float(1 - (ranks[wrong].sum() - count * (count + 1) / 2) / (count * (of - count)))
