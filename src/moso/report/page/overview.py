"""The findings of a run as sentences and small tables, without HTML."""

from collections.abc import Mapping, Sequence
from typing import Any

from moso.analysis.comparison import rows_by_match
from moso.analysis.costs import costs
from moso.analysis.verdict import allowed_loss, verdict_of
from moso.analysis.wording import SEVERAL, count_of, data_name, duration, percent
from moso.configuration import Configuration
from moso.evaluation.matching import match_words
from moso.evaluation.paired import Verdict
from moso.evaluation.standings import RANDOM, Row, is_method, weighted_note
from moso.evaluation.summary import FULL, Line
from moso.methods import known_method
from moso.report.comparison.compare_tables import side_by_side
from moso.report.findings import tally
from moso.report.run_views import best_rows, ordered_entries, ordered_lines, selector_key, with_unique_names
from moso.results.reading import Run

_VERDICTS: dict[Verdict, str] = {
    "better": "better than random",
    "worse": "worse than random",
    "level": "may be chance",
    "unknown": "one seed cannot tell",
}

Pair = tuple[str, str]


def overview(run: Run) -> dict[str, Any]:
    """Return the verdict and its headline, the missing stages, accuracies and costs."""
    rows, best, verdict = ordered_lines(run), best_rows(run), verdict_of(run)
    return {
        "name": data_name(run.configuration.dataset),
        "headline": verdict.headline,
        "verdict": verdict.to_dict(),
        "tally": tally(best),
        "missing": missing(run, rows),
        "accuracy": accuracy(run, rows, best) if rows else None,
        "cost": cost(run, {one.entry.ratio: _in_vain(one, verdict.tolerance) for one in best}),
    }


def accuracy(run: Run, rows: Sequence[Line], best: Sequence[Row]) -> dict[str, Any]:
    """Return the metric as one line per pair with one point per ratio, and the best pair's comparison at each ratio."""
    measure, c = rows[0].measure, run.configuration
    single = all(len(row.values) == 1 for row in rows)
    of_seeds = "one seed" if single else f"mean ± standard deviation of {seeds_of(rows)}"
    title = measure.title[0].upper() + measure.title[1:]
    better = "" if measure.better == "higher" else "; lower is better"
    what = f"{title} on the test data{' in %' if measure.unit == '%' else ''}, {of_seeds}{better}."
    how = f"Network {c.retrained_network}, recipe {c.recipe}; every retraining gets {match_words(c.match)}."
    if c.also_match:
        how += f" Retrainings with {' and '.join(map(match_words, c.also_match))} are in the table below."
    weighted = weighted_note(ordered_entries(run))
    how += f"{weighted and ' '}{weighted}"
    pairs = dict.fromkeys((row.method, row.selector) for row in rows if row.method != FULL)
    keys = {(cell["method"], cell["selector"]): cell["key"] for cell in with_unique_names(run.evaluation())}
    full = next((row for row in rows if row.method == FULL), None)
    return {
        "measure": {"title": measure.title, "unit": measure.unit, "better": measure.better},
        "full": None if full is None else _point(full),
        "lines": [_line([row for row in rows if (row.method, row.selector) == pair], keys[pair]) for pair in pairs],
        "note": f"{what} {how}",
        "by_match": _by_match(run) if c.also_match else None,
        "comparisons": [_comparison(one) for one in best],
        "comparison_note": f"Differences in {'points of ' if measure.unit == '%' else ''}{measure.title}, seed by seed"
        f"{'.' if single else f', with 95 % intervals over seeds. {SEVERAL}'} "
        "The baseline is the better of the random selections.",
    }


def _by_match(run: Run) -> dict[str, Any]:
    """Return the table of every method under everything that retrainings keep equal."""
    found = side_by_side(rows_by_match(run))
    return {"columns": found.columns, "rows": found.rows, "note": found.note}


def _point(row: Line) -> dict[str, Any]:
    return {"ratio": row.ratio, "mean": row.mean, "spread": row.spread, "seeds": len(row.values), "text": row.text}


def _line(rows: Sequence[Line], key: str) -> dict[str, Any]:
    first = rows[0]
    points = [_point(row) for row in sorted(rows, key=lambda row: row.ratio)]
    known = known_method(first.method)
    described = "" if known is None else known.description
    return {"method": first.method, "key": key, "name": first.name, "description": described, "points": points}


def _comparison(one: Row) -> dict[str, Any]:
    verdict = None if one.against_random is None else one.against_random.verdict
    return {
        "ratio": one.entry.ratio,
        "best": one.entry.name,
        "value": one.entry.measure.text(one.entry.line.mean),
        "against_full": "not measured" if one.against_full is None else str(one.against_full),
        "against_random": "not measured" if one.against_random is None else str(one.against_random),
        "verdict": "" if verdict is None else _VERDICTS[verdict],
    }


