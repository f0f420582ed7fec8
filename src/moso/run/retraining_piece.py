"""A retraining as a piece of work: train a fresh network on kept samples, on all data or as a baseline, and test it."""

from dataclasses import asdict, dataclass, replace

import numpy as np
from torch import nn

from moso.evaluation.baselines import FEWER_STEPS, INFOBATCH, RS2, FreshSubsets
from moso.evaluation.matching import matched_recipe
from moso.evaluation.metrics import measured
from moso.evaluation.standings import RetrainingRow
from moso.files import clear_away, write_record
from moso.progress import Progress
from moso.results.retrainings import Retraining, retraining_path
from moso.results.selections import read_kept
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.training import checkpoints
from moso.selection import Kept, kept_count
from moso.tasks.metric import ACCURACY
from moso.training.loop import Callback, StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import ShowProgress
from moso.training.soft_pruning import SoftPrunedPlan, SoftPruning
from moso.training.weighted_losses import WeighLosses


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
        own = self.retraining
        recipe = matched_recipe(job.configuration.retraining, own.match, own.ratio)
        everything = job.training_data(recipe, np.arange(len(job.data.train)), own.seed, proof=True)
        kept = _kept(job, own)
        data, samples = _retraining_data(own, everything, kept)
        plan = _plan(job, own, recipe, data, everything)
        softly = [plan.pruning] if isinstance(plan, SoftPrunedPlan) else []
        model = job.model(own.seed, network=own.network)
        position = job.directory.root / "state" / f"retrain-{self.name}" / "position.safetensors"
        callbacks: list[Callback] = [*softly, checkpoints(job, position, "evaluate", self.name), ShowProgress(progress)]
        weighted = {}
        if kept is not None and kept.weights is not None:
            weighted = {"weighted": True}
            callbacks.append(WeighLosses(kept.positions, kept.weights, job.runtime.team.share))
        history = train(
            model,
            plan,
            loss=job.loss,
            callbacks=callbacks,
            loader_workers=job.runtime.loader_workers,
            label=f"retraining {own.title()}, seed {own.seed}",
            team=job.runtime.team,
        )
        if not job.runtime.team.leads:
            return
        path, result = retraining_path(job.directory.root, own), _tested(job, model)
        made = {"updates": plan.total}
        for pruning in softly:
            made |= {"passes": pruning.passes, "visits": pruning.visits}
        write_record(path, {**asdict(own), "samples": samples, **weighted, **made, **result, "loss": history.loss})
        clear_away(position.parent)


def _plan(job: Job, own: Retraining, recipe: TrainingRecipe, data: TrainingData, everything: TrainingData) -> StepPlan:
    """Return the steps of a retraining: the recipe's epochs, or the number of updates that it is compared at."""
    if own.match == "steps":
        total = recipe.epochs * everything.steps_per_epoch(recipe.batch_size)
    else:
        total = recipe.epochs * -(-kept_count(len(everything.positions), own.ratio) // recipe.batch_size)
    if own.method == INFOBATCH:
        pruning = SoftPruning(len(job.data.train), job.runtime.team)
        return SoftPrunedPlan(data, recipe, own.seed, total, pruning=pruning)
    return StepPlan(data, recipe, own.seed, total if own.match == "steps" or own.method == FEWER_STEPS else None)


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


def _kept(job: Job, retraining: Retraining) -> Kept | None:
    """Return the samples that the selection of a retraining keeps; None for all data and for baselines."""
    if retraining.is_full_data or retraining.is_baseline:
        return None
    return read_kept(job.directory.root, retraining.selection())


def _retraining_data(retraining: Retraining, everything: TrainingData, kept: Kept | None) -> tuple[TrainingData, int]:
    """Return the training data of a retraining and its number of samples per epoch."""
    if kept is not None:
        return replace(everything, positions=kept.positions), len(kept)
    if retraining.is_full_data or retraining.method in (FEWER_STEPS, INFOBATCH):
        return everything, len(everything.positions)
    assert retraining.method == RS2, "every other baseline trains on all data"
    size = kept_count(len(everything.positions), retraining.ratio)
    return FreshSubsets(everything.view, everything.positions, everything.keys, size), size
