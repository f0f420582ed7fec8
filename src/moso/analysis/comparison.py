"""What a run says about many methods side by side, read from its directory; no data is opened, nothing retrained."""

from collections.abc import Sequence
from dataclasses import dataclass

from moso import errors
from moso.analysis.costs import MethodCost, method_costs
from moso.evaluation.baselines import BASELINES
from moso.evaluation.overlap import Likeness, jaccard, mean_likeness, rank_correlations
from moso.evaluation.standings import RANDOM, Entry, Reach, Row, compared, entries, reaches
from moso.evaluation.summary import FULL, Measure
from moso.evaluation.tolerance import check_tolerance
from moso.results.reading import Run
from moso.results.selections import Selection, read_selection
from moso.run.computed_scores import wanted_scores


@dataclass(frozen=True)
class Comparison:
    """Every method's standing and cost, how much each can remove within `tolerance`, and how alike methods are.

    `overlap` is Jaccard's index of what methods keep, by ratio, and `correlations` Spearman's of their scores; both are
    means over seeds.
    """

    rows: Sequence[Row]
    tolerance: float
    reaches: Sequence[Reach]
    overlap: dict[float, Likeness]
    correlations: Likeness | None
    costs: Sequence[MethodCost]
    samples: int

    @property
    def measure(self) -> Measure:
        """What was measured."""
        return self.rows[0].entry.measure

    @property
    def ratios(self) -> list[float]:
        """The ratios at which something was retrained."""
        return sorted({row.entry.ratio for row in self.rows if row.entry.method != FULL})


def comparison(run: Run, tolerance: float = 1.0) -> Comparison:
    """The comparison that a run's finished retrainings allow."""
    check_tolerance(tolerance)
    found = ordered_entries(run)
    if not found:
        raise errors.StageIncomplete(f"{run.directory} has no retrainings to compare; run `moso evaluate` first")
    described = run.manifest["dataset"]
    return Comparison(
        compared(found, described["test"]),
        tolerance,
        reaches(found, tolerance),
        _overlap(run),
        _correlations(run),
        method_costs(run),
        described["train"],
    )


def ordered_entries(run: Run) -> list[Entry]:
    """The evaluation of a run, seeds gathered: all data, pairs in the order of the configuration, then baselines."""
    order = {pair: number for number, pair in enumerate(run.configuration.pairs())}

    def place(entry: Entry) -> tuple[bool, bool, int, str, float]:
        number = order.get((entry.method, entry.selector), len(order))
        return entry.method != FULL, entry.method in BASELINES, number, entry.name, entry.ratio

    return sorted(entries(run.evaluation()), key=place)


def _overlap(run: Run) -> dict[float, Likeness]:
    """By ratio; over the seeds that have all selections of a ratio, of at least two methods."""
    order = {pair: number for number, pair in enumerate(run.configuration.pairs())}
    everything = sorted(run.selections(), key=lambda one: order.get((one.method, one.selector), len(order)))
    names = _names(everything)
    by_ratio: dict[float, dict[int, dict[str, Selection]]] = {}
    for one in everything:
        own = by_ratio.setdefault(one.ratio, {}).setdefault(one.seed, {})
        own[names[one.method, one.selector, one.parameters]] = one
    found = {}
    for ratio, by_seed in sorted(by_ratio.items()):
        most = max(by_seed.values(), key=len)
        whole = [own for own in by_seed.values() if own.keys() == most.keys()]
        if len(most) > 1:
            found[ratio] = mean_likeness([_kept_in_common(run, {name: own[name] for name in most}) for own in whole])
    return found


def _kept_in_common(run: Run, selections: dict[str, Selection]) -> Likeness:
    return jaccard({name: read_selection(run.directory.root, one) for name, one in selections.items()})


def _names(selections: Sequence[Selection]) -> dict[tuple[str, str, str], str]:
    settings: dict[tuple[str, str], set[str]] = {}
    for one in selections:
        settings.setdefault((one.method, one.selector), set()).add(one.parameters)
    return {
        (method, selector, parameters): f"{method} ({selector})" + (f" {parameters}" if len(own) > 1 else "")
        for (method, selector), own in settings.items()
        for parameters in own
    }


def _correlations(run: Run) -> Likeness | None:
    """Over the seeds that have all scores; None where there are fewer than two."""
    by_seed = []
    for seed in run.configuration.all_seeds():
        own = {name: values for name, values in run.scores(seed).items() if name != RANDOM}
        if own:
            by_seed.append(own)
    if not by_seed:
        return None
    order = wanted_scores(method for method, _ in run.configuration.pairs())
    names = [name for name in by_seed[0] if all(name in own for own in by_seed)]
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    if len(names) < 2:
        return None
    return mean_likeness([rank_correlations({name: own[name] for name in names}) for own in by_seed])
