"""Which time steps should weigh most? Combinations of the same step terms, on held-out training data.

Proposition 1.1 weighs steps by their rates and their size (`moso`); others weigh each once on one scale
(`moso-standardised`) or by rank (`moso-rank`), take the last third of the steps only (`late`), or weigh each step by
how well its ranks agree with those of the others (`agreement`). Each combination keeps a part of all partitions but
one, a network is trained on it, and the held-out partition judges; every partition is held out once, and differences to
random selection are paired by partition. The test split is not touched.

    python -m benchmarks.time_step_weights --data digits --data features:DIR --out runs/steps
"""

import argparse
from pathlib import Path

from benchmarks.auto_table import DOCS, Cell, cells_of, noted, text
from moso.configuration import Configuration
from moso.configuration.candidates import Candidate
from moso.configuration.resolved_method import resolve_method
from moso.evaluation.paired import paired_difference
from moso.executors import InProcess
from moso.files import write_json, write_text
from moso.run.choosing.held_out import folds
from moso.run.choosing.trial import tried
from moso.run.job import Job
from moso.run.stages import begin, score_stage

RANDOM = "random"
COMBINATIONS = {
    "moso": ("moso", {}),
    "moso-standardised": ("moso-standardised", {}),
    "moso-rank": ("moso-rank", {}),
    "moso-rank, late": ("moso-rank", {"moso-rank": {"weights": "late"}}),
    "moso-rank, agreement": ("moso-rank", {"moso-rank": {"weights": "agreement"}}),
    "moso-cross, all judges": ("moso-cross", {"moso-cross": {"judges": "all"}}),
    RANDOM: ("random", {}),
}


def combinations() -> list[Candidate]:
    """Return the combinations as candidates, the top of each class each."""
    return [
        Candidate(name, resolve_method(method, "balanced", settings))
        for name, (method, settings) in COMBINATIONS.items()
    ]


def row_of(cell: Cell, root: Path) -> dict[str, object]:
    """Return the mean of every combination over the held-out partitions, and its paired difference to random."""
    methods = {"methods": ["moso-rank", "moso-cross"], "settings": {"moso-cross": {"judges": "all"}}}
    given = {**cell.settings, "label_noise": cell.noise, "ratios": [cell.ratio], "seeds": 1}
    job = Job.open(cell.place(root), Configuration.resolve({**given, **methods}))
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess())
    count = len(folds(job.configuration.partitions))
    values = {
        one.name: {fold: tried(job, one, job.configuration.seed, cell.ratio, fold).value for fold in range(count)}
        for one in combinations()
    }
    found: dict[str, object] = {"data": cell.name, "noise": cell.noise, "ratio": cell.ratio, "folds": count}
    for name, own in values.items():
        found[name] = round(sum(own.values()) / len(own), 2)
        if name != RANDOM:
            found[f"{name} - random"] = noted(paired_difference(own, values[RANDOM]))
    return found


def table(rows: list[dict[str, object]]) -> str:
    """Return the table: random selection's accuracy, and the differences of all combinations to it."""
    names = [name for name in COMBINATIONS if name != RANDOM]
    head = ["data", "labels drawn at random", "removed", "random", *names]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["data"], f"{row['noise']:.0%}", f"{row['ratio']:.0%}", row[RANDOM]]
        cells += [text(row[f"{name} - random"]) for name in names]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--noise", type=float, action="append")
    parser.add_argument("--ratio", type=float, action="append")
    parser.add_argument("--out", type=Path, default=Path("runs/time-step-weights"))
    parser.add_argument("--page", type=Path, default=DOCS / "time-step-weights.json")
    given = parser.parse_args()
    given.noise, given.ratio = given.noise or [0.0, 0.2], given.ratio or [0.8]
    rows = []
    for cell in cells_of(given):
        rows.append(row_of(cell, given.out))
        write_json(given.page, rows)
        write_text(given.page.with_suffix(".txt"), table(rows))
        print(table(rows), flush=True)


if __name__ == "__main__":
    main()
