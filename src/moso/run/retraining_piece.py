"""A retraining as a piece of work: train a fresh network on kept samples, on all data or as a baseline, and test it."""

from dataclasses import asdict, dataclass, replace

import numpy as np
from torch import nn

from moso.evaluation.baselines import FEWER_STEPS, RS2, FreshSubsets
from moso.evaluation.metrics import measured
from moso.evaluation.standings import RetrainingRow
from moso.files import clear_away, write_record
from moso.progress import Progress
from moso.results.retrainings import Retraining, retraining_path
from moso.results.selections import read_selection
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.training import checkpoints
from moso.selection import kept_count
from moso.tasks.metric import ACCURACY
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recording import ShowProgress


@dataclass(frozen=True)
class Retrain(Piece):
    """Train and test the network of one retraining."""

    retraining: Retraining

    kind = "evaluate"
    stage = "evaluate"

    @property
    def name(self) -> str:
        """The hash of the retraining."""
        return self.retraining.digest()

    def is_complete(self, job: Job) -> bool:
        """Return whether the result is on disk."""
        return retraining_path(job.directory.root, self.retraining).exists()

    def perform(self, job: Job, progress: Progress) -> None:
        """Train and test, unless the result is on disk."""
        if self.is_complete(job):
            return
        own, recipe = self.retraining, job.configuration.retraining
        everything = job.training_data(recipe, np.arange(len(job.data.train)), own.seed, proof=True)
        data, samples = _retraining_data(job, own, everything)
        total = recipe.epochs * everything.steps_per_epoch(recipe.batch_size) if own.match == "steps" else None
        if own.method == FEWER_STEPS:
            total = recipe.epochs * -(-kept_count(len(job.data.train), own.ratio) // recipe.batch_size)
        model = job.model(own.seed, network=own.network)
        position = job.directory.root / "state" / f"retrain-{self.name}" / "position.safetensors"
        history = train(
            model,
            StepPlan(data, recipe, own.seed, total),
            loss=job.loss,
            callbacks=[checkpoints(job, position, "evaluate", self.name), ShowProgress(progress)],
            loader_workers=job.runtime.loader_workers,
            label=f"retraining {own.title()}, seed {own.seed}",
            team=job.runtime.team,
        )
        if not job.runtime.team.leads:
            return
        path, result = retraining_path(job.directory.root, own), _tested(job, model)
        write_record(path, {**asdict(own), "samples": samples, **result, "loss": history.loss})
        clear_away(position.parent)


def _tested(job: Job, model: nn.Module) -> RetrainingRow:
    test = job.proof.test
    assert test is not None, "the evaluate stage refuses data without a test split"
    view, metric, everything = test.evaluation_view(), job.metric, np.arange(len(test))
    values = measured(model, view, everything, metric, loader_workers=job.runtime.loader_workers)
    measure = metric.measure
    scale = 100.0 if measure.unit == "%" else 1.0
    found: RetrainingRow = {
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
    """Return the training data of a retraining and its number of samples per epoch."""
    if retraining.is_full_data or retraining.method == FEWER_STEPS:
        return everything, len(everything.positions)
    if retraining.method == RS2:
        size = kept_count(len(everything.positions), retraining.ratio)
        return FreshSubsets(everything.view, everything.positions, everything.keys, size), size
    kept = np.flatnonzero(read_selection(job.directory.root, retraining.selection()))
    return replace(everything, positions=kept), len(kept)
