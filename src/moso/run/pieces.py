"""The pieces of a run's work: what can be done on its own, by any process, again after a kill.

A piece writes its result where the run directory says and is complete when that is there. It finds what it
needs in the job; executors know nothing of what it does.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.evaluation.metrics import measured
from moso.evaluation.summary import ACCURACY
from moso.evidence import Recorder, Trajectory, read_state, step_terms, terms_path, write_terms
from moso.evidence.estimators import IN_RUN
from moso.evidence.trajectory import write_state
from moso.files import write_json
from moso.progress import Progress
from moso.run.cells import Cell, cell_path
from moso.run.job import Job
from moso.run.selections import read_selection
from moso.training.in_run import InRun
from moso.training.loop import Checkpoints, threads, train


@dataclass(frozen=True)
class Piece:
    """A bit of work by name: `stage` says what is done, the rest on what."""

    stage: str
    name: str
    arguments: dict[str, Any]


def stage_label(piece: Piece) -> str:
    """What a person calls the stage of a piece."""
    return {"train": "all surrogates", "score": "all scoring", "evaluate": "all retraining"}[piece.stage]


def part_name(part: int) -> str:
    """What a partition's folder is called."""
    return f"part-{part:03d}"


def initial_state_path(job: Job, seed: int) -> Path:
    """Where the one recorded w_0 of a seed is."""
    return job.directory.of_seed(job.configuration, seed) / "state" / "initial.safetensors"


def surrogate(job: Job, seed: int) -> nn.Module:
    """A network at the recorded w_0 of this seed, from which every partition's surrogate starts."""
    model = job.model(seed)
    state, _ = read_state(initial_state_path(job, seed))
    model.load_state_dict(state)
    return model


def record_initial_state(job: Job, seed: int) -> None:
    """Record w_0 once, before the first partition is trained."""
    path = initial_state_path(job, seed)
    if not path.exists():
        write_state(path, job.model(seed).state_dict(), {"step": 0})


def train_partition(job: Job, progress: Progress, seed: int, part: int) -> None:
    """Train the surrogate of one partition; it leaves its trajectory and its history."""
    home = job.directory.of_seed(job.configuration, seed)
    finished = home / "state" / part_name(part) / "history.json"
    if finished.exists():
        return
    position = finished.with_name("position.safetensors")
    positions = job.partitions(seed)[part]
    total = job.total_steps(positions)
    recorder: Recorder | None = None

    def record(model: nn.Module, optimizer: torch.optim.Optimizer, step: int, epoch: int) -> None:
        nonlocal recorder
        if recorder is None:
            c = job.configuration
            recorder = Recorder(
                home / "trajectory" / part_name(part),
                total_steps=total,
                samples=c.time_steps,
                seed=seed,
                sampling=c.sampling,
                done=step - 1,
            )
        recorder.step(model, optimizer, epoch)

    recipe = job.configuration.surrogate
    in_run = _in_run(job, seed, part) if job.configuration.estimator == IN_RUN else None
    history = train(
        surrogate(job, seed),
        job.training_data(recipe, positions, seed),
        recipe,
        seed=seed,
        loss=job.loss,
        on_step=record if in_run is None else None,
        in_run=in_run,
        checkpoints=_checkpoints(job, position, "train", _piece_name(seed, part)),
        loader_workers=job.effort.loader_workers,
        progress=progress,
        label=f"surrogate {part + 1}/{job.configuration.partitions}, seed {seed}",
    )
    write_json(finished, {"total_steps": total, **asdict(history)})
    position.unlink(missing_ok=True)


def _in_run(job: Job, seed: int, part: int) -> InRun:
    folder = job.directory.of_seed(job.configuration, seed) / "terms" / part_name(part)
    positions = job.partitions(seed)[part]
    return InRun(
        positions,
        job.time_steps(positions, seed),
        job.steps_per_epoch(positions),
        lambda terms: write_terms(terms_path(folder, terms.step), terms),
        job.parameter_filter,
    )


