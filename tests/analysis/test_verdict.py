"""The verdict: made-up retrainings whose answer is computed by hand, and words that claim no more than the numbers."""

import json
import math

import pytest

from moso.analysis.class_changes import class_changes
from moso.analysis.verdict import Verdict, judge
from moso.errors import MosoError
from moso.evaluation.summary import Costs
from moso.tasks.metric import ACCURACY, LOSS, R_SQUARED, Measure

NO_COSTS = Costs(0.0, 0.0, {}, 0.0)


def cells(
    method: str, ratio: float, *values: float, selector: str = "balanced", measure: Measure = ACCURACY, first: int = 0,
    parameters: str = "{}", right: list[int] | None = None, tested: list[int] | None = None,
) -> list[dict]:  # fmt: skip
    """The retrainings of a method under the seeds from `first` on; `right` answers per class are the same for each."""
    each = {"method": method, "selector": selector, "parameters": parameters, "ratio": ratio}
    each |= {"metric": measure.name, "unit": measure.unit, "better": measure.better}
    if right is not None:
        each |= {"class_correct": right, "class_count": tested}
    return [{**each, "seed": first + number, "value": value} for number, value in enumerate(values)]


def around(mean: float, spread: float = 0.2) -> tuple[float, ...]:
    return mean - spread, mean, mean + spread


def judged(*retrainings: list[dict], classes=(), tolerance=1.0, spent=NO_COSTS, samples=1000, test=1000) -> Verdict:
    found = [cell for one in retrainings for cell in one]
    about = {"data": "pets", "samples": samples, "test_samples": test}
    return judge(found, **about, classes=classes, tolerance=tolerance, spent=spent)


FULL = cells("full", 0.0, *around(97.0), selector="none")
SPENT = Costs(60.0, 30.0, {0.0: 30.0, 0.6: 12.0, 0.8: 6.0}, 500.0)


def test_the_numbers_are_those_of_the_paired_differences():
    """By hand: three pairs 2.7, 2.8, 2.9 above random; t(0.975, 2) = 4.3027, standard error 0.1 / sqrt(3)."""
    moso = cells("moso", 0.6, 96.7, 96.8, 96.9)
    found = judged(FULL, moso, cells("random", 0.6, 94.0, 94.0, 94.0), spent=SPENT)
    assert (found.method, found.selector, found.ratio, found.kept) == ("moso", "balanced", 0.6, 400)
    assert found.within_tolerance
    assert found.removable == 0.6
    assert found.beats_random is True
    assert found.against_full.value == pytest.approx(-0.2)
    assert found.against_random.value == pytest.approx(2.8)
    assert found.against_random.margin == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)
    assert found.paid_after == 5  # 90 s of scoring, 18 s saved by a retraining
    assert found.scoring_seconds == 90.0


def test_a_clear_win_is_called_one():
    found = judged(FULL, cells("moso", 0.6, *around(96.8)), cells("random", 0.6, *around(94.0)), spent=SPENT)
    assert found.headline == (
        "60 % of pets can go within 1 point of all data: trained on the 400 samples that moso (balanced) keeps, the "
        "network reaches 96.8 %, 0.2 points below all data (97.0 %). "
        "That is 2.8 ± 0.2 points above random selection of the same size (94.0 %)."
    )
    assert found.sentences[2:] == (
        "That saves 600 samples of 1,000 and 18.0 s of the 30.0 s of a retraining. "
        "Scoring costs 90.0 s, as much as 5 retrainings on the kept 40 % save.",
        "Measured under 3 seeds on 1,000 test samples. Intervals are 95 % of Student's t over the seeds.",
    )
    assert str(found) == " ".join(found.sentences)


def test_the_largest_share_within_the_tolerance_is_named_whatever_the_method():
    rows = [cells("moso", ratio, *around(mean)) for ratio, mean in ((0.4, 97.2), (0.6, 95.5), (0.8, 90.0))]
    other = cells("el2n", 0.6, *around(96.2), selector="top")
    assert (judged(FULL, *rows, other).method, judged(FULL, *rows, other).removable) == ("el2n", 0.6)
    assert (judged(FULL, *rows).method, judged(FULL, *rows).removable) == ("moso", 0.4)
    assert judged(FULL, *rows, tolerance=1.5).removable == 0.6
    assert judged(FULL, *rows, tolerance=7.0).removable == 0.8
    assert judged(FULL, *rows[1:], tolerance=0.0).removable == 0.0
    with pytest.raises(MosoError) as refused:
        judged(FULL, *rows, tolerance=-1.0)
    assert refused.value.code == "setting-invalid"


