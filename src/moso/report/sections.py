"""What each section of the page says, gathered from the run directory; nothing here knows HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import spearmanr

from moso.errors import MosoError
from moso.evaluation.summary import Line
from moso.methods import find_method
from moso.report.findings import RANDOM, Comparison
from moso.report.pictures import Album, Strip, strips
from moso.report.plots import DARK, LIGHT, accuracy_figure, drawn_at_random, plotted_scores, scores_figure
from moso.report.wording import count_of, duration, percent
from moso.run.cells import FULL
from moso.run.costs import costs
from moso.run.originals import Originals
from moso.run.reading import CUSTOM, Run
from moso.run.selections import Selection, read_selection
from moso.selection import kept_count

# More classes than this are not all listed: the ones kept least and most are.
LISTED_CLASSES = 20
# What makes the text of a plot as large as that of the page.
PIXELS_AN_INCH = 104

_INTERVALS = (
    " with 95 % intervals over seeds, their spread pooled over all methods at the ratio, and widened because the best "
    "of several is shown; a difference inside its interval may be chance"
)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Plot:
    """A plot in both themes, and what it shows in words for those who cannot see it."""

    light: Figure
    dark: Figure
    description: str

    @property
    def width(self) -> int:
        """How wide the page shows it, in its own pixels."""
        return round(self.light.get_figwidth() * PIXELS_AN_INCH)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy, or what takes its place, by pair and ratio, and the best pair's standing at each ratio."""

    title: str
    plot: Plot
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str], Sequence[bool]]]
    full: str
    note: str
    comparisons: Sequence[Comparison]
    comparison_note: str