def score_partition(job: Job, progress: Progress, seed: int, part: int) -> None:
    """Measure the step terms of one partition at every sampled step that has none yet."""
    estimator = job.estimator(seed)
    home = job.directory.of_seed(job.configuration, seed)
    trajectory = Trajectory.open(home / "trajectory" / part_name(part))
    model, view = job.model(seed), job.data.train.evaluation_view()
    label = f"scoring {part + 1}/{job.configuration.partitions}, seed {seed}"
    for number, point in enumerate(trajectory, 1):
        path = terms_path(home / "terms" / part_name(part), point.step)
        if not path.exists():
            started = time.monotonic()
            terms = step_terms(
                model,
                point,
                view,
                job.partitions(seed)[part],
                loss=job.loss,
                batch_size=job.configuration.score_batch_size,
                parameters=job.parameter_filter,
                loader_workers=job.effort.loader_workers,
                estimator=estimator,
            )
            write_terms(path, terms)
            _computed(job, "score", _piece_name(seed, part), time.monotonic() - started)
        progress(label, number, len(trajectory))


def retrain(job: Job, progress: Progress, cell: dict[str, Any]) -> None:
    """Train a fresh network on what a selection keeps, and test it."""
    wanted = Cell(**cell)
    path = cell_path(job.directory.root, wanted)
    if path.exists():
        return
    positions = _kept(job, wanted)
    recipe = job.configuration.retraining
    everything = job.training_data(recipe, np.arange(len(job.data.train)), wanted.seed)
    matched = recipe.epochs * everything.steps_per_epoch(recipe.batch_size) if wanted.match == "steps" else None
    model = job.model(wanted.seed, retraining=True)
    position = job.directory.root / "state" / f"retrain-{wanted.digest()}" / "position.safetensors"
    history = train(
        model,
        job.training_data(recipe, positions, wanted.seed),
        recipe,
        seed=wanted.seed,
        total_steps=matched,
        loss=job.loss,
        checkpoints=_checkpoints(job, position, "evaluate", wanted.digest()),
        loader_workers=job.effort.loader_workers,
        progress=progress,
        label=f"retraining {wanted.title()}, seed {wanted.seed}",
    )
    write_json(path, {**asdict(wanted), "samples": len(positions), **_tested(job, model), "loss": history.loss})
    position.unlink(missing_ok=True)
    if position.parent.exists():
        position.parent.rmdir()


def _tested(job: Job, model: nn.Module) -> dict[str, Any]:
    test = job.data.test
    assert test is not None, "the evaluate stage refuses data without a test split"
    view, metric, everything = test.evaluation_view(), job.metric, np.arange(len(test))
    values = measured(model, view, everything, metric, loader_workers=job.effort.loader_workers)
    measure = metric.measure
    scale = 100.0 if measure.unit == "%" else 1.0
    found = {
        "metric": measure.name,
        "unit": measure.unit,
        "better": measure.better,
        "value": scale * float(values.mean()),
    }
    if measure != ACCURACY:
        return found
    classes = len(test.classes)
    correct = np.bincount(test.labels, weights=values, minlength=classes).astype(int).tolist()
    return {**found, "class_correct": correct, "class_count": np.bincount(test.labels, minlength=classes).tolist()}


def _kept(job: Job, cell: Cell) -> NDArray[np.int64]:
    if cell.is_full_data:
        return np.arange(len(job.data.train))
    return np.flatnonzero(read_selection(job.directory.root, cell.selection()))


def _piece_name(seed: int, part: int) -> str:
    return f"seed-{seed}/{part_name(part)}"


def _checkpoints(job: Job, path: Path, stage: str, name: str) -> Checkpoints:
    return Checkpoints(path, job.effort.checkpoint_seconds, lambda seconds: _computed(job, stage, name, seconds))


def _computed(job: Job, stage: str, name: str, seconds: float) -> None:
    job.directory.event("computed", stage=stage, piece=name, seconds=round(seconds, 4))


PIECES: dict[str, Callable[..., None]] = {"train": train_partition, "score": score_partition, "evaluate": retrain}


def perform(job: Job, piece: Piece, progress: Progress) -> None:
    """Do a piece of work with the configured number of threads."""
    with threads(job.configuration.threads):
        PIECES[piece.stage](job, progress, **piece.arguments)


def is_complete(job: Job, piece: Piece) -> bool:
    """Whether a piece's result is already there."""
    if piece.stage == "evaluate":
        return cell_path(job.directory.root, Cell(**piece.arguments["cell"])).exists()
    seed, part = piece.arguments["seed"], piece.arguments["part"]
    home = job.directory.of_seed(job.configuration, seed)
    if piece.stage == "train":
        return (home / "state" / part_name(part) / "history.json").exists()
    steps = job.time_steps(job.partitions(seed)[part], seed).tolist()
    return all(terms_path(home / "terms" / part_name(part), step).exists() for step in steps)