def seeds_of(rows: Sequence[Line]) -> str:
    """Return the number of seeds behind the numbers in words; a range if it is not the same for all."""
    counts = sorted({len(row.values) for row in rows})
    return count_of(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def main_pair(run: Run) -> Pair:
    """Return the method and selector that the page opens with: the best over all ratios, or else the run's first."""
    scored: dict[Pair, list[float]] = {}
    keys = {(cell["method"], cell["selector"]): cell["key"] for cell in with_unique_names(run.evaluation())}
    for row in ordered_lines(run):
        if is_method(row.method):
            scored.setdefault((row.method, keys[row.method, row.selector]), []).append(row.merit)
    if scored:
        most = max(len(means) for means in scored.values())
        return max((p for p in scored if len(scored[p]) == most), key=lambda pair: sum(scored[pair]))
    selected = {(one.method, selector_key(one.selector, one.parameters)) for one in run.selections()}
    pairs = [(one.method, selector_key(one.selector.name, one.parameters)) for one in run.configuration.choices()]
    return next((pair for pair in pairs if pair in selected and pair[0] != RANDOM), pairs[0])


def score_of(method: str) -> str | None:
    """Return the name of the score that a method ranks by; None if it has none. A user's own score is its own method.

    Example:
        >>> score_of("moso"), score_of("my-own")
        ('moso', 'my-own')
    """
    known = known_method(method)
    return method if known is None else known.score


def _in_vain(row: Row, tolerance: float) -> str:
    """Return why scoring does not pay off at the ratio of its best method, in a few words; empty if it may."""
    if row.against_full is None or row.against_full.gain < -allowed_loss(row, tolerance) - 1e-9:
        return "accuracy is lost"
    known = row.against_random
    words = {"level": "not shown to beat random", "worse": "random is better"}
    return "" if known is None else words.get(known.verdict, "")


def cost(run: Run, in_vain: Mapping[float, str]) -> dict[str, Any] | None:
    """Return the cost of pruning, and of training at each ratio, in seconds; None before anything was computed.

    Args:
        run: The run.
        in_vain: Why scoring does not pay off at a ratio; empty if it may.
    """
    spent = costs(run.directory, run.configuration)
    if not spent.surrogates and not spent.scoring and not spent.retraining:
        return None
    sentence = (
        f"Pruning cost {duration(spent.surrogates + spent.scoring)} of computation per seed: "
        f"{duration(spent.surrogates)} for training surrogates and {duration(spent.scoring)} for scoring."
    )
    if spent.all_retrainings:
        sentence += f" All retrainings of this run, which prove the selection, took {duration(spent.all_retrainings)}."
    rows = []
    for ratio, seconds in spent.retraining.items():
        after, known = spent.paid_after(ratio), ratio > 0 and 0.0 in spent.retraining
        paid = "never: training is no faster" if after is None else count_of(after, "retraining")
        paid = in_vain.get(ratio) or paid
        saved = max(0.0, spent.retraining.get(0.0, seconds) - seconds)
        rows.append(
            [
                percent(ratio) if ratio > 0 else "nothing",
                duration(seconds),
                duration(saved) if known else "",
                paid if known else "",
            ]
        )
    return {
        "sentence": sentence,
        "pruning": spent.surrogates + spent.scoring,
        "training": [[ratio, seconds] for ratio, seconds in spent.retraining.items()],
        "equal": match_words(run.configuration.match).removeprefix("equal "),
        "rows": rows,
    }


def missing(run: Run, rows: Sequence[Line]) -> list[str]:
    """Return one sentence per part that a finished run has and this run has not."""
    manifest, c = run.manifest, run.configuration
    if "dataset" not in manifest:
        return ["The run has not begun: its data was never opened."]
    found = []
    if not run.scores():
        trained = manifest["stages"].get("train", {}).get("complete")
        training = "" if trained else ", and surrogates not all trained"
        found.append(f"Samples are not scored yet{training}: moso score goes on from here.")
    if not run.selections():
        found.append("Nothing is selected yet: moso select does it from scores.")
    if not rows and manifest["dataset"]["test"] == 0:
        found.append("There is no test data, so what is kept cannot be proved by retraining.")
    elif not manifest["stages"].get("evaluate", {}).get("complete"):
        there, planned = len(run.evaluation()), _planned(c)
        found.append(f"{there:,} of {count_of(planned, 'retraining')} are done: moso evaluate does the rest.")
    return found


def _planned(c: Configuration) -> int:
    return c.seeds * (1 + (len(c.pairs()) + len(c.retrained_baselines())) * len(c.ratios))
