"""The page of results, made from the files that the measurements left."""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.scoring.compare import WRONG
from benchmarks.scoring.growth import AXES
from benchmarks.scoring.networks import NETWORKS
from moso.files import write_text

PAGE = "README.md"
GROWTH = "scoring-growth.json"

BEGINNING = """\
# What scoring costs

`make bench` measures, and writes this page and the files beside it. `python -m benchmarks.scoring --help` has the
knobs; `--parts page` makes the page again from the files.

**How to read it.** A row is a way to get MoSo's score of every sample at one time step, all on the same samples at the
same parameters of the same network, in one process.

- *Training epochs*: what the time step costs, as a multiple of one training epoch of the same network on the same
  samples (training mode, SGD with momentum, the same batch size). All rows and the training epoch take turns; the
  figure is the median of the turns' ratios, with their quartiles beside it. The arithmetic alone asks for 2.0. A rival
  that is too slow for all samples takes fewer, which its row says, and its cost is scaled by their number.
- *Memory*: the most that tensors hold beyond what was there, as a multiple of one training step of the same batch size
  (activations and gradients; weights and momentum were there). Scratch space of compiled kernels is not counted.
- *Error*: the largest difference from plain autograd in float64, one sample at a time, as a share of the largest score;
  for `moso` also when it runs in float64. *Without the norm* is `G . g_z` alone, and is held against that.
- *Refused*: the rival does not do this network, in its own words.

Networks have had a short training on made-up smooth pictures or sentences, a tenth of the labels wrong. Half of the
samples are then left out, those on which some rectifier comes closest to its kink: float32 does not determine the score
of a sample on a kink, whoever computes it.

Rivals are as their users would write them: the mean gradient by ordinary backward passes, then gradients of single
samples, used up batch by batch (BackPACK's: layer by layer). captum is given batches of one, because it differentiates
one loss at a time through the whole batch's graph. In the copies of a network that Opacus and BackPACK are given,
operations in place are taken out, and positions of words are looked up for every sample: without that they do not run,
or give wrong numbers.
"""


