"""`auto` against random selection: one table over data sets, noise and ratios, paired by seed.

Every cell is one run directory (a data set, clean or with a share of labels drawn at random, one ratio), so that a
killed table goes on where it was; cells that are complete are read. The table (in its page) and its rows are written
after every cell.

    python -m benchmarks.auto_table --root DATA --beside herding                                # the published table
    python -m benchmarks.auto_table --data digits --data "human=features:DIR --labels HUMAN.npz:noisy_label"

`--root` is a data folder as `moso reproduce --data` has it; what is not there is named and left out. A data set of
`--data` is `NAME=SPEC`, or `SPEC` alone; further flags of `moso run` may follow in the same argument.
"""

import argparse
import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from moso import errors
from moso.configuration import Configuration
from moso.evaluation.paired import PairedDifference, paired_difference
from moso.executors.local import local_executor
from moso.experiments.places import find_data
from moso.files import replacing, write_json, write_text
from moso.results.reading import Run
from moso.results.retrainings import FULL
from moso.run.choosing import read_decisions
from moso.run.job import Job
from moso.run.stages import begin, compare

DOCS = Path(__file__).parent.parent / "docs" / "results"
BEGIN, END = "<!-- made by benchmarks.auto_table -->", "<!-- end of what benchmarks.auto_table made -->"
PEOPLE = "cifar100n-features-20k"
PUBLISHED = (
    *("trec", "cifar100-features-20k", PEOPLE, "tiny-imagenet-features"),
    *("fashion-features", "trec-features"),  # embedded by hand, as the page says
)
# Data sets that are folders of the data folder and not places of experiments, with their sources.
FOLDERS = {"trec": "text", "fashion-features": "features", "trec-features": "features"}


@dataclass(frozen=True)
class Cell:
    """One run: a data set as people call it and as settings, its label noise and its ratio."""

    name: str
    settings: dict[str, object]
    noise: float
    ratio: float

    def place(self, root: Path) -> Path:
        """Return the run directory."""
        return root / f"{self.name}-noise-{self.noise:g}-ratio-{self.ratio:g}"


def carried_out(cell: Cell, root: Path, seeds: int, methods: list[str], workers: int) -> Job:
    """Return the job of a cell whose run is complete; it goes on where it was."""
    configuration = Configuration.resolve(
        {**cell.settings, "label_noise": cell.noise, "ratios": [cell.ratio], "seeds": seeds, "methods": methods}
    )
    job = Job.open(cell.place(root), configuration)
    with job.directory.locked(), local_executor(workers) as executor:
        begin(job)
        compare(job, executor)
    return job


def values(run: Run, method: str, ratio: float) -> dict[str, dict[int, float]]:
    """Return the test values of a method at a ratio by selector, then by seed."""
    found: dict[str, dict[int, float]] = {}
    for row in run.evaluation():
        if row["method"] == method and row["ratio"] == ratio:
            found.setdefault(row["selector"], {})[row["seed"]] = row["value"]
    return found


def row_of(cell: Cell, job: Job, methods: list[str]) -> dict[str, object]:
    """Return a cell's numbers: means, and paired differences to the better of the random selections."""
    run = Run.open(job.directory.root)
    random = max(values(run, "random", cell.ratio).values(), key=lambda one: sum(one.values()) / len(one))
    full = values(run, FULL, 0.0)["none"]
    found: dict[str, object] = {
        "data": cell.name,
        "noise": cell.noise,
        "human": "labels" in cell.settings,
        "ratio": cell.ratio,
        "seeds": len(full),
        "all data": mean(full),
        "random": mean(random),
        "took": [decision.winner for decision in read_decisions(job)],
        "trials": [decision.trainings for decision in read_decisions(job)],
        "trial_share": job.configuration.trial_share,
    }
    size = 0 if job.data.test is None else len(job.data.test)
    for method in methods:
        [own] = values(run, method, cell.ratio).values()
        found[method] = mean(own)
        found[f"{method} - random"] = noted(paired_difference(own, random, test_samples=size))
        found[f"{method} - all data"] = noted(paired_difference(own, full, test_samples=size))
        if method != "auto":
            [chosen] = values(run, "auto", cell.ratio).values()
            found[f"auto - {method}"] = noted(paired_difference(chosen, own, test_samples=size))
    return found


def mean(by_seed: dict[int, float]) -> float:
    """Return the mean over seeds."""
    return round(sum(by_seed.values()) / len(by_seed), 2)


def noted(difference: PairedDifference | None) -> dict[str, object] | None:
    """Return a difference as JSON: value, interval, pairs."""
    if difference is None:
        return None
    own = asdict(difference)
    return {"value": round(own["value"], 2), "margin": round(own["margin"], 2), "pairs": own["pairs"]}


def text(difference: object) -> str:
    """Return a difference for the table; a star if its 95 % interval leaves zero out."""
    if not isinstance(difference, dict):
        return ""
    star = " *" if abs(difference["value"]) > difference["margin"] else ""
    return f"{difference['value']:+.1f} ± {difference['margin']:.1f}{star}"