def seeds_of(rows: Sequence[Line]) -> str:
    """How many seeds stand behind the numbers, honestly where it is not the same for all."""
    counts = sorted({len(row.values) for row in rows})
    return count_of(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def accuracy(run: Run, rows: Sequence[Line], comparisons: Sequence[Comparison]) -> Accuracy:
    """The section about accuracy, or what takes its place."""
    measure = rows[0].measure
    c, samples = run.configuration, run.manifest["dataset"]["train"]
    found = {(row.method, row.selector, row.ratio): row for row in rows if row.method != FULL}
    ratios = sorted({ratio for _, _, ratio in found})
    best = {ratio: measure.best(row.mean for key, row in found.items() if key[2] == ratio) for ratio in ratios}
    table = []
    for pair in dict.fromkeys((row.method, row.selector) for row in rows if row.method != FULL):
        cells = [found.get((*pair, ratio)) for ratio in ratios]
        name = next(cell.name for cell in cells if cell is not None)
        texts = [cell.text if cell else "" for cell in cells]
        marks = [cell is not None and cell.mean == best[cell.ratio] for cell in cells]
        table.append((name, texts, marks))
    full = next((row for row in rows if row.method == FULL), None)
    single = all(len(row.values) == 1 for row in rows)
    of_seeds = "one seed" if single else f"mean ± standard deviation of {seeds_of(rows)}"
    title = measure.title[0].upper() + measure.title[1:]
    better = "" if measure.better == "higher" else "; lower is better"
    what = f"{title} on the test data{' in %' if measure.unit == '%' else ''}, {of_seeds}{better}."
    network = c.retrain_model or c.model
    how = f"Network {network}, recipe {c.recipe}; every retraining gets equal {c.match}."
    plot = f"{measure.title} on the test against the share removed"
    return Accuracy(
        title,
        Plot(accuracy_figure(rows), accuracy_figure(rows, theme=DARK), plot),
        [f"{percent(ratio)} removed, {kept_count(samples, ratio):,} kept" for ratio in ratios],
        table,
        "" if full is None else full.text,
        f"{what} {how} The best at each ratio is bold.",
        comparisons,
        f"Differences in {'points of ' if measure.unit == '%' else ''}{measure.title}{'' if single else _INTERVALS}. "
        "The baseline is the better of the random selections.",
    )


def main_pair(run: Run, rows: Sequence[Line]) -> Pair:
    """The pair the page looks at closely: the most accurate over all ratios, or the run's first without accuracies."""
    scored: dict[Pair, list[float]] = {}
    for row in rows:
        if row.method not in (FULL, RANDOM):
            scored.setdefault((row.method, row.selector), []).append(row.merit)
    if scored:
        most = max(len(means) for means in scored.values())
        return max((p for p in scored if len(scored[p]) == most), key=lambda pair: sum(scored[pair]))
    selected = {(one.method, one.selector) for one in run.selections()}
    pairs = run.configuration.pairs()
    return next((pair for pair in pairs if pair in selected and pair[0] != RANDOM), pairs[0])


@dataclass(frozen=True)
class Cost:
    """What pruning cost, and at each ratio what a training takes and when pruning has paid for itself."""

    sentence: str
    rows: Sequence[tuple[str, str, str, str]]


def cost(run: Run) -> Cost | None:
    """The section about time; None before anything was computed."""
    spent = costs(run.directory, run.configuration)
    if not spent.surrogates and not spent.scoring and not spent.retraining:
        return None
    sentence = (
        f"Pruning cost {duration(spent.surrogates + spent.scoring)} of computation under one seed: "
        f"{duration(spent.surrogates)} to train the surrogates and {duration(spent.scoring)} to score."
    )
    if spent.all_retrainings:
        sentence += f" The proof cost {duration(spent.all_retrainings)}: all retrainings of this run."
    rows = []
    for ratio, seconds in spent.retraining.items():
        saved = spent.retraining.get(0.0, seconds) - seconds
        after = spent.paid_after(ratio)
        paid = "never: it trains no faster" if after is None else count_of(after, "retraining")
        known = ratio > 0 and 0.0 in spent.retraining
        what = percent(ratio) if ratio > 0 else "nothing"
        rows.append((what, duration(seconds), duration(max(0.0, saved)) if known else "", paid if known else ""))
    return Cost(sentence, rows)


@dataclass(frozen=True)
class ScoreRow:
    """One score in a few numbers."""

    name: str
    lowest: str
    median: str
    highest: str
    below_zero: str
    agreement: str
    found: str


@dataclass(frozen=True)
class Scores:
    """Histograms, and a row a score."""

    plot: Plot
    rows: Sequence[ScoreRow]
    noise: int
    noise_share: str


def scores(run: Run) -> Scores | None:
    """The section about scores; None before there are any."""
    values = plotted_scores(run)
    if not values:
        return None
    drawn = drawn_at_random(run)
    others = [other for seed in run.configuration.all_seeds()[1:] if (other := run.scores(seed))]
    rows = [_score_row(name, own, drawn, [o[name] for o in others if name in o]) for name, own in values.items()]
    noise = 0 if drawn is None else int(drawn.sum())
    light, dark = (scores_figure(values, drawn=drawn, theme=theme) for theme in (LIGHT, DARK))
    share = "" if drawn is None else percent(round(noise / len(drawn), 3))
    return Scores(Plot(light, dark, "histogram of every score"), rows, noise, share)


def _score_row(
    name: str, values: NDArray[np.float64], drawn: NDArray[np.bool_] | None, others: list[NDArray[np.float64]]
) -> ScoreRow:
    # A constant column has no ranks to correlate.
    usable = [other for other in others if np.ptp(values) > 0 and np.ptp(other) > 0]
    agreement = [float(spearmanr(values, other).statistic) for other in usable]
    found = ""
    if drawn is not None:
        lowest = np.argsort(values, kind="stable")[: int(drawn.sum())]
        found = percent(round(float(drawn[lowest].mean()), 3))
    return ScoreRow(
        name,
        f"{values.min():.3g}",
        f"{float(np.median(values)):.3g}",
        f"{values.max():.3g}",
        percent(round(float((values < 0).mean()), 3)),
        f"{np.mean(agreement):.2f}" if agreement else "",
        found,
    )


@dataclass(frozen=True)
class Samples:
    """Samples to look at, and why they cannot be seen if they cannot."""

    strips: Sequence[Strip]
    without_pictures: str


def samples(run: Run, main: Pair) -> Samples | None:
    """The section that shows samples; None before there are scores."""
    values = plotted_scores(run)
    if not values:
        return None
    wanted = find_method(main[0]).score
    chosen = wanted if wanted in values else next(iter(values))
    try:
        found = strips(Album(run, Originals.open(run.configuration)), values, chosen)
    except (MosoError, OSError) as problem:
        return Samples(strips(Album(run, None), values, chosen), f"The samples cannot be shown: {problem}.")
    if not any(sample.picture or sample.text for strip in found for sample in strip.samples):
        return Samples(found, "The inputs are neither pictures nor texts, so samples are named by id and label.")
    return Samples(found, "")


@dataclass(frozen=True)
class Classes:
    """The share of each class that is kept at each ratio."""

    pair: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, int, Sequence[float]]]
    note: str


