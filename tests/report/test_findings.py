"""The best method at every ratio, and how often it beats random selection."""

from moso.evaluation.standings import Entry, Row, compared
from moso.report.findings import best_of, tally
from moso.tasks.metric import ACCURACY


def line(method: str, ratio: float, *values: float, selector: str = "balanced") -> Entry:
    """What a method reached under the seeds from 0 on."""
    return Entry(method, selector, "{}", ratio, ACCURACY, dict(enumerate(values)))


def best(*found: Entry) -> list[Row]:
    return best_of(compared(found, test_samples=1000))


def around(mean: float, spread: float = 0.2) -> tuple[float, ...]:
    return mean - spread, mean, mean + spread


FULL = line("full", 0.0, *around(97.0), selector="none")


def test_the_stronger_random_baseline_is_the_one_to_beat():
    weak, strong = line("random", 0.6, *around(80.0), selector="random"), line("random", 0.6, *around(95.0))
    (found,) = best(FULL, line("moso", 0.6, *around(96.0)), weak, strong)
    assert found.random == strong


def test_wins_and_losses_are_both_counted():
    rows = [FULL]
    for ratio, mean in ((0.4, 97.0), (0.6, 94.02), (0.8, 91.0)):
        rows += [line("moso", ratio, *around(mean)), line("random", ratio, *around(94.0))]
    counted = tally(best(*rows))
    assert (
        "beats random selection of the same size at 1, cannot be told apart from it at 1, and loses to it at 1"
        in counted
    )
