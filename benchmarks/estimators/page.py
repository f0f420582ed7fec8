"""The tables of docs/estimators.md, made from what was measured, between two marks that leave the words alone."""

import json
from pathlib import Path
from typing import Any

from benchmarks.estimators.agreement import RATIOS
from benchmarks.estimators.terms import EXACT, IN_RUN
from benchmarks.scoring.page import machine_sentence
from moso.errors import MosoError
from moso.files import write_text

BEGIN, END = "<!-- made by python -m benchmarks.estimators; do not edit -->", "<!-- end of what was made -->"


def write_page(results: Path, page: Path) -> None:
    """Replace what stands between the marks of `page` by tables of the results."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    if not begin or END not in rest:
        raise MosoError(f"{page} has no place for tables: it needs the lines {BEGIN} and {END}")
    tables = tables_of(json.loads(results.read_text(encoding="utf-8")))
    write_text(page, f"{before}{BEGIN}\n\n{tables}\n{END}{rest.partition(END)[2]}")


def tables_of(found: dict[str, Any]) -> str:
    """A section a problem, and one on cost."""
    parts = [_cost_table(found["costs"])] if found["costs"] else []
    parts += [_problem_section(one) for one in found["problems"].values()]
    return "\n".join(parts)


def _cost_table(costs: dict[str, Any]) -> str:
    networks = list(costs)
    titles = list(costs[networks[0]]["epochs"])
    lines = [
        "### Cost",
        "",
        "Training epochs per time step, medians of turns with their quartiles. In-run: how much longer an epoch of "
        "training takes, as a multiple.",
        "",
        f"| estimator | {' | '.join(networks)} |",
        f"| --- |{' --- |' * len(networks)}",
    ]
    for title in sorted(titles, key=lambda title: (title != EXACT, title == IN_RUN)):
        cells = [_spread(costs[network]["epochs"][title]) for network in networks]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for network in networks:
        one = costs[network]
        seconds = one["training_epoch_seconds"]["median"]
        lines += [
            "",
            f"{network}: {one['samples']} samples, training batches of {one['batch']}, an epoch in {seconds:.1f} s. "
            f"{machine_sentence(one['machine'])}",
        ]
    return "\n".join([*lines, ""])


def _spread(value: dict[str, float]) -> str:
    return f"{value['median']:.2f} ({value['lower_quartile']:.2f} to {value['upper_quartile']:.2f})"


def _problem_section(one: dict[str, Any]) -> str:
    noise = f", {one['label_noise']:.0%} of labels drawn at random" if one["label_noise"] else ""
    ratios = " / ".join(f"{ratio:.0%}" for ratio in RATIOS)
    lines = [
        f"### {one['title'][0].upper()}{one['title'][1:]}",
        "",
        f"{one['samples']} samples in one partition, {one['epochs']} epochs, {one['time_steps']} time steps{noise}.",
        "",
        f"| estimator | at one step | `moso` | `moso-rank` | kept by `moso`, {ratios} pruned | kept by `moso-rank` | "
        "wrong labels, `moso` / `moso-rank` |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in one["rows"]:
        step = "" if row["step"] is None else f"{row['step']:.2f}"
        kept = [" / ".join(f"{value:.2f}" for value in row["overlap"][name]["balanced"]) for name in row["scores"]]
        wrong = " / ".join(f"{value:.2f}" for value in row["wrong"].values())
        scores = " | ".join(f"{value:.2f}" for value in row["scores"].values())
        lines.append(f"| {row['title']} | {step} | {scores} | {' | '.join(kept)} | {wrong} |")
    return "\n".join([*lines, ""])