def test_a_ruined_class_is_in_the_headline_even_where_the_mean_rises():
    """The trial of issue 22: 1.6 points more overall, while a class falls from 78.8 to 41.3 %."""
    tested = [80, 160]
    full = cells("full", 0.0, 82.9, 82.9, 82.9, selector="none", right=[63, 136], tested=tested)
    ruined = cells("moso", 0.4, 84.5, 84.5, 84.5, right=[33, 158], tested=tested)
    found = judged(full, ruined, cells("random", 0.4, 80.0, 80.0, 80.0), classes=("cat", "dog"), spent=SPENT, test=240)
    assert not found.within_tolerance
    assert found.removable == 0.0
    assert found.worst_class.name == "cat"
    assert (found.worst_class.before, found.worst_class.after) == (78.75, 41.25)
    assert found.sentences[0] == (
        "No share that was retrained can go. 40 % cannot: moso (balanced) is 1.6 points above all data overall, but "
        "class cat falls from 78.8 to 41.2 %."
    )
    assert found.paid_after is None
    assert "Scoring costs" not in str(found)
    assert found.to_dict()["class_harmed"] is True


def test_a_smaller_share_that_harms_no_class_is_preferred_and_the_larger_one_told_of():
    tested, classes = [400, 400], ("cat", "dog")
    full = cells("full", 0.0, *around(97.0), selector="none", right=[388, 388], tested=tested)
    mild = cells("moso", 0.4, *around(96.9), right=[387, 388], tested=tested)
    harsh = cells("moso", 0.8, *around(96.5), right=[300, 398], tested=tested)
    found = judged(full, mild, harsh, classes=classes)
    assert (found.removable, found.held_back.ratio, found.worst_class.change) == (0.4, 0.8, pytest.approx(-0.25))
    assert "no class loses more (the worst, cat: 97.0 to 96.8 %)" in found.headline
    assert "80 % cannot" in found.headline
    assert "class cat falls from 97.0 to 75.0 %" in found.headline


def test_the_worst_of_many_small_classes_may_be_chance():
    """One of 20 answers of a class is 5 points; refusing that would refuse to train twice on the same data."""
    tested, classes = [20] * 10, tuple("abcdefghij")
    full = cells("full", 0.0, 95.0, selector="none", right=[19] * 10, tested=tested)
    one_less = cells("moso", 0.5, 94.5, right=[18, *[19] * 9], tested=tested)
    found = judged(full, one_less, classes=classes)
    assert found.within_tolerance
    assert "the worst class, a, goes from 95.0 to 90.0 %, which its 20 test samples leave to chance" in found.headline
    twelve_less = cells("moso", 0.5, 94.5, right=[7, *[19] * 9], tested=tested)
    assert not judged(full, twelve_less, classes=classes).within_tolerance


def test_the_margin_of_a_class_is_that_of_agresti_and_caffo():
    """By hand, one class: shares 64/82 and 34/82, one-sided 95 % quantile of the normal distribution 1.644854."""
    (found,) = class_changes(
        [{"seed": 0, "class_correct": [33], "class_count": [80]}],
        [{"seed": 0, "class_correct": [63], "class_count": [80]}],
        ["cat"],
    )
    error = math.sqrt((64 * 18 + 34 * 48) / 82**3)
    assert found.margin == pytest.approx(100 * 1.644854 * error, rel=1e-5)
    assert found.is_harm(37.5 - found.margin - 0.01)
    assert not found.is_harm(37.5 - found.margin + 0.01)


def test_counts_are_summed_over_the_seeds_that_both_have_and_classes_without_tests_left_out():
    def counted(right: dict[int, list[int]]) -> list[dict]:
        return [{"seed": seed, "class_correct": own, "class_count": [10, 0, 20]} for seed, own in right.items()]

    found = class_changes(
        counted({0: [9, 0, 10], 1: [7, 0, 20], 5: [0, 0, 0]}), counted({0: [10, 0, 20], 1: [10, 0, 10]}), list("abc")
    )
    assert [(one.name, one.before, one.after, one.test_samples) for one in found] == [
        ("a", 100.0, 80.0, 10),
        ("c", 75.0, 75.0, 20),
    ]
    assert class_changes(counted({3: [1, 0, 1]}), counted({4: [1, 0, 1]}), list("abc")) == []
    assert class_changes([{"seed": 0}], [{"seed": 0}], list("abc")) == []


