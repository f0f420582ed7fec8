"""What all methods cost beyond the surrogates, held against MoSo's own scoring in the same run.

One run of every method on one thread, no retraining. Each piece of work is timed by the processor's time, which others
on the machine do not lengthen: MoSo's scoring (the step terms of all partitions), the reference network, what is
measured of it for each kind of evidence, every score and every selection (half of the samples removed). Apart, as they
are apart in their sources: further initialisations, the embedding without labels, OPT's influences and its solver. The
adjoint, which replays training, is not in it.

With one partition the surrogate has seen all of the data and is the reference: nothing is trained for other methods.

    python benchmarks/methods.py                                                   # digits
    python benchmarks/methods.py --dataset cifar100:PATH --model resnet8-w24 --epochs 4   # CIFAR-100
"""

import argparse
import os
import platform
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import torch

from moso.analysis.estimate import estimate
from moso.configuration import Configuration
from moso.files import write_json
from moso.methods import methods
from moso.progress import silent
from moso.run.computed_scores import write_scores
from moso.run.evidence_pieces import MeasureEvidence
from moso.run.imported_scores import find_choices
from moso.run.job import Job
from moso.run.network_pieces import TrainReference
from moso.run.pieces import Piece, perform
from moso.run.stages import begin, gather, select_stage

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "methods.json"
RATIO = 0.5
# Reported by themselves: what sources train or solve beyond a surrogate.
APART = ("initialisations", "embedding", "influences", "ssp", "opt")


class Clock:
    """Seconds of the processor by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        started = process_time()
        yield
        self.seconds[name] += process_time() - started


class Timed:
    """An executor that does pieces one after the other and times each kind."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            with self.clock.on(kind_of(piece)):
                perform(job, piece, silent)


def compared() -> list[str]:
    """The methods that are measured."""
    return [name for name in methods() if name != "moso-adjoint"]


def kind_of(piece: Piece) -> str:
    """What a piece is in the table."""
    if (isinstance(piece, TrainReference) and piece.reference) or (isinstance(piece, MeasureEvidence) and piece.index):
        return "initialisations"
    return {"train": "surrogates", "score": "step terms"}.get(piece.kind, piece.kind)


def measure(job: Job) -> dict[str, Any]:
    """Every cost of one run, in seconds of the processor."""
    clock, scoring, choosing = Clock(), Clock(), Clock()
    choices = find_choices(job)
    estimate(job, 1)  # a few steps of each kind, so that nobody pays for what a process does once
    with job.directory.locked():
        begin(job)
        gather(job, Timed(clock), job.configuration.needs())
        for choice in choices:
            name = choice.method
            with scoring.on(name):
                write_scores(job, job.configuration.seed, [choice])
            with choosing.on(name):
                select_stage(job, [choice])
    return {"evidence": dict(clock.seconds), "scores": dict(scoring.seconds), "selections": dict(choosing.seconds)}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """MoSo's scoring, what the others add to it, and the ratio of the two, with and without the reference network."""
    evidence = found["evidence"]
    family = ("moso", "moso-standardised", "moso-rank", "random")
    scoring = evidence["step terms"] + sum(found["scores"][name] for name in family)
    measured = sum(
        seconds for name, seconds in evidence.items() if name not in ("surrogates", "step terms", "reference", *APART)
    )
    chosen = sum(
        seconds
        for table in ("scores", "selections")
        for name, seconds in found[table].items()
        if name not in family and name not in APART
    )
    beyond = measured + chosen
    return {
        "moso_scoring": scoring,
        "beyond": beyond,
        "beyond_with_reference": beyond + evidence.get("reference", 0.0),
        "ratio": beyond / scoring,
        "ratio_with_reference": (beyond + evidence.get("reference", 0.0)) / scoring,
        "apart": {name: evidence[name] for name in APART if name in evidence}
        | {f"{name} ({table})": found[table][name] for table in ("scores", "selections") for name in ("ssp", "opt")},
    }


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return round(value, 3) if isinstance(value, float) else value


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", default="digits")
    arguments.add_argument("--model")
    arguments.add_argument("--epochs", type=int)
    arguments.add_argument("--partitions", type=int, nargs="*", default=[5, 1])
    arguments.add_argument("--time-steps", type=int, default=10)
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    result = {
        "benchmark": "methods",
        "machine": {"cores": os.cpu_count(), "architecture": platform.machine(), "torch": torch.__version__},
        "dataset": Path(given.dataset).name,
        "methods": len(compared()),
        "ratio_removed": RATIO,
        "runs": [run(given, partitions) for partitions in given.partitions],
    }
    write_json(given.out, result)


def run(given: argparse.Namespace, partitions: int) -> dict[str, Any]:
    """One run of all methods with so many partitions."""
    settings = {"dataset": given.dataset, "model": given.model, "epochs": given.epochs, "partitions": partitions}
    settings |= {"time_steps": given.time_steps, "methods": compared(), "ratios": [RATIO], "seeds": 1}
    c = Configuration.resolve(settings)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Job.open(Path(folder) / "run", c))
    print(f"{given.dataset}, {partitions} partitions, in seconds of the processor")
    for name, value in rounded(summary(found)).items():
        print(f"    {name:22s} {value}", flush=True)
    setting = {"model": c.model, "epochs": c.surrogate.epochs, "partitions": partitions, "time_steps": c.time_steps}
    setting |= {"initialisations": c.initialisations, "early_epoch": c.early_epoch}
    return {**setting, "seconds_of_the_processor": rounded({**found, **summary(found)})}


if __name__ == "__main__":
    main()