def classes(run: Run, main: Pair) -> Classes | None:
    """The section about classes; None where there are none, or before the main pair has selected anything."""
    c = run.configuration
    if c.classless:
        return None
    own = [one for one in run.selections() if (one.method, one.selector) == main and one.seed == c.seed]
    if not own:
        return None
    own.sort(key=lambda one: one.ratio)
    labels, names = run.table()["label"].to_numpy(), run.manifest["dataset"]["classes"]
    counts = np.bincount(labels, minlength=len(names))
    kept = np.stack([_kept_by_class(run, one, labels, len(names)) for one in own])
    shares = kept / np.maximum(counts, 1)
    present = np.flatnonzero(counts)
    note = ""
    if len(present) > LISTED_CLASSES:
        half = LISTED_CLASSES // 2
        order = present[np.argsort(shares[-1, present], kind="stable")]
        present = np.concatenate([order[:half], order[-half:]])
        note = f"The {half} classes that are kept least and the {half} kept most of {len(names):,}, by the last column."
    rows = [(names[one], int(counts[one]), shares[:, one].tolist()) for one in present.tolist()]
    return Classes(f"{main[0]} ({main[1]})", [f"{percent(one.ratio)} removed" for one in own], rows, note)


def _kept_by_class(run: Run, selection: Selection, labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.bincount(labels[read_selection(run.directory.root, selection)], minlength=count)


def missing(run: Run, rows: Sequence[Line]) -> list[str]:
    """What a finished run has and this one has not, a sentence each."""
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
        there, planned = len(run.evaluation()), c.seeds * (1 + len(c.pairs()) * len(c.ratios))
        found.append(f"{there:,} of {count_of(planned, 'retraining')} are done: moso evaluate does the rest.")
    return found


def facts(run: Run) -> list[str]:
    """The run in a few words."""
    c, described = run.configuration, run.manifest.get("dataset")
    found = []
    if described:
        found.append(f"{count_of(described['train'], 'sample')} to train on")
        found.append(f"{described['test']:,} to test on")
        found.append(_what_is_learned(described))
    if c.label_noise:
        found.append(f"{percent(c.label_noise)} of labels drawn at random")
    if c.labels:
        found.append("labels replaced")
    return [*found, f"network {c.model}", count_of(c.seeds, "seed")]


def _what_is_learned(described: dict[str, Any]) -> str:
    if described["classes"]:
        return count_of(len(described["classes"]), "class")
    return count_of(described["outputs"], "number") + " to predict" if described["numbers"] else "no classes"


def settings(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """What was run, in tables of names and values."""
    c, described = run.configuration, run.manifest.get("dataset", {})
    data = [("data set", "in memory" if c.dataset == CUSTOM else c.dataset)]
    if described:
        fingerprints = ", ".join(f"{split} {value}" for split, value in described["fingerprint"].items())
        data += [
            ("samples", f"{described['train']:,} to train on, {described['test']:,} to test on"),
            ("learned", _what_is_learned(described)),
            ("one input", _input(described)),
            ("labels drawn at random", f"{len(described['labels_drawn_at_random']):,}"),
            ("fingerprint", fingerprints),
        ]
    data += [(name, str(value)) for name, value in (("labels from", c.labels), ("resized to", c.resize)) if value]
    method = [
        ("surrogate's network", c.model),
        ("retrained network", c.retrain_model or c.model),
        ("partitions", str(c.partitions)),
        ("time steps", f"{c.time_steps}, {c.sampling}"),
        ("form of the score", c.form),
        ("parameters compared", c.parameters),
        ("methods", ", ".join(f"{method} ({selector})" for method, selector in c.pairs())),
        ("shares removed", ", ".join(percent(ratio) for ratio in c.ratios)),
        ("seeds", ", ".join(str(seed) for seed in c.all_seeds())),
        ("retraining on less gets equal", c.match),
    ]
    machine = [("computed on", f"{c.device}, {count_of(c.threads, 'thread')} a training")]
    machine += [(name, str(value)) for name, value in run.manifest.get("machine", {}).items()]
    machine += [(name, str(value)) for name, value in run.manifest.get("versions", {}).items()]
    return [("Data", data), ("Scoring and proof", method), ("Machine and versions", machine)]


def _input(described: dict[str, Any]) -> str:
    size = " x ".join(str(size) for size in described["shape"])
    words = described["vocabulary"]
    return size if words is None else f"{size} tokens, of {words:,} known"


def recipes(run: Run) -> list[tuple[str, str, str]]:
    """Every setting of training: its name, the surrogates' value, the retrainings' value."""
    c = run.configuration
    surrogate, retraining = c.surrogate.model_dump(), c.retraining.model_dump()
    return [(name.replace("_", " "), _value(surrogate[name]), _value(retraining[name])) for name in surrogate]


def _value(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