def test_nothing_beats_drawing_at_random():
    moso, random = cells("moso", 0.6, *around(96.8, 2.0)), cells("random", 0.6, *reversed(around(96.0, 2.0)))
    found = judged(FULL, moso, random, spent=SPENT)
    assert found.beats_random is False
    assert found.anything_beats_random is False
    chance = "no difference that 3 seeds can tell from chance. "
    assert f"{chance}Nothing here is shown to beat drawing at random; more seeds may tell." in found.headline
    below = judged(FULL, cells("moso", 0.6, *around(96.8, 2.0)), cells("random", 0.6, *reversed(around(97.0, 2.0))))
    assert f"{chance}Nothing here beats drawing at random." in below.headline
    assert "can probably go" in found.headline
    assert found.paid_after is None
    assert "Random selection saves the same without the 90.0 s of scoring." in str(found)
    assert "Scoring costs" not in str(found)


def test_where_only_the_number_of_comparisons_makes_a_difference_chance_the_words_say_so():
    others = [cells(f"other{number}", 0.6, *around(90.0)) for number in range(9)]
    rows = [cells("moso", 0.6, 96.5, 97.1, 96.8), cells("random", 0.6, 95.1, 95.9, 94.8), *others]
    found = judged(FULL, *rows)
    assert abs(found.against_random.value) > found.against_random.margin
    assert found.beats_random is False
    assert "no difference that 3 seeds, allowing for 10 comparisons, can tell from chance" in found.headline


def test_a_method_that_beats_random_elsewhere_is_not_denied():
    rows = [cells("moso", 0.6, *around(96.5)), cells("random", 0.6, *around(96.5))]
    rows += [cells("moso", 0.8, *around(90.0)), cells("random", 0.8, *around(80.0))]
    found = judged(FULL, *rows)
    assert (found.beats_random, found.anything_beats_random) == (False, True)
    assert "Nothing here beats" not in str(found)


def test_a_loss_to_random_is_said():
    found = judged(FULL, cells("moso", 0.6, *around(96.5)), cells("random", 0.6, *around(98.5)))
    assert "But that is 2.0 ± 0.2 points below random selection" in found.headline
    assert "the better choice" in found.headline
    assert "Nothing here beats drawing at random." in found.headline


def test_random_selection_that_reaches_further_is_named():
    rows = [cells("moso", 0.4, *around(96.8)), cells("moso", 0.6, *around(90.0)), cells("random", 0.4, *around(96.8))]
    found = judged(FULL, *rows, cells("random", 0.6, *around(96.6)))
    assert (found.removable, found.random_ratio) == (0.4, 0.6)
    assert "Random selection stays within the tolerance up to 60 %." in found.sentences
    assert judged(FULL, *rows[:2]).random_ratio is None
    assert judged(FULL, *rows[:2], cells("random", 0.6, *around(50.0))).random_ratio == 0.0


def test_one_seed_has_no_interval_and_the_words_say_so():
    found = judged(cells("full", 0.0, 97.0), cells("moso", 0.6, 96.8), cells("random", 0.6, 90.0), spent=SPENT)
    assert "may be able to go" in found.headline
    assert "a single seed has no interval and cannot tell merit from chance" in found.headline
    assert "±" not in str(found)
    assert found.beats_random is None
    assert found.anything_beats_random is None
    assert found.sentences[-1].startswith("Measured once, on 1,000 test samples")
    told = found.to_dict()
    assert told["against_random"] == {
        "value": pytest.approx(6.8), "low": None, "high": None, "pairs": 1, "verdict": "unknown", "text": "+6.8",
    }  # fmt: skip
    assert json.loads(json.dumps(told, allow_nan=False))["removable"] == 0.6


def test_lost_accuracy_is_the_first_thing_said_and_nothing_is_said_to_be_saved():
    found = judged(FULL, cells("moso", 0.6, *around(90.0)), cells("moso", 0.8, *around(70.0)), spent=SPENT)
    assert found.headline.startswith("Removing data costs accuracy here: with 60 % of pets removed")
    assert "7.0 points below all data" in found.headline
    assert found.ratio == 0.6
    assert found.removable == 0.0
    assert not found.within_tolerance
    assert "save" not in str(found)
    assert "Scoring costs" not in str(found)


