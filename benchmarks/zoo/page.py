"""The page of the zoo, made from the file that the measurement left."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.scoring.page import machine_sentence
from benchmarks.zoo.compare import LATER, LIMIT, MOSO, is_right
from moso.files import write_text

PAGE, RESULTS = "zoo.md", "zoo.json"
COLUMNS = (
    "network",
    "parameters",
    "moso (s)",
    "vmap(grad)",
    "first step",
    "loop of one",
    "training epochs",
    "error",
    "in float64",
    "the slow way",
)
TITLES = {"vmap": "`vmap(grad)`", "loop": "loop of one"}

BEGINNING = """\
# The zoo

`python -m benchmarks.zoo` (part of `make bench`) measures, and writes this page and [zoo.json](zoo.json); `--help` has
the knobs. The networks are in `benchmarks/zoo/`, and `tests/gradients/test_zoo.py` holds the scores of all of them to
brute force, at two checkpoints and in both precisions.

**How to read it.** A row is a small network of a kind that people train, with fresh weights and made-up samples.

- *moso*: seconds of one whole time step through `moso.score` with one checkpoint: reading and collating the samples,
  and both sweeps, of a network that moso has seen at an earlier time step.
- *vmap(grad)* and *loop of one*: how many times as long the rival takes over the ten time steps of a run, of which the
  first one also pays for moso's look at the network; below 1.00 the rival is faster. *First step*: the same of
  `vmap(grad)` for the first time step alone. Both rivals take the mean gradient first and the samples' own gradients
  after it, from the same dataset: `vmap(grad)` a batch at a time, the loop one sample at a time. A loop that would take
  too long is given fewer samples, and its time is scaled.
- *Training epochs*: moso's time as a multiple of one forward and backward pass over the same samples in batches of the
  same size.
- All of them take turns; figures are medians over the turns of the ratio within a turn.
- *Error*: the largest difference between moso's scores and brute force in float64, as a share of the largest score, in
  float32 and in float64. Rectifiers are smooth here, so that float32 determines the scores.
- *The slow way*: what moso announced about parameters without a closed form.
"""


def write_page(folder: Path) -> Path:
    """Make the page from the result file in `folder`."""
    found = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
    parts = [BEGINNING, table(found["rows"], found["samples"], found["batch"], found["turns"], found["machine"])]
    if found.get("checks"):
        parts.append(checks_table(found["checks"]))
    write_text(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def table(rows: Mapping[str, Any], samples: int, batch: int, turns: int, machine: Mapping[str, Any]) -> str:
    """All networks, one row each, and a sentence about where a rival is faster."""
    lines = [
        f"{samples} samples in batches of {batch}, {turns} turns. {machine_sentence(dict(machine))}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "| --- " * len(COLUMNS) + "|",
        *(line(name, row) for name, row in rows.items()),
        "",
        summary(rows),
        "",
    ]
    return "\n".join(lines)


def line(name: str, row: Mapping[str, Any]) -> str:
    """One network's line of the table."""
    start = f"| {name}: {row['description']} | {row['parameters']:,} |"
    if MOSO in row["refusals"]:
        words = _cell(row["refusals"][MOSO])
        verdict = "refused" if words.startswith("MosoError") else "**fails**"
        return f"{start} {verdict}: {words} | | | | | | | {_slow(row)} |"
    cells = [f"{row['seconds'][LATER]['median']:.2f}", _rival(row, "vmap")]
    cells += [f"{row['against_first']['vmap']:.2f}" if "vmap" in row["against_first"] else "", _rival(row, "loop")]
    cells += [f"{row['epochs']:.1f}", f"{row['errors'][MOSO]:.0e}{'' if is_right(row, MOSO) else ' **wrong**'}"]
    cells += ["" if row["error_in_float64"] is None else f"{row['error_in_float64']:.0e}", _slow(row)]
    return f"{start} {' | '.join(cells)} |"


def summary(rows: Mapping[str, Any]) -> str:
    """Where moso is wrong, refuses, or is slower than a rival that is right, in sentences."""
    refused = [name for name, row in rows.items() if MOSO in row["refusals"]]
    wrong = [name for name, row in rows.items() if name not in refused and not is_right(row, MOSO)]
    sentences = [
        f"{len(rows)} networks. moso refuses or fails on {_names(refused)}.",
        f"It errs by more than {LIMIT:.0e} on {_names(wrong)}.",
    ]
    for rival, title in TITLES.items():
        met = {name: row["against"][rival] for name, row in rows.items() if rival in row["against"]}
        slower = [f"{name} ({value:.2f})" for name, value in met.items() if value < 1]
        first = {name: row["against_first"][rival] for name, row in rows.items() if rival in row["against_first"]}
        begun = [f"{name} ({value:.2f})" for name, value in first.items() if value < 1]
        sentences.append(
            f"Of {len(met)} on which {title} runs, moso is slower on {_names(slower)}; at the first time step alone on "
            f"{_names(begun)}."
        )
    return " ".join(sentences)


def checks_table(checks: Mapping[str, Any]) -> str:
    """What the identities at the end of a time step add to its cost."""
    lines = [
        "## The identities at the end of a time step",
        "",
        "A time step with its identities against one without, in turns: the share that they add.",
        "",
        "| network | samples | batch | seconds | identities add | quartiles |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in checks.items():
        share, seconds = row["share"], row["seconds"]["median"]
        lines.append(
            f"| {name} | {row['samples']:,} | {row['batch']} | {seconds:.2f} | {share['median']:.1%} | "
            f"{share['lower_quartile']:.1%} to {share['upper_quartile']:.1%} |"
        )
    return "\n".join([*lines, ""])


def _rival(row: Mapping[str, Any], name: str) -> str:
    if name in row["refusals"]:
        return "does not run"
    value = f"{row['against'][name]:.2f}"
    value = f"**{value}**" if row["against"][name] < 1 else value
    return value if is_right(row, name) else f"{value} (wrong)"


def _slow(row: Mapping[str, Any]) -> str:
    return "; ".join(_cell(message.partition(" (")[0].partition(": ")[2] or message) for message in row["slow"])


def _cell(text: str) -> str:
    return text.replace("|", "/")


def _names(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "none"