def table(rows: list[dict[str, object]]) -> str:
    """Return the page: the table, and how many of its cells are above or below random selection."""
    head = ["data", "labels drawn at random", "removed", "seeds", "all data", "random", "auto", "auto − random"]  # noqa: RUF001
    head += ["auto − all data", "auto − herding", "what auto took"]  # noqa: RUF001
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        took = sorted(set(row["took"]), key=lambda one: (-row["took"].count(one), one))  # type: ignore[call-overload,attr-defined]
        noise = "labels by people" if row.get("human") else f"{row['noise']:.0%}"
        cells = [row["data"], noise, f"{row['ratio']:.0%}", row["seeds"], row["all data"]]
        cells += [row["random"], row["auto"], text(row["auto - random"]), text(row["auto - all data"])]
        cells += [text(row.get("auto - herding")), ", ".join(f"{one} x{row['took'].count(one)}" for one in took)]  # type: ignore[attr-defined]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join([*lines, "", summary(rows), ""])


def summary(rows: list[dict[str, object]]) -> str:
    """Return how many cells with right and with wrong labels are above or below random selection, outside intervals.

    Example:
        >>> rows = [{"noise": noise, "auto - random": {"value": 2.0, "margin": 1.0}} for noise in (0.0, 0.2)]
        >>> summary(rows)
        'Above random selection outside the interval: 1 of 1 clean cells, 1 of 1 with wrong labels; below: 0 of 2.'
    """

    def counted(own: list[dict[str, object]], sign: int) -> int:
        signs = [row["auto - random"] for row in own]
        return sum(sign * one["value"] > one["margin"] for one in signs)  # type: ignore[index]

    wrong = [row for row in rows if row["noise"] or row.get("human")]
    clean = [row for row in rows if row not in wrong]
    return (
        f"Above random selection outside the interval: {counted(clean, 1)} of {len(clean)} clean cells, "
        f"{counted(wrong, 1)} of {len(wrong)} with wrong labels; below: {counted(rows, -1)} of {len(rows)}."
    )


def publish(page: Path, rows: list[dict[str, object]]) -> None:
    """Write the table into its page, between the two marks; the words around it are a reading of it, by people."""
    words = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    before, _, rest = words.partition(BEGIN)
    write_text(page, f"{before}{BEGIN}\n\n{table(rows)}\n{END}{rest.partition(END)[2]}")


def published(root: Path, made: Path) -> list[str]:
    """Return the data sets of the published table that are below a folder, as `--data` names them."""
    found = ["digits"]
    for name in PUBLISHED:
        try:
            found.append(f"{name}={shlex.join(words_of(name, root, made))}")
        except errors.FileMissing as problem:
            print(f"left out: {problem}")
    return found


def words_of(name: str, root: Path, made: Path) -> list[str]:
    """Return a data set of the published table: what `moso run` calls it, and flags."""
    if name == PEOPLE:
        # The first 20,000 features with the labels that people gave, which are cut to their number.
        features = find_data("cifar100-features-20k", root, made).dataset
        whole, _, column = str(find_data("cifar100n-features", root).labels).rpartition(":")
        cut = made / "data" / "cifar100n-20k.npz"
        with np.load(whole) as labels, replacing(cut) as temporary, temporary.open("wb") as file:
            np.savez(file, **{column: labels[column][:20_000]})
        return [features, "--labels", f"{cut}:{column}"]
    if name not in FOLDERS:
        return [find_data(name, root, made).dataset]
    if not (root / name).is_dir():
        raise errors.FileMissing(f"{name} is not in {root}")
    return [f"{FOLDERS[name]}:{root / name}"]


def cells_of(given: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells in the order of doing: the high ratios first."""
    for ratio in sorted(given.ratio, reverse=True):
        for spec in given.data:
            words = shlex.split(spec)
            name, equals, dataset = words[0].partition("=")
            settings: dict[str, object] = {"dataset": dataset if equals else words[0]}
            for flag, value in zip(words[1::2], words[2::2], strict=True):
                settings[flag.removeprefix("--").replace("-", "_")] = number(value)
            plain = name if equals else words[0].partition(":")[0]
            for noise in [0.0] if "labels" in settings else given.noise:
                yield Cell(plain, settings, noise, ratio)


def number(value: str) -> object:
    """Return a setting as a number if it is one."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--root", type=Path, help="data folder as of `moso reproduce`: the published table's data sets")
    parser.add_argument("--noise", type=float, action="append")
    parser.add_argument("--ratio", type=float, action="append")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--beside", action="append", default=[], help="methods beside auto, such as herding")
    parser.add_argument("--workers", type=int, default=1, help="trainings side by side")
    parser.add_argument("--out", type=Path, default=Path("runs/auto-table"))
    parser.add_argument("--page", type=Path, default=DOCS / "auto-table.json")
    given = parser.parse_args()
    if given.root is not None:
        given.data += published(given.root.resolve(), given.out.absolute())
    if not given.data:
        parser.error("give --root or --data")
    given.noise, given.ratio = given.noise or [0.0, 0.2], given.ratio or [0.4, 0.8]
    methods = ["auto", *given.beside]
    before = json.loads(given.page.read_text(encoding="utf-8")) if given.page.exists() else []
    rows = {(row["data"], row["noise"], row["ratio"]): row for row in before}
    for cell in cells_of(given):
        job = carried_out(cell, given.out, given.seeds, methods, given.workers)
        rows[cell.name, cell.noise, cell.ratio] = row_of(cell, job, methods)
        ordered = [rows[key] for key in sorted(rows)]
        write_json(given.page, ordered)
        publish(given.page.with_suffix(".md"), ordered)
        print(table(ordered))


if __name__ == "__main__":
    main()
