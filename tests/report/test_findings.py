"""The headline claims what the numbers show and no more."""

from moso.evaluation.standings import Entry, Row, compared
from moso.evaluation.summary import ACCURACY, LOSS, R_SQUARED, Measure
from moso.report.findings import best_of, headline, tally


def line(
    method: str, ratio: float, *values: float, selector: str = "balanced", measure: Measure = ACCURACY, first: int = 0
) -> Entry:
    """What a method reached under the seeds from `first` on."""
    return Entry(method, selector, "{}", ratio, measure, dict(enumerate(values, first)))


def best(*found: Entry) -> list[Row]:
    return best_of(compared(found, test_samples=1000))


def said(*found: Entry, samples: int = 1000) -> str:
    return headline(best(*found), "pets", samples)


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
    moso, random = line("moso", 0.6, *around(96.8, 2.0)), line("random", 0.6, *reversed(around(96.0, 2.0)))
    sentence = said(FULL, moso, random)
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
    (found,) = best(FULL, line("moso", 0.6, *around(96.0)), weak, strong)
    assert found.random == strong


def test_where_seeds_are_not_the_same_those_that_both_have_are_counted():
    moso, random = line("moso", 0.6, 96.0, 96.2, 96.4), line("random", 0.6, 90.0, 90.2, 50.0, first=1)
    sentence = said(FULL, moso, random)
    assert (
        "That is 6.2 points above random selection of the same size (76.7 %) over the 2 seeds that both have"
        in sentence
    )
    apart = said(FULL, moso, line("random", 0.6, *around(90.0), first=7))
    assert "Random selection of the same size has not been measured beside it" in apart


def test_two_seeds_that_agree_by_luck_prove_little():
    assert "2 seeds can tell from chance" in said(line("moso", 0.6, 96.0, 96.0), line("random", 0.6, 95.9, 95.9))


def test_wins_and_losses_are_both_counted():
    rows = [FULL]
    for ratio, mean in ((0.4, 97.0), (0.6, 94.02), (0.8, 91.0)):
        rows += [line("moso", ratio, *around(mean)), line("random", ratio, *around(94.0))]
    counted = tally(best(*rows))
    assert (
        "beats random selection of the same size at 1, cannot be told apart from it at 1, and loses to it at 1"
        in counted
    )


def test_where_less_is_better_a_lower_loss_is_the_win():
    def loss(method: str, ratio: float, mean: float, selector: str = "top") -> Entry:
        return line(method, ratio, *around(mean, 0.0002), selector=selector, measure=LOSS)

    rows = [loss("full", 0.0, 0.5, "none"), loss("moso", 0.6, 0.504), loss("moso", 0.8, 0.7), loss("random", 0.6, 0.6)]
    sentence = said(*rows)
    assert sentence == (
        "60 % of pets can go: trained on the 400 samples that moso (top) keeps, the network reaches 0.504 (loss), "
        "0.004 above all data (0.5). That is 0.096 below random selection of the same size (0.6)."
    )
    assert [one.against_random.verdict for one in best(*rows)[:1]] == ["better"]
    assert str(best(*rows)[0].against_full).startswith("+0.004 ± ")
    worse = said(rows[0], loss("moso", 0.6, 0.7), loss("random", 0.6, 0.6))
    assert worse.startswith("Removing data costs something here: with 60 % of pets removed")
    assert "But that is 0.1 above random selection of the same size (0.6), which is the better choice here." in worse


def test_r_squared_is_called_by_its_name():
    full = line("full", 0.0, *around(45.0), selector="none", measure=R_SQUARED)
    sentence = said(full, line("moso", 0.4, *around(40.0), selector="top", measure=R_SQUARED))
    assert sentence.startswith("Removing data costs R² here")
    assert "the network reaches 40.0 % (R²), 5.0 points below all data (45.0 %)" in sentence
