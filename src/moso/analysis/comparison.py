"""Comparison of the methods of a run, read from its directory without opening data or retraining."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moso import errors
from moso.analysis.costs import MethodCost, method_costs
from moso.analysis.wording import percent
from moso.evaluation.baselines import BASELINES, INFOBATCH
from moso.evaluation.overlap import Likeness, jaccard, mean_likeness, rank_correlations
from moso.evaluation.standings import RANDOM, Entry, Reach, Row, compared, entries, reaches
from moso.evaluation.summary import FULL
from moso.evaluation.tolerance import check_tolerance
from moso.results.reading import Run
from moso.results.selections import Selection, read_selection
from moso.run.computed_scores import wanted_scores
from moso.tasks.metric import Measure


@dataclass(frozen=True)
class Comparison:
    """Standing and cost of every method, how much each can remove within `tolerance`, and how similar methods are.

    Attributes:
        rows: One row per method, selector and ratio.
        tolerance: Accepted loss of the metric, in points.
        reaches: Largest share that each method can remove within `tolerance`.
        overlap: Jaccard index between the kept samples of methods, by ratio, mean over seeds.
        correlations: Spearman correlation between scores, mean over seeds; None with fewer than two scores.
        costs: Seconds and peak memory per method.
        samples: Number of training samples.
        match: What the retrainings of `rows` keep equal.
        others: Rows of further retrainings, by what they keep equal.
        made: One sentence per ratio on what trainings of no fixed length really made.
    """

    rows: Sequence[Row]
    tolerance: float
    reaches: Sequence[Reach]
    overlap: dict[float, Likeness]
    correlations: Likeness | None
    costs: Sequence[MethodCost]
    samples: int
    match: str = "epochs"
    others: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    made: Sequence[str] = ()

    @property
    def by_match(self) -> dict[str, Sequence[Row]]:
        """All rows by what their retrainings keep equal, those of `match` first."""
        return {self.match: self.rows, **self.others}

    @property
    def measure(self) -> Measure:
        """The metric of the retrainings."""
        return self.rows[0].entry.measure

    @property
    def ratios(self) -> list[float]:
        """The ratios of the retrainings, ascending."""
        return sorted({row.entry.ratio for row in self.rows if row.entry.method != FULL})


def comparison(run: Run, tolerance: float = 1.0) -> Comparison:
    """Compare the methods of a run by its finished retrainings.

    Args:
        run: The run.
        tolerance: Accepted loss of the metric, in points.

    Raises:
        MosoError: ``stage-incomplete`` without retrainings; ``setting-invalid``.
    """
    check_tolerance(tolerance)
    found = ordered_entries(run)
    if not found:
        raise errors.StageIncomplete(f"{run.directory} has no retrainings to compare; run `moso evaluate` first")
    described = run.manifest["dataset"]
    others = rows_by_match(run)
    return Comparison(
        others.pop(run.configuration.match),
        tolerance,
        reaches(found, tolerance),
        _overlap(run),
        _correlations(run),
        method_costs(run),
        described["train"],
        run.configuration.match,
        others,
        _really_made(run),
    )


def rows_by_match(run: Run) -> dict[str, list[Row]]:
    """Return the rows of a run by what their retrainings keep equal, those of its `match` first."""
    test = run.manifest["dataset"]["test"]
    return {match: compared(ordered_entries(run, match), test) for match in run.configuration.matches}


def _really_made(run: Run) -> list[str]:
    """Return, per ratio, how many passes and samples the updates of soft pruning came to, mean over seeds."""
    rows = [row for row in run.evaluation() if row["method"] == INFOBATCH]
    found = []
    for ratio in sorted({row["ratio"] for row in rows}):
        own = [row for row in rows if row["ratio"] == ratio]
        passes, visits = (sum(row[name] for row in own) / len(own) for name in ("passes", "visits"))
        found.append(
            f"{INFOBATCH} with {percent(ratio)} removed: {own[0]['updates']:,} updates as the pruned training, "
            f"{passes:.3g} passes, {visits:,.0f} samples met"
        )
    return found


def ordered_entries(run: Run, match: str = "") -> list[Entry]:
    """Return the retrainings of a run grouped over seeds: full data, pairs in configured order, then baselines.

    Args:
        run: The run.
        match: What retrainings keep equal; empty for `match` of the run.
    """
    order = {pair: number for number, pair in enumerate(run.configuration.pairs())}

    def place(entry: Entry) -> tuple[bool, bool, int, str, float]:
        number = order.get((entry.method, entry.selector), len(order))
        return entry.method != FULL, entry.method in BASELINES, number, entry.name, entry.ratio

    return sorted(entries(run.evaluation(match)), key=place)


def _overlap(run: Run) -> dict[float, Likeness]:
    """Return the overlap by ratio, over seeds that have all selections of the ratio; at least two methods."""
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
    """Return the rank correlations of the scores that all seeds have; None with fewer than two scores."""
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
