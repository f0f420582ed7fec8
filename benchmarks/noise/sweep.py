"""The sweep: whole runs on features under symmetric and pair-flip noise, one line of the table per kept set.

Every run directory is one noise and one seed, so that a killed sweep goes on where it was; finished ones are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moso.configuration import Configuration
from moso.evaluation.detection import auroc
from moso.executors.local import local_executor
from moso.results.reading import Run
from moso.run.choosing import read_decisions
from moso.run.job import Job
from moso.run.stages import begin, compare
from moso.tasks.label_noise import NoiseKind

ROWS, RATIO, TRUSTED = 20_000, 0.8, 0.02
METHODS = ("moso", "moso-standardised", "moso-rank", "moso-cross", "auto")
Line = dict[str, object]


@dataclass(frozen=True)
class Noise:
    """A kind of label noise and the share of samples that it draws."""

    kind: NoiseKind
    rate: float

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.kind} {self.rate:.0%}"

    @property
    def folder(self) -> str:
        """The name of folders."""
        return f"{self.kind}-{100 * self.rate:.0f}"


NOISES = (Noise("symmetric", 0.2), Noise("symmetric", 0.5), Noise("symmetric", 0.8), Noise("pair", 0.4))


def first_rows(source: Path, folder: Path, rows: int = ROWS) -> Path:
    """Write the first training rows of a folder of features, and all its test rows, to another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", rows), ("train_labels", rows), ("test", None), ("test_labels", None)):
        np.save(folder / f"{name}.npy", np.load(source / f"{name}.npy", mmap_mode="r")[:count])
    return folder


def settings_of(noise: Noise, data: Path, seed: int) -> dict[str, object]:
    """Return the settings that all runs of a noise and a seed share."""
    return {
        "dataset": f"features:{data}",
        "model": "linear",
        "recipe": "linear-probe",
        "label_noise": noise.rate,
        "noise_kind": noise.kind,
        "ratios": [RATIO],
        "seed": seed,
        "seeds": 1,
    }


def finished(settings: dict[str, object], place: Path, workers: int) -> Job:
    """Return the job of a run that is complete; it goes on where it was."""
    job = Job.open(place, Configuration.resolve(settings))
    with job.directory.locked(), local_executor(workers) as executor:
        begin(job)
        compare(job, executor)
    return job


def lines_of(noise: Noise, data: Path, seed: int, runs: Path, workers: int = 1) -> Iterator[Line]:
    """Yield the lines of one noise and seed: every method, and `moso-rank` judged by a small trusted set."""
    name, shared = noise.folder, settings_of(noise, data, seed)
    own = {"methods": list(METHODS), "settings": {"moso-cross": {"judges": "all"}}}
    job = finished({**shared, **own}, runs / f"{name}-{seed}", workers)
    took = read_decisions(job)[0].winner
    for line in _lines(noise, seed, job):
        yield {**line, "took": took} if line["method"] == "auto" else line
    trusted = {"methods": ["moso-rank"], "risk": "validation", "validation_share": TRUSTED}
    for line in _lines(noise, seed, finished({**shared, **trusted}, runs / f"{name}-{seed}-trusted", workers)):
        if line["method"] != "full":
            yield {**line, "method": f"{line['method']}, trusted risk"}


def _lines(noise: Noise, seed: int, job: Job) -> Iterator[Line]:
    run, data = Run.open(job.directory.root), job.data
    assert data.clean_labels is not None
    wrong = data.train.labels != data.clean_labels
    for row in run.evaluation():
        method, selector = row["method"], row["selector"]
        found: Line = {"noise": noise.name, "seed": seed, "method": method, "selector": selector, "value": row["value"]}
        if method != "full":
            kept = run.kept(method, row["ratio"], selector)
            found["wrong_kept"] = float(wrong[kept].mean())
            score = None if method in ("random", "auto") else run.score_of(method)
            if score is not None:
                found["auroc"] = auroc(-score, wrong)
        yield found
