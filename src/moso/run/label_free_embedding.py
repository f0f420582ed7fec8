"""The embedding that knows nothing of labels: trained here, the user's own, or a pretrained network's.

It is written once a seed, `features/embedding.npy` with a note beside it, whatever it comes from: a run has all that
its scores were made of.
"""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.evidence.arrays import writing
from moso.files import clear_away, write_json
from moso.progress import Progress
from moso.results.layout import embedding_path, piece_name
from moso.run.job import Job
from moso.run.training import checkpoints, computed
from moso.scores.ssp_embedding import pretrained_features, read_embedding
from moso.training.loop import TrainingData
from moso.training.self_supervised import RECIPE, Unlabelled, self_supervised_features
from moso.training.two_views import Distortion

TRAINED = "trained"
_NAME = "embedding"


def check_embedding(job: Job) -> None:
    """Refuse to train an embedding on what is no picture, before anything else is trained."""
    shape = job.data.train.shape
    if job.configuration.embedding == TRAINED and len(shape) != 3:
        raise errors.PicturesRequired(
            f"an embedding is trained on pictures, but inputs are of shape {shape}; give --embedding FILE with features"
        )


def measure_embedding(job: Job, progress: Progress, seed: int) -> None:
    """Write the embedding of all samples under a seed."""
    home, c, train = job.directory.of_seed(job.configuration, seed), job.configuration, job.data.train
    started = time.monotonic()
    rows: NDArray[np.float32]
    if c.embedding == TRAINED:
        rows = _trained(job, progress, home, seed)
    elif c.embedding.startswith("timm:"):
        everything = np.arange(len(train))
        rows = pretrained_features(
            c.embedding, train.evaluation_view(), everything, loader_workers=job.runtime.loader_workers
        )
    else:
        rows = read_embedding(c.embedding, train.ids)
    with writing(embedding_path(home), rows.shape, np.float32) as file:
        file[:] = rows
    note = {"format": 1, "samples": len(rows), "width": rows.shape[1], "embedding": c.embedding, "seed": seed}
    trained = {"network": c.model, "recipe": unlabelled(job).recipe.model_dump()} if c.embedding == TRAINED else {}
    write_json(embedding_path(home).with_suffix(".json"), {**note, **trained})
    if c.embedding != TRAINED:
        computed(job, "score", piece_name(seed, _NAME), time.monotonic() - started)
    progress(f"embedding, seed {seed}", 1, 1)


def unlabelled(job: Job) -> Unlabelled:
    """How the embedding is trained: as long as a surrogate, at most 20 epochs, and mirrored only where it is."""
    surrogate = job.configuration.surrogate
    recipe = RECIPE.changed(
        epochs=min(RECIPE.epochs, surrogate.epochs),
        warmup_epochs=min(RECIPE.warmup_epochs, surrogate.epochs / 10),
        channels_last=surrogate.channels_last,
    )
    return Unlabelled(recipe, Distortion(mirror="flip" in surrogate.augmentation))


def _trained(job: Job, progress: Progress, home: Path, seed: int) -> NDArray[np.float32]:
    train, position = job.data.train, home / "state" / _NAME / "position.safetensors"
    rows = self_supervised_features(
        job.model(seed),
        TrainingData(train.evaluation_view(), np.arange(len(train)), train.keys),
        unlabelled(job),
        seed=seed,
        checkpoints=checkpoints(job, position, "train", piece_name(seed, _NAME)),
        loader_workers=job.runtime.loader_workers,
        progress=progress,
    )
    clear_away(position.parent)
    return rows
