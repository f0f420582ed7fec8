"""Rounds of halving, and who wins."""

import numpy as np

from moso.evaluation.halving import decide, fold_rounds, survivors
from moso.tasks.metric import ACCURACY, Measure

LOWER = Measure("loss", "", "lower")


def by_fold(*values):
    return dict(enumerate(values))


def test_the_rounds_see_every_fold_once():
    for count in range(3, 9):
        rounds = fold_rounds(count)
        assert [fold for one in rounds for fold in one] == list(range(count))
        assert len(rounds) == 3
        assert all(rounds)


def test_half_of_the_candidates_survive_and_random_always_does():
    draw = np.random.default_rng(0)
    values = {name: by_fold(*draw.normal(50, 1, 2)) for name in ["random", *"abcdefg"]}
    alive = survivors(values, "random", ACCURACY)
    gains = {name: np.mean(list(values[name].values())) for name in "abcdefg"}
    assert alive[0] == "random"
    assert set(alive[1:]) == set(sorted(gains, key=gains.get)[-4:])
    assert alive == [name for name in values if name in alive]  # their order stays
    assert survivors({"random": {0: 1.0}, "a": {0: 0.0}}, "random", ACCURACY) == ["random", "a"]


def test_the_best_wins_if_it_is_clearly_above_random_selection():
    values = {"random": by_fold(50, 51, 52), "a": by_fold(53, 54.1, 54.9), "b": by_fold(55, 56.1, 56.9)}
    found = decide(values, "random", ACCURACY, 10_000, ["a", "b"])
    assert found.winner == "b"
    assert found.finalists == ("b", "a")
    assert found.differences["b"].low > 0


def test_random_selection_wins_where_nothing_is_clear():
    values = {"random": by_fold(50, 51, 52), "a": by_fold(58, 50, 52), "b": by_fold(49, 50, 51)}
    assert decide(values, "random", ACCURACY, 1000, ["a", "b"]).winner == "random"


def test_among_level_candidates_the_first_wins():
    first, better = by_fold(53.0, 54.2, 54.9), by_fold(53.2, 53.9, 55.3)
    values = {"random": by_fold(50, 51, 52), "first": first, "better": better}
    assert np.mean(list(better.values())) > np.mean(list(first.values()))
    assert decide(values, "random", ACCURACY, 1000, ["first", "better"]).winner == "first"
    values = {"random": by_fold(50, 51, 52), "better": better, "first": first}
    assert decide(values, "random", ACCURACY, 1000, ["first", "better"]).winner == "better"


def test_two_folds_that_happen_to_agree_prove_nothing_on_few_samples():
    values = {"random": by_fold(50.0, 50.0), "a": by_fold(52.0, 52.0)}
    assert decide(values, "random", ACCURACY, 20, ["a"]).winner == "random"
    assert decide(values, "random", ACCURACY, 100_000, ["a"]).winner == "a"


def test_a_loss_is_better_when_it_is_lower():
    values = {"random": by_fold(1.0, 1.1, 1.2), "low": by_fold(0.5, 0.61, 0.69), "high": by_fold(1.5, 1.6, 1.7)}
    assert survivors({**values, "more": by_fold(3.0)}, "random", LOWER) == ["random", "low", "high"]
    assert decide(values, "random", LOWER, 100, ["low", "high"]).winner == "low"
