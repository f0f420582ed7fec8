"""The pieces of a run's work: what can be done on its own, by any process, again after a kill.

A piece writes its result where the run directory says and is complete when that is there. It finds what it
needs in the job; executors know nothing of what it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from moso.evaluation.baselines import FEWER_STEPS, RS2, FreshSubsets
from moso.evaluation.metrics import measured
from moso.evidence import Recorder, terms_path, write_terms
from moso.evidence.estimators import IN_RUN
from moso.files import clear_away, write_json
from moso.progress import Progress
from moso.results.layout import adjoint_path, part_name
from moso.results.retrainings import Retraining, retraining_path
from moso.results.selections import read_selection
from moso.run.adjoint import measure_adjoint
from moso.run.heartbeat import heartbeat
from moso.run.job import Job
from moso.run.profiling import record_cost
from moso.run.references import MEASURES, is_measured, reference_training, train_reference
from moso.run.scoring import score_partition
from moso.run.sharding import LOOKED_AT, SHARDED, is_sharded_done
from moso.run.training import Training, at_start, checkpoints, is_trained, train_network
from moso.selection import kept_count
from moso.tasks.metric import ACCURACY
from moso.training.in_run import InRun
from moso.training.loop import Callback, StepPlan, TrainingData, threads, train
from moso.training.recording import RecordTrajectory, ShowProgress


@dataclass(frozen=True)
class Piece:
    """A bit of work by name: `stage` says what is done, the rest on what."""

    stage: str
    name: str
    arguments: dict[str, Any]


def stage_label(piece: Piece) -> str:
    """What a person calls the stage of a piece."""
    return {"train": "all networks", "score": "all scoring", "evaluate": "all retraining"}[stage_of(piece.stage)]


def stage_of(kind: str) -> str:
    """The stage of a run that pieces of a kind belong to."""
    return {"train": "train", "reference": "train", "evaluate": "evaluate"}.get(kind, "score")


def train_partition(
    job: Job,
    progress: Progress,
    seed: int,
    part: int,
    columns: Sequence[str] = (),
    early: bool = False,
    final: bool = False,
    replay: bool = False,
) -> None:
    """Train the surrogate of one partition; it leaves its trajectory, its history, its network and what was asked."""
    home, training = partition_training(job, seed, part, columns, early, final, replay)
    if is_trained(home, training):
        return
    in_run = job.configuration.estimator == IN_RUN
    recording = _in_run(job, seed, part) if in_run else _recording(job, home, training)
    train_network(
        job,
        progress,
        training,
        at_start(job, seed),
        recording=recording,
        label=f"surrogate {part + 1}/{job.configuration.partitions}, seed {seed}",
    )


def _recording(job: Job, home: Path, training: Training) -> Callback:
    """What writes the sampled steps of a partition's training as they are made."""
    c = job.configuration
    recorder = Recorder(
        home / "trajectory" / training.name,
        total_steps=job.total_steps(training.positions),
        samples=c.time_steps,
        seed=training.seed,
        sampling=c.sampling,
    )
    return RecordTrajectory(recorder)


def partition_training(
    job: Job,
    seed: int,
    part: int,
    columns: Sequence[str] = (),
    early: bool = False,
    final: bool = False,
    replay: bool = False,
) -> tuple[Path, Training]:
    """The seed's folder, and the training of one partition's surrogate that leaves this."""
    positions = job.partitions(seed)[part]
    home = job.directory.of_seed(job.configuration, seed)
    replay = replay and not adjoint_path(home, part).exists()
    return home, Training(seed, part_name(part), positions, seed, tuple(columns), early, final, replay=replay)


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


