"""A trial as a piece of work: train on what a candidate keeps of the other folds, and measure on the held-out fold.

The proxy is the run's own network and retraining recipe, for a share of its epochs (`trial_share`). On vectors
(features, tables) a trial takes seconds, and it ranks candidates as the test split does. Ridge regression in closed
form is a hundred times cheaper, and did not: with noisy labels it thinks as well of herding as of `moso-rank`, because
least squares average the noise away and a network that is trained until it fits does not.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.configuration.candidates import Candidate
from moso.evaluation.matching import matched_recipe
from moso.evaluation.metrics import measured
from moso.evidence.layout import piece_name
from moso.files import clear_away, read_record, write_record
from moso.progress import Progress
from moso.randomness import key
from moso.run.choosing.held_out import EvidenceWithout, folds, kept_samples, possible_candidates
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.training import checkpoints
from moso.tasks import Metric
from moso.training.loop import Callback, StepPlan, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import ShowProgress

_PIECE = "auto-"


@dataclass(frozen=True)
class Trial(Piece):
    """Try one candidate at one ratio on one fold.

    Attributes:
        seed: Seed of the run.
        ratio: Share of samples to remove.
        fold: Number of the held-out fold.
        candidate: Name of the candidate.
        draw: Number of the draw, for a candidate that draws at random.
    """

    seed: int
    ratio: float
    fold: int
    candidate: str
    draw: int = 0

    kind = "trial"

    @property
    def name(self) -> str:
        """The name of the seed, ratio, candidate, fold and draw."""
        return piece_name(self.seed, f"{_PIECE}{self.ratio:g}/{self.candidate}-fold-{self.fold}-draw-{self.draw}")

    def path(self, job: Job) -> Path:
        """Return the path of the result."""
        file = f"{self.candidate}-fold-{self.fold}-draw-{self.draw}.json"
        return trials_folder(job, self.seed, self.ratio) / file

    def is_complete(self, job: Job) -> bool:
        """Return whether the result is on disk."""
        return self.path(job).exists()

    def value(self, job: Job) -> float:
        """Return the metric on the held-out fold, from disk."""
        return float(read_record(self.path(job))["value"])

    def updates(self, job: Job) -> int:
        """Return the number of updates that the training took, from disk."""
        return int(read_record(self.path(job))["updates"])

    def perform(self, job: Job, progress: Progress) -> None:
        """Train and measure, unless the result is on disk."""
        if self.is_complete(job):
            return
        position = self.path(job).with_suffix("") / "position.safetensors"
        callbacks = [checkpoints(job, position, "score", self.name), ShowProgress(progress)]
        candidate = find_candidate(job, self.candidate)
        found = tried(job, candidate, self.seed, self.ratio, self.fold, self.draw, callbacks)
        write_record(self.path(job), asdict(found))
        clear_away(position.parent)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: the metric on the held-out fold, the number of kept samples, and the updates it took."""

    value: float
    kept: int
    updates: int


def tried(
    job: Job,
    candidate: Candidate,
    seed: int,
    ratio: float,
    fold: int,
    draw: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Train on what a candidate keeps of the other folds, and measure on the held-out fold.

    Args:
        job: The job of the run.
        candidate: The candidate.
        seed: Seed of the run.
        ratio: Share of samples to remove.
        fold: Number of the held-out fold.
        draw: Number of the draw, for a candidate that draws at random.
        callbacks: Callbacks of the training.
    """
    held_out, others = split(job, seed, fold)
    evidence = EvidenceWithout(job, seed, folds(job.configuration.partitions)[fold])
    kept = kept_samples(evidence, candidate, ratio, key(seed, "auto", fold, draw) % 2**31, others)
    # All candidates of a fold start from the same weights, so that their differences are paired.
    start, match = key(seed, "auto-start", fold) % 2**31, job.configuration.match
    recipe = matched_recipe(trial_recipe(job), match, ratio)
    everything = job.training_data(recipe, others, start)
    steps = recipe.epochs * everything.steps_per_epoch(recipe.batch_size)
    total = steps if match == "steps" else None
    plan = StepPlan(replace(everything, positions=kept), recipe, start, total)
    model, workers = job.model(start, network=_trial_network(job)), job.runtime.loader_workers
    label = f"auto: trying {candidate.name} at {ratio:g}, seed {seed}"
    train(model, plan, loss=job.loss, callbacks=callbacks, loader_workers=workers, label=label)
    metric, view = held_out_metric(job, held_out), job.data.train.evaluation_view()
    value = float(measured(model, view, held_out, metric, loader_workers=workers).mean())
    return Outcome((100.0 if metric.measure.unit == "%" else 1.0) * value, len(kept), plan.total)


def is_trial(piece: str) -> bool:
    """Return whether a piece of work of this name is a trial."""
    return piece.rpartition("/")[0].rpartition("/")[2].startswith(_PIECE)


def trials_folder(job: Job, seed: int, ratio: float) -> Path:
    """Return the folder of the trials of a seed and ratio."""
    return job.directory.of_seed(job.configuration, seed) / "auto" / f"ratio-{ratio:g}"


def find_candidate(job: Job, name: str) -> Candidate:
    """Return the candidate of this name."""
    return next(one for one in possible_candidates(job) if one.name == name)


def split(job: Job, seed: int, fold: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sorted positions of the held-out fold, and those of all other training samples."""
    parts = job.partitions(seed)
    held_out = np.sort(np.concatenate([parts[part] for part in folds(len(parts))[fold]]))
    return held_out, np.setdiff1d(np.arange(len(job.data.train)), held_out)


def trial_recipe(job: Job) -> TrainingRecipe:
    """Return the recipe of a trial: that of its network, for the share of its epochs that the run gives to trials."""
    recipe = job.configuration.retraining if job.proof is job.data else job.configuration.surrogate
    return recipe.changed(epochs=max(1, round(job.configuration.trial_share * recipe.epochs)))


def _trial_network(job: Job) -> str:
    """Return the network of a trial: the one that is retrained, or the head on features if that is another's business.

    Where the proof is a whole network on the data itself, candidates are tried with the surrogates' head on features.
    """
    return job.configuration.retrained_network if job.proof is job.data else ""


def held_out_metric(job: Job, held_out: NDArray[np.int64]) -> Metric:
    """Return the metric of the task for held-out samples, whose labels are the training labels, wrong ones included."""
    return job.task.metric(np.asarray(job.data.train.answers)[held_out])