def test_what_saves_no_time_is_said_to_save_none():
    slow = Costs(60.0, 30.0, {0.0: 30.0, 0.6: 30.0}, 500.0)
    found = judged(FULL, cells("moso", 0.6, *around(96.8)), cells("random", 0.6, *around(94.0)), spent=slow)
    assert "That saves 600 samples of 1,000, but no training time (30.0 s per retraining)." in found.sentences
    once = Costs(5.0, 5.0, {0.0: 30.0, 0.6: 12.0}, 500.0)
    found = judged(FULL, cells("moso", 0.6, *around(96.8)), cells("random", 0.6, *around(94.0)), spent=once)
    assert "as much as 1 retraining on the kept 40 % saves." in str(found)


def test_what_was_not_measured_is_not_claimed():
    found = judged(cells("moso", 0.6, *around(96.8)))
    assert "training on all data has not been measured" in found.headline
    assert "Random selection of the same size has not been measured" in found.headline
    assert not found.within_tolerance
    assert found.random_ratio is None
    nothing = judged(FULL)
    assert "Nothing has been retrained" in str(nothing)
    assert nothing.method is None
    assert nothing.kept is None
    untested = judged(test=0)
    assert "no labelled test data" in str(untested)
    assert "not known" in str(untested)
    assert json.loads(json.dumps(untested.to_dict(), allow_nan=False))["within_tolerance"] is False


def test_where_seeds_are_not_the_same_those_that_both_have_are_counted():
    moso, random = cells("moso", 0.6, 96.0, 96.2, 96.4), cells("random", 0.6, 90.0, 90.2, 50.0, first=1)
    assert "random selection of the same size (76.7 %) over the 2 seeds that both have" in str(
        judged(FULL, moso, random)
    )
    apart = judged(FULL, moso, cells("random", 0.6, *around(90.0), first=7))
    assert "Random selection of the same size has not been measured beside it" in str(apart)


def test_two_seeds_that_agree_by_luck_prove_little():
    found = judged(cells("moso", 0.6, 96.0, 96.0), cells("random", 0.6, 95.9, 95.9))
    assert "2 seeds can tell from chance" in str(found)


def test_where_less_is_better_a_lower_loss_is_the_win():
    def loss(method: str, ratio: float, mean: float, selector: str = "top") -> list[dict]:
        return cells(method, ratio, *around(mean, 0.0002), selector=selector, measure=LOSS)

    rows = [loss("full", 0.0, 0.5, "none"), loss("moso", 0.6, 0.504), loss("moso", 0.8, 0.7), loss("random", 0.6, 0.6)]
    found = judged(*rows)
    assert found.headline.startswith(
        "60 % of pets can go within 1 % of the loss on all data: trained on the 400 samples that moso (top) keeps, the "
        "network reaches 0.504 (loss), 0.004 above all data (0.5)."
    )
    assert found.beats_random is True
    assert found.worst_class is None
    worse = judged(rows[0], loss("moso", 0.6, 0.7), loss("random", 0.6, 0.6))
    assert worse.headline.startswith("Removing data costs something here: with 60 % of pets removed")
    assert "above random selection of the same size (0.6), which is the better choice here." in worse.headline


def test_r_squared_is_called_by_its_name():
    full = cells("full", 0.0, *around(45.0), selector="none", measure=R_SQUARED)
    found = judged(full, cells("moso", 0.4, *around(40.0), selector="top", measure=R_SQUARED))
    assert found.headline.startswith("Removing data costs R² here")
    assert "the network reaches 40.0 % (R²), 5.0 points below all data (45.0 %)" in found.headline


def test_settings_of_a_selector_tell_rows_apart():
    rows = [
        cells("ccs", 0.6, *around(mean), selector="coverage", parameters=f'{{"cut": {cut}}}')
        for cut, mean in ((0.1, 96.0), (0.2, 96.8))
    ]
    assert judged(FULL, *rows).selector == "coverage (cut=0.2)"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (80.0, "so it is the choice of samples that helps"),
        (99.0, "not to prune costs no more"),
        (90.5, "no better than"),
    ],
)
def test_the_verdict_says_whether_fewer_updates_would_have_done(value, said):
    rows = [cells("full", 0.0, 95, 95.5, 96, selector="none"), cells("random", 0.5, *around(70.0, 0.3))]
    rows.append(cells("moso", 0.5, *around(90.5, 0.3)))
    sentence = str(judged(*rows, cells("rs2", 0.5, *around(value, 0.3), selector="none")))
    assert f"As many updates without any pruning (rs2) reach {value:.1f} %" in sentence
    assert said in sentence
    assert "As many updates" not in str(judged(*rows))
