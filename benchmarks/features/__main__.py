"""The command line: results go to `docs/benchmarks/features.json`, and the page is made from them.

python -m benchmarks.features                                   # all parts but the demo
python -m benchmarks.features --parts demo --before CHECKOUT    # the demo, by turns with another checkout
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.features import turns
from benchmarks.features.commands import both, watched
from benchmarks.features.made_up import write_features
from benchmarks.features.page import write_page
from benchmarks.scoring.machine import describe_machine
from moso.files import write_json
from moso.results.directory import RunDirectory

OUT = Path(__file__).parents[2] / "docs" / "benchmarks"
RESULTS = "features.json"
METHODS = ("moso", "moso-standardised", "moso-rank")
TIME_STEPS, WORKERS = 10, 2
LARGE_TEST = 1000


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The knobs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.features", description="What does a run on features cost?"
    )
    parser.add_argument("--parts", nargs="+", default=[one for one in PARTS if one != "demo"], choices=list(PARTS))
    parser.add_argument("--rows", type=int, default=50_000, help="training samples (%(default)s)")
    parser.add_argument("--test-rows", type=int, default=10_000, help="test samples (%(default)s)")
    parser.add_argument("--width", type=int, default=1280, help="numbers per sample (%(default)s)")
    parser.add_argument("--classes", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=50, help="of every training (%(default)s)")
    parser.add_argument("--partitions", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="where partitions do not give their number (%(default)s)")
    parser.add_argument("--large-rows", type=int, default=1_280_000, help="samples of the part `large` (%(default)s)")
    parser.add_argument("--before", type=Path, help="another checkout, for the part `demo`")
    parser.add_argument("--folder", type=Path, help="where data is written and stays; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=OUT, help="where results are written")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure the parts that were asked for, write them down, make the page."""
    given = parse(arguments)
    torch.set_num_threads(1)
    path = given.out / RESULTS
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found["benchmark"] = "features"
    with tempfile.TemporaryDirectory(prefix="moso-features-") as temporary:
        os.environ["MOSO_CACHE"] = str(Path(temporary) / "cache")
        for name in given.parts:
            machine = describe_machine(torch.device("cpu"))
            own = PARTS[name](given, given.folder or Path(temporary), Path(temporary))
            found[name] = {"machine": machine, **own}
            print(json.dumps({name: own}, indent=1), flush=True)
            write_json(path, found)
    write_page(given.out, found)


def _size(given: argparse.Namespace) -> dict[str, Any]:
    names = ("rows", "test_rows", "width", "classes", "epochs", "partitions")
    return {name: getattr(given, name) for name in names}


def _data(given: argparse.Namespace, folder: Path, kind: str) -> Path:
    place = folder / f"features-{given.rows}-{kind}"
    write_features(place, given.rows, given.width, given.classes, kind, given.test_rows)
    return place


def training(given: argparse.Namespace, folder: Path, runs: Path) -> dict[str, Any]:
    """Surrogates, retraining and tests against a plain loop, by turns."""
    found: dict[str, Any] = {}
    turns.warm_up()
    for model, kind in (("linear", "float32"), ("linear", "float16"), ("mlp-head", "float16")):
        job = turns.open_job(
            _data(given, folder, kind), runs / f"{model}-{kind}", model, given.epochs, given.partitions
        )
        found[f"{model}, {kind}"] = turns.surrogates(job)
    job = turns.open_job(_data(given, folder, "float16"), runs / "again", "linear", given.epochs, given.partitions)
    found["retraining and test, linear, float16"] = turns.retraining(job, given.turns)
    found["test alone, linear, float16"] = turns.testing(job, 4 * given.turns)
    return {"size": _size(given), "rows": found}


def whole(given: argparse.Namespace, folder: Path, runs: Path) -> dict[str, Any]:
    """All MoSo scores by two commands, from data on disk to the file of scores."""
    found: dict[str, Any] = {}
    for kind in ("float32", "float16"):
        run = str(runs / f"whole-{kind}")
        train = watched(
            "train", "--dataset", f"features:{_data(given, folder, kind)}", "--model", "linear", "--recipe",
            "linear-probe", "--epochs", str(given.epochs), "--partitions", str(given.partitions), "--time-steps",
            str(TIME_STEPS), "--seeds", "1", "--threads", "1", "--workers", str(WORKERS), "--ratio", str(turns.RATIO),
            *(word for method in METHODS for word in ("--method", method)), "--out", run,
        )  # fmt: skip
        score = watched("score", run, "--workers", str(WORKERS))
        busy = {stage: round(sum(RunDirectory(Path(run)).seconds(stage).values()), 1) for stage in ("train", "score")}
        found[kind] = {"train": train, "score": score, "both": both(train, score), "computed": busy}
    return {"size": _size(given), "rows": found}


def large(given: argparse.Namespace, folder: Path, runs: Path) -> dict[str, Any]:
    """One surrogate epoch and one time step of one of the partitions of many samples from disk, in one process."""
    data = folder / f"features-{given.large_rows}-large"
    write_features(data, given.large_rows, given.width, given.classes, "float16", LARGE_TEST)
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.features.one_partition", str(data)]
    done = subprocess.run(
        [*command, str(runs / "large"), str(given.partitions)], check=True, stdout=subprocess.PIPE, text=True
    )
    size = {"rows": given.large_rows, "width": given.width, "classes": given.classes, "partitions": given.partitions}
    return {"size": size, **json.loads(done.stdout)}


def demo(given: argparse.Namespace, folder: Path, runs: Path) -> dict[str, Any]:
    """The two commands of `make demo`, by turns with another checkout."""
    if given.before is None:
        sys.exit("the part demo compares with another checkout; give its folder with --before")
    sources = {"before": given.before / "src", "after": Path(__file__).parents[2] / "src"}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for turn in range(given.turns):
        for name in sorted(sources, reverse=turn % 2 == 1):
            out = [str(runs / f"demo-{name}-{turn}-{number}") for number in range(2)]
            clean = watched("run", "--out", out[0], source=sources[name])
            noisy = watched("run", "--label-noise", "0.2", "--out", out[1], source=sources[name])
            found[name].append(both(clean, noisy))
    return {"turns": given.turns, "rows": found}


PARTS: dict[str, Callable[[argparse.Namespace, Path, Path], dict[str, Any]]] = {
    "training": training,
    "whole": whole,
    "large": large,
    "demo": demo,
}

if __name__ == "__main__":
    main()
