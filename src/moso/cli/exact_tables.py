"""The output of `moso exact`: tables for people, JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import typer
from rich.table import Table

from moso.analysis.wording import duration
from moso.cli.printed_tables import console
from moso.data.samples import Samples
from moso.evaluation.statistics import PowerLaw
from moso.exact.cost import ExactCost
from moso.exact.records import Setting, measured, table_of, without_nan
from moso.exact.study import Comparison, Study

SHOWN = 5


def print_comparison(about: Setting, train: Samples, comparison: Comparison) -> None:
    """Print the correlations of every approximation, and the samples with the highest and lowest exact scores."""
    out, exact, bound = console(), comparison.exact, comparison.bound
    table = Table(
        title=f"approximations against the exact score: {about}, {bound.steps} steps x {bound.learning_rate:g}"
    )
    for name in ("score", "Spearman [95 %]", "Pearson [95 %]", "error / spread", "largest error"):
        table.add_column(name, justify="left" if name == "score" else "right")
    for name, spearman in comparison.spearman.items():
        error = comparison.errors.get(name)
        shown = ("", "") if error is None else (f"{error.relative:.3f}", f"{error.largest:.3g}")
        table.add_row(name, str(spearman), str(comparison.pearson[name]), *shown)
    out.print(table)
    out.print(
        f"{len(exact.scores)} samples left out in {duration(exact.seconds)}; {exact.positive_share:.1%} of the exact "
        f"scores are above zero; their spread is {exact.scores.std():.3g}, the largest {np.abs(exact.scores).max():.3g}"
    )
    out.print(
        f"Proposition 1.2: error at most {bound.value:.3g} (l = {bound.lipschitz:.3g}, g = {bound.gradient_norm:.3g}), "
        f"found {comparison.errors['moso'].largest:.3g}; approximation from {comparison.time_steps} time steps"
    )
    rows = Table(title="true beside approximate: highest and lowest exact scores")
    for name in ("id", "label", "exact", *comparison.approximations):
        rows.add_column(name, justify="left" if name in ("id", "label") else "right")
    order = np.argsort(-exact.scores, kind="stable").tolist()
    ends = order if len(order) <= 2 * SHOWN else [*order[:SHOWN], *order[-SHOWN:]]
    for place, number in enumerate(ends):
        position = int(exact.left_out[number])
        values = (exact.scores[number], *(values[number] for values in comparison.approximations.values()))
        label = train.classes[int(train.labels[position])]
        end_section = len(order) > 2 * SHOWN and place == SHOWN - 1
        rows.add_row(
            str(train.ids[position].as_py()), label, *(f"{value:.3g}" for value in values), end_section=end_section
        )
    out.print(rows)


def print_study(about: Setting, result: Study) -> None:
    """Print the accuracy of the approximation over learning rates and steps."""
    out = console()
    table = Table(title=f"exact leave-one-out: {about}")
    names = ("rate", "steps", "Spearman [95 %]", "Pearson", "error / spread", "centred", "largest", "M > 0", "bound")
    for name in names:
        table.add_column(name, justify="right")
    for comparison in result.comparisons:
        bound, error = comparison.bound, comparison.errors["moso"]
        table.add_row(
            f"{bound.learning_rate:g}",
            str(bound.steps),
            str(comparison.spearman["moso"]),
            f"{comparison.pearson['moso'].value:.3f}",
            f"{error.relative:.2f}",
            f"{comparison.errors['moso-centred'].relative:.3f}",
            f"{error.largest:.2g}",
            f"{comparison.exact.positive_share:.0%}",
            f"{bound.value:.3g}",
        )
    out.print(table)
    out.print(
        "error: root mean square of M - M_hat for Proposition 1.1, in standard deviations of the exact scores; "
        "centred: the same for the centred form; largest: |M - M_hat|; bound: Proposition 1.2 with measured constants"
    )
    for name, law in result.growth.items():
        powers = " * ".join(f"{factor}^{power:.2f}" for factor, power in law.exponents.items())
        out.print(f"relative error of {name} grows like {powers} (R^2 = {law.r_squared:.2f})")
    seconds = sum(comparison.exact.seconds for comparison in result.comparisons)
    out.print(f"{len(result.comparisons)} settings, all retrainings in {duration(seconds)}")


def print_cost(about: Setting, cost: ExactCost, as_json: bool) -> None:
    """Print the cost of Definition 1 beside that of MoSo, as a table or as JSON."""
    if as_json:
        sums = {name: getattr(cost, name) for name in ("one_training", "moso", "one_after_another", "side_by_side")}
        typer.echo(json.dumps({"setting": asdict(about), **asdict(cost), **sums}, indent=2))
        return
    table = Table(title=f"what exact scores would cost: {about}")
    for name in ("what", "time", "against MoSo"):
        table.add_column(name, justify="left" if name == "what" else "right")
    rows = [
        (f"one training, {cost.steps:,} steps", cost.one_training),
        (f"MoSo: that training and {cost.time_steps} scored time steps", cost.moso),
        (f"exact: {cost.samples:,} retrainings, one after another", cost.one_after_another),
    ]
    if cost.networks > 1:
        rows.append((f"exact: the same, {cost.networks} networks side by side", cost.side_by_side))
    for what, seconds in rows:
        times = seconds / cost.moso
        table.add_row(what, duration(seconds), f"{times:.2g} x" if times < 10 else f"{times:,.0f} x")
    out = console()
    out.print(table)
    out.print("from a few real steps on this machine; the paper: ImageNet-1K on one Tesla V100, more than 45 years")


def print_json(
    about: Setting, train: Samples, comparisons: Sequence[Comparison], growth: Mapping[str, PowerLaw] | None
) -> None:
    """Print all measurements as one JSON object; NaN and infinity become null."""
    value: dict[str, Any] = {"setting": asdict(about), "comparisons": [measured(one) for one in comparisons]}
    if growth is not None:
        value["growth"] = {name: asdict(law) for name, law in growth.items()}
    else:
        value["samples"] = table_of(train, comparisons, grid=False).to_pylist()
    typer.echo(json.dumps(without_nan(value), indent=2, allow_nan=False))
