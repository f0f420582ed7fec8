"""The headline claims what the numbers show and no more."""

import pytest

from moso.evaluation.summary import Line
from moso.report.findings import compare, difference, headline, tally
from moso.tasks.metric import LOSS, R_SQUARED


def line(method: str, ratio: float, *accuracies: float, selector: str = "balanced") -> Line:
    return Line(method, selector, ratio, accuracies)


def said(*rows: Line, samples: int = 1000) -> str:
    return headline(compare(rows, test_samples=1000), "pets", samples)


def around(mean: float, spread: float = 0.2) -> tuple[float, ...]:
    return mean - spread, mean, mean + spread


FULL = line("full", 0.0, *around(97.0), selector="none")


def test_a_clear_win_is_called_one():
    sentence = said(FULL, line("moso", 0.6, *around(96.8)), line("random", 0.6, *around(94.0)))
    assert sentence == (
        "60 % of pets can go: trained on the 400 samples that moso (balanced) keeps, the network reaches 96.8 %, "
        "0.2 points below all data (97.0 %). That is 2.8 points above random selection of the same size (94.0 %)."
    )


def test_a_loss_to_random_is_said():
    sentence = said(FULL, line("moso", 0.6, *around(96.5)), line("random", 0.6, *around(98.5)))
    assert "But that is 2.0 points below random selection" in sentence
    assert "the better choice" in sentence


def test_a_difference_within_the_spread_is_no_difference():
    sentence = said(FULL, line("moso", 0.6, *around(96.8, 2.0)), line("random", 0.6, *around(96.0, 2.0)))
    assert "no difference that 3 seeds can tell from chance" in sentence
    assert "can probably go" in sentence


def test_one_seed_proves_nothing():
    sentence = said(line("full", 0.0, 97.0), line("moso", 0.6, 96.8), line("random", 0.6, 90.0))
    assert "may be able to go" in sentence
    assert "a single seed cannot tell merit from chance" in sentence


def test_lost_accuracy_is_the_first_thing_said():
    sentence = said(FULL, line("moso", 0.4, *around(90.0)), line("moso", 0.8, *around(70.0)))
    assert sentence.startswith("Removing data costs accuracy here: with 40 % of pets removed")
    assert "7.0 points below all data" in sentence


def test_the_largest_ratio_that_costs_little_is_spoken_of():
    rows = [line("moso", ratio, *around(mean)) for ratio, mean in ((0.4, 97.2), (0.6, 96.5), (0.8, 90.0))]
    assert said(FULL, *rows).startswith("60 % of pets can")


def test_what_was_not_measured_is_not_claimed():
    sentence = said(line("moso", 0.6, *around(96.8)))
    assert "training on all data has not been measured" in sentence
    assert "Random selection of the same size has not been measured" in sentence
    assert "Nothing has been retrained" in said(FULL)


def test_the_stronger_random_baseline_is_the_one_to_beat():
    weak, strong = line("random", 0.6, *around(80.0), selector="random"), line("random", 0.6, *around(95.0))
    (found,) = compare([FULL, line("moso", 0.6, *around(96.0)), weak, strong])
    assert found.random == strong


def test_picking_the_best_of_many_widens_the_interval():
    first, second = line("moso", 0.6, *around(96.0)), line("random", 0.6, *around(95.0))
    assert difference(first, second, tried=10).margin > difference(first, second, tried=1).margin


def test_two_seeds_that_agree_by_luck_prove_little():
    first, second = line("moso", 0.6, 96.0, 96.0), line("random", 0.6, 95.9, 95.9)
    assert difference(first, second, test_samples=1000).verdict == "level"


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_student_interval_agrees_with_scipy(spread):
    from scipy.stats import ttest_ind

    first, second = around(96.0, spread), around(94.5, spread)
    interval = ttest_ind(first, second).confidence_interval(0.95)
    own = difference(line("moso", 0.6, *first), line("random", 0.6, *second))
    assert own.points - own.margin == pytest.approx(interval.low)
    assert own.points + own.margin == pytest.approx(interval.high)


def test_wins_and_losses_are_both_counted():
    rows = [FULL]
    for ratio, mean in ((0.4, 97.0), (0.6, 94.0), (0.8, 91.0)):
        rows += [line("moso", ratio, *around(mean)), line("random", ratio, *around(94.0))]
    counted = tally(compare(rows, 1000))
    assert (
        "beats random selection of the same size at 1, cannot be told apart from it at 1, and loses to it at 1"
        in counted
    )


def test_where_less_is_better_a_lower_loss_is_the_win():
    def loss(method: str, ratio: float, mean: float, selector: str = "top") -> Line:
        return Line(method, selector, ratio, around(mean, 0.0002), LOSS)

    rows = [loss("full", 0.0, 0.5, "none"), loss("moso", 0.6, 0.504), loss("moso", 0.8, 0.7), loss("random", 0.6, 0.6)]
    sentence = said(*rows)
    assert sentence == (
        "60 % of pets can go: trained on the 400 samples that moso (top) keeps, the network reaches 0.504 (loss), "
        "0.004 above all data (0.5). That is 0.096 below random selection of the same size (0.6)."
    )
    assert [one.against_random.verdict for one in compare(rows)[:1]] == ["better"]
    assert str(compare(rows)[0].against_full).startswith("+0.004 ± ")
    worse = said(rows[0], loss("moso", 0.6, 0.7), loss("random", 0.6, 0.6))
    assert worse.startswith("Removing data costs something here: with 60 % of pets removed")
    assert "But that is 0.1 above random selection of the same size (0.6), which is the better choice here." in worse


def test_r_squared_is_called_by_its_name():
    rows = [Line("full", "none", 0.0, around(45.0), R_SQUARED), Line("moso", "top", 0.4, around(40.0), R_SQUARED)]
    sentence = said(*rows)
    assert sentence.startswith("Removing data costs R² here")
    assert "the network reaches 40.0 % (R²), 5.0 points below all data (45.0 %)" in sentence
