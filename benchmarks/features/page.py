"""The page `docs/benchmarks/features.md`, made from the results beside it."""

from pathlib import Path
from statistics import median
from typing import Any

TARGET_RATIO, TARGET_SECONDS, TARGET_MIB, LARGE_MIB = 1.3, 60, 1536, 3072
# The whole run that the part `large` is reckoned up to.
EPOCHS, TIME_STEPS, WORKERS = 50, 10, 2

HEAD = """# What a run on features costs

`python -m benchmarks.features` measures, and writes this page and `features.json`. Features are made up: a class is a
direction, a sample is its class plus noise. Every training has one thread.
"""


def write_page(folder: Path, found: dict[str, Any]) -> None:
    """Write the page of the parts that were measured."""
    parts = {"training": _training, "whole": _whole, "large": _large, "demo": _demo}
    text = [HEAD, *(write(found[name]) for name, write in parts.items() if name in found)]
    (folder / "features.md").write_text("\n".join(text), encoding="utf-8")


def _machine(part: dict[str, Any]) -> str:
    own = part["machine"]
    load = own["load_at_start"][0]
    return f"({own['processor']}, {own['cores']} cores, torch {own['torch']}, load {load} at start.)"


def _size(size: dict[str, Any]) -> str:
    return f"{size['rows']:,} x {size['width']:,} features, {size['classes']:,} classes"


def _training(part: dict[str, Any]) -> str:
    size = part["size"]
    lines = [
        "## Against a plain loop",
        "",
        f"{_size(size)}, {size['partitions']} partitions x {size['epochs']} epochs, batches of 64, SGD with momentum. "
        "`moso` does its pieces of work whole: batches from the memory map, normalisation, trajectory, checkpoints, "
        "heartbeats. The plain loop indexes into a normalised float32 tensor in memory, with `torch.optim.SGD`. Both "
        "take turns in one process; the ratio is the median of the turns' ratios of processor seconds, "
        f"and is to be at most {TARGET_RATIO}. {_machine(part)}",
        "",
        "| what | ratio | lowest to highest | ratio of wall seconds | moso, processor s | plain loop, processor s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in part["rows"].items():
        lines.append(
            f"| {name} | {row['ratio']:.2f} | {row['lowest']:.2f} to {row['highest']:.2f} | {row['wall_ratio']:.2f} | "
            f"{row['moso_processor_seconds']:.1f} | {row['plain_processor_seconds']:.1f} |"
        )
    return "\n".join([*lines, ""])


def _whole(part: dict[str, Any]) -> str:
    size = part["size"]
    lines = [
        "## All MoSo scores",
        "",
        f"{_size(size)}, linear head, {size['partitions']} partitions x {size['epochs']} epochs, {TIME_STEPS} time "
        f"steps: `moso train` and `moso score` with {WORKERS} workers, from the files of features to the file of "
        "scores, with the start of all processes. *Own memory* is what all processes together held for themselves at "
        "most; *with mapped pages* also has the pages of the features, shared ones counted once. To reach on two free "
        f"cores: {TARGET_SECONDS} s and {TARGET_MIB:,} MiB. Where others use the machine, half of the processor "
        f"seconds is the better guess of that. {_machine(part)}",
        "",
        "| features | seconds | processor s | in trainings and scoring, s | own memory, MiB | with mapped pages, MiB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in part["rows"].items():
        total, busy = row["both"], row["computed"]
        lines.append(
            f"| {name} | {total['seconds']:.1f} | {total['processor_seconds']:.1f} | "
            f"{busy['train'] + busy['score']:.1f} | {total['anonymous_mib']:,.0f} | {total['resident_mib']:,.0f} |"
        )
    return "\n".join([*lines, ""])


def _large(part: dict[str, Any]) -> str:
    size, count = part["size"], part["size"]["partitions"]
    epoch, step = (part[name]["processor_seconds"] for name in ("train", "score"))
    run = count * (EPOCHS * epoch + TIME_STEPS * step) / WORKERS
    names = {
        "open": "opening, checking and hashing the data",
        "train": "one surrogate epoch of one partition",
        "score": "one time step of one partition",
    }
    lines = [
        "## A million samples from disk",
        "",
        f"{_size(size)} in float16, {2 * size['rows'] * size['width'] / 1e9:.1f} GB, memory-mapped; linear head, one "
        f"of {count} partitions ({part['samples']:,} samples), one process on one thread. *Own memory* is what it held "
        f"for itself, without pages of the mapped file, and is to stay below {LARGE_MIB:,} MiB. {_machine(part)}",
        "",
        "| what | seconds | processor s | own memory, MiB |",
        "| --- | --- | --- | --- |",
    ]
    for key, name in names.items():
        row = part[key]
        lines.append(
            f"| {name} | {row['seconds']:.1f} | {row['processor_seconds']:.1f} | {row['anonymous_mib']:,.0f} |"
        )
    lines += [
        "",
        f"A whole run on free cores: {count} partitions x ({EPOCHS} epochs x {epoch:.1f} s + {TIME_STEPS} time steps x "
        f"{step:.1f} s) / {WORKERS} workers = {run:,.0f} s, about {run / 60:.0f} minutes. Both grow with the number of "
        "classes.",
        "",
    ]
    return "\n".join(lines)


def _demo(part: dict[str, Any]) -> str:
    rows = {
        name: {what: median(turn[what] for turn in turns) for what in turns[0]} for name, turns in part["rows"].items()
    }
    lines = [
        "## The demo",
        "",
        f"The two commands of `make demo`, by turns with the checkout before; medians of {part['turns']} turns. "
        f"{_machine(part)}",
        "",
        "| checkout | seconds | processor s | own memory, MiB |",
        "| --- | --- | --- | --- |",
        *(
            f"| {name} | {row['seconds']:.1f} | {row['processor_seconds']:.1f} | {row['anonymous_mib']:,.0f} |"
            for name, row in rows.items()
        ),
    ]
    return "\n".join([*lines, ""])