def retrain(job: Job, progress: Progress, retraining: dict[str, Any]) -> None:
    """Train a fresh network on what a selection keeps, on all data or as a baseline, and test it."""
    wanted = Retraining(**retraining)
    path = retraining_path(job.directory.root, wanted)
    if path.exists():
        return
    recipe = job.configuration.retraining
    everything = job.training_data(recipe, np.arange(len(job.data.train)), wanted.seed)
    data, samples = _retraining_data(job, wanted, everything)
    total = recipe.epochs * everything.steps_per_epoch(recipe.batch_size) if wanted.match == "steps" else None
    if wanted.method == FEWER_STEPS:
        total = recipe.epochs * -(-kept_count(len(job.data.train), wanted.ratio) // recipe.batch_size)
    model = job.model(wanted.seed, network=wanted.network)
    position = job.directory.root / "state" / f"retrain-{wanted.digest()}" / "position.safetensors"
    history = train(
        model,
        StepPlan(data, recipe, wanted.seed, total),
        loss=job.loss,
        callbacks=[checkpoints(job, position, "evaluate", wanted.digest()), ShowProgress(progress)],
        loader_workers=job.runtime.loader_workers,
        label=f"retraining {wanted.title()}, seed {wanted.seed}",
        team=job.runtime.team,
    )
    if not job.runtime.team.leads:
        return
    write_json(path, {**asdict(wanted), "samples": samples, **_tested(job, model), "loss": history.loss})
    clear_away(position.parent)


def _tested(job: Job, model: nn.Module) -> dict[str, Any]:
    test = job.data.test
    assert test is not None, "the evaluate stage refuses data without a test split"
    view, metric, everything = test.evaluation_view(), job.metric, np.arange(len(test))
    values = measured(model, view, everything, metric, loader_workers=job.runtime.loader_workers)
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


def _retraining_data(job: Job, retraining: Retraining, everything: TrainingData) -> tuple[TrainingData, int]:
    """What a retraining learns from, and how many samples an epoch of it has."""
    if retraining.is_full_data or retraining.method == FEWER_STEPS:
        return everything, len(everything.positions)
    if retraining.method == RS2:
        size = kept_count(len(everything.positions), retraining.ratio)
        return FreshSubsets(everything.view, everything.positions, everything.keys, size), size
    kept = np.flatnonzero(read_selection(job.directory.root, retraining.selection()))
    return replace(everything, positions=kept), len(kept)


PIECES: dict[str, Callable[..., None]] = {
    "train": train_partition,
    "reference": train_reference,
    "score": score_partition,
    "adjoint": measure_adjoint,
    **SHARDED,
    **MEASURES,
    "evaluate": retrain,
}


def perform(job: Job, piece: Piece, progress: Progress) -> None:
    """Do a piece of work with the configured number of threads."""
    seen = heartbeat(job.directory, piece.stage, piece.name, progress, job.runtime.checkpoint_seconds)
    with (
        job.directory.shared(lambda name: is_wanted(piece, name)),
        threads(job.configuration.threads),
        record_cost(job.directory, piece.stage, piece.name),
        seen as watching,
    ):
        PIECES[piece.stage](job, watching, **piece.arguments)


def is_wanted(piece: Piece, name: str) -> bool:
    """Whether a piece may look at a file of the run: what is large and of a partition is for its own pieces alone.

    >>> piece = Piece("score", "", {"seed": 0, "part": 1})
    >>> [is_wanted(piece, f"trajectory/part-00{part}/step-00000001.safetensors") for part in (0, 1)]
    [False, True]
    """
    *folders, last = name.split("/")
    if not {"trajectory", "replay", "shards"} & set(folders):
        return True
    own = "part" in piece.arguments and part_name(piece.arguments["part"]) in folders
    return own and ("shards" not in folders or last.startswith(LOOKED_AT.get(piece.stage, ())))


def is_complete(job: Job, piece: Piece) -> bool:
    """Whether a piece's result is already there."""
    match piece.stage:
        case "evaluate":
            return retraining_path(job.directory.root, Retraining(**piece.arguments["retraining"])).exists()
        case "train":
            return is_trained(*partition_training(job, **piece.arguments))
        case "reference":
            return is_trained(*reference_training(job, **piece.arguments))
        case "adjoint":
            home = job.directory.of_seed(job.configuration, piece.arguments["seed"])
            return adjoint_path(home, piece.arguments["part"]).exists()
        case "score":
            seed, part = piece.arguments["seed"], piece.arguments["part"]
            folder = job.directory.of_seed(job.configuration, seed) / "terms" / part_name(part)
            steps = job.time_steps(job.partitions(seed)[part], seed).tolist()
            return all(terms_path(folder, step).exists() for step in steps)
        case stage if stage in SHARDED:
            return is_sharded_done(job, stage, **piece.arguments)
        case _:
            return is_measured(job, piece.stage, **piece.arguments)