def write_page(folder: Path) -> Path:
    """Make the page from the result files in `folder`."""
    parts = [BEGINNING]
    for name in NETWORKS:
        path = folder / f"scoring-{name}.json"
        if path.exists():
            parts.append(network_section(json.loads(path.read_text())))
    growth = folder / GROWTH
    if growth.exists():
        parts.append(growth_section(json.loads(growth.read_text()), folder))
    if (folder / "loading.json").exists():
        parts.append("## Loading\n\n[loading.json](loading.json): what loading and augmentation take of an epoch.\n")
    if (folder / "explore.json").exists():
        parts.append(_explore(json.loads((folder / "explore.json").read_text(encoding="utf-8"))))
    if (folder / "zoo.json").exists():
        parts.append(
            "## The zoo\n\n[zoo.md](zoo.md): small networks of all kinds, each beside `vmap(grad)` and a loop.\n"
        )
    write_text(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def network_section(result: dict[str, Any]) -> str:
    """A table of one network: a row an engine."""
    lines = [
        f"## {result['network']}",
        "",
        f"{result['description']}: {result['parameters']:,} parameters. {result['samples']} samples in batches of "
        f"{result['batch']}, error and memory on {result['checked']}. A training epoch takes "
        f"{result['training_epoch_seconds']['median']:.1f} s, a training step "
        f"{result['training_step_bytes'] / 2**20:.0f} MB. {machine_sentence(result['machine'])}",
        "",
        "| engine | training epochs | quartiles | memory | error | error in float64 |",
        "| --- | --- | --- | --- | --- | --- |",
        *[table_row(row, result["samples"]) for row in result["rows"]],
        "",
    ]
    sentence = against_rivals(result["rows"])
    return "\n".join([*lines, sentence, ""] if sentence else lines)


def table_row(row: dict[str, Any], samples: int) -> str:
    """One engine's line of the table."""
    if row["refused"] is not None:
        return f"| {row['title']} | refused: {row['refused'].replace('|', '/')} | | | | |"
    epochs, fewer = row["epochs"], row["samples"] < samples
    title = row["title"] + (f" (on {row['samples']} of {samples} samples)" if fewer else "")
    wide = "" if row["largest_error_float64"] is None else f"{row['largest_error_float64']:.0e}"
    error = f"{row['largest_error']:.0e}" + (" (wrong)" if row["rival"] and row["largest_error"] > WRONG else "")
    quartiles = f"{epochs['lower_quartile']:.2f} to {epochs['upper_quartile']:.2f}"
    return f"| {title} | {epochs['median']:.2f} | {quartiles} | {row['memory']:.2f} | {error} | {wide} |"


def against_rivals(rows: list[dict[str, Any]]) -> str:
    """How much longer the loop of one and the fastest rival take than `moso`, in a sentence."""
    right = {row["engine"]: row for row in rows if row["refused"] is None and row["largest_error"] <= WRONG}
    rivals = [row for row in right.values() if row["rival"]]
    if "moso" not in right or not rivals:
        return ""
    own = right["moso"]["epochs"]["median"]
    fastest = min(rivals, key=lambda row: float(row["epochs"]["median"]))
    sentence = (
        f"The fastest rival that is right, {fastest['title']}, takes {fastest['epochs']['median'] / own:.1f} times"
    )
    if "batch-of-one" in right and fastest["engine"] != "batch-of-one":
        sentence += f" as long as `moso`, batches of one {right['batch-of-one']['epochs']['median'] / own:.1f} times."
        return sentence
    return sentence + " as long as `moso`."


def growth_section(result: dict[str, Any], folder: Path) -> str:
    """A table and a picture an axis."""
    lines = [
        "## How the cost grows",
        "",
        f"`moso` with the norm on {result['network']}. *Against the smallest* is the cost of a sample and step divided "
        f"by that of the first row: 1.00 where cost is linear. {machine_sentence(result['machine'])}",
        "",
    ]
    for name in AXES:
        if name not in result["axes"]:
            continue
        axis = result["axes"][name]
        setting = ", ".join(f"{key} {value}" for key, value in axis["setting"].items())
        lines += [
            f"### {axis['title'][0].upper()}{axis['title'][1:]}",
            "",
            f"Cost goes with the power {axis['exponent']:.2f}, memory with {axis['memory_exponent']:.2f}; "
            f"everything else is held ({setting}).",
            "",
            f"| {axis['title']} | seconds | ms per sample and step | against the smallest | training epochs "
            "| peak MB |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for row in axis["rows"]:
            lines.append(
                f"| {row['value']:,} | {row['seconds']['median']:.2f} | {row['milliseconds_a_sample_and_step']:.2f} | "
                f"{row['against_the_smallest']['median']:.2f} | {row['epochs']['median']:.2f} | "
                f"{row['peak_bytes'] / 2**20:.1f} |"
            )
        picture = f"growth-{name}.png"
        if (folder / picture).exists():
            lines += ["", f"![Cost and memory against {axis['title']}]({picture})"]
        lines.append("")
    return "\n".join(lines)


def machine_sentence(machine: dict[str, Any]) -> str:
    """Where and when it was measured, in one sentence."""
    return (
        f"({machine['processor']}, {machine['threads']} threads on {machine['cores']} cores, {machine['gigabytes']} "
        f"GB, torch {machine['torch']}, load {machine['load_at_start'][0]} at start.)"
    )


def _explore(found: dict[str, Any]) -> str:
    """Return the section about `moso explore` with many clients, from `benchmarks.explore_load`."""
    memory, load = found["server_megabytes"], found["machine"]["load_before_and_after"]
    rows = {**found["latency_ms"], "all": found["all_latency_ms"]}
    table = [
        f"| {name} | {one['requests']:,} | {one['median']} | {one['p95']} | {one['worst']} |"
        for name, one in rows.items()
    ]
    return "\n".join(
        [
            "## Explore with many clients\n",
            fill(
                f"`python -m benchmarks.explore_load` ([explore.json](explore.json)): {found['clients']} clients at "
                f"once ask `moso explore` of a run over {found['samples']:,} samples for {found['requests']:,} things, "
                f"{found['gigabytes']} GB in all; {found['errors']} errors. The server was ready after "
                f"{found['opened_seconds']} s with {memory['opened']} MB, held {memory['after_rounds'][0]}, "
                f"{memory['after_rounds'][1]} and {memory['after_rounds'][2]} MB after three rounds of the same load, "
                f"and {memory['peak']} MB at most. Two cores with other work (load {load[0]} before, {load[1]} after); "
                "latencies in milliseconds.",
                120,
            ),
            "",
            "| request | requests | median | 95 % | worst |",
            "| --- | ---: | ---: | ---: | ---: |",
            *table,
            "",
        ]
    )
