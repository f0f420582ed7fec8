"""References: networks trained on all of the data, from which published methods take their evidence.

The first is trained like a surrogate, to the end, from the same recorded w_0; with a single partition it *is* that
partition's surrogate. Further ones start elsewhere and are trained up to the early epoch, for scores that average
initialisations. Each is trained only if a chosen score or selector needs what it leaves, and looked at afterwards by
small pieces of work, a file each.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from moso import errors
from moso.evidence import write_features, write_out_of_sample
from moso.evidence.arrays import writing
from moso.evidence.early import error_norms, gradient_norms, write_early
from moso.evidence.features import is_written
from moso.evidence.outputs import describe, iter_logits
from moso.evidence.predictions import out_of_sample_path
from moso.progress import Progress
from moso.randomness import key
from moso.results.layout import (
    early_path,
    embedding_path,
    features_path,
    final_path,
    influences_path,
    part_name,
    piece_name,
    reference_name,
)
from moso.run.job import Job
from moso.run.label_free_embedding import measure_embedding
from moso.run.training import Training, at_start, computed, network, network_name, train_network
from moso.scores.opt import influences


def reference_seed(seed: int, reference: int) -> int:
    """The seed that addresses a reference's start, batches and augmentation: the first one's is the pipeline's own.

    >>> reference_seed(3, 0), reference_seed(3, 1) == reference_seed(3, 2)
    (3, False)
    """
    return seed if reference == 0 else key(seed, "initialisation", reference) % 2**31


def reference_training(job: Job, seed: int, reference: int, columns: Sequence[str] = ()) -> tuple[Path, Training]:
    """The seed's folder, and the training of a reference that leaves these columns of dynamics."""
    everything, first = np.arange(len(job.data.train)), reference == 0
    name, own = reference_name(reference), reference_seed(seed, reference)
    training = Training(seed, name, everything, own, tuple(columns), early=True, final=first, whole=first)
    return job.directory.of_seed(job.configuration, seed), training


def train_reference(job: Job, progress: Progress, seed: int, reference: int, columns: Sequence[str] = ()) -> None:
    """Train a reference: the first to the end, others up to the early epoch."""
    _, training = reference_training(job, seed, reference, columns)
    model = at_start(job, seed) if reference == 0 else job.model(training.own_seed)
    count = f"{reference + 1}/{job.configuration.initialisations}"
    train_network(job, progress, training, model, label=f"reference {count}, seed {seed}")


def _measure_early_errors(job: Job, home: Path, seed: int, reference: int) -> None:
    train, workers = job.data.train, job.runtime.loader_workers
    model, view = network(job, seed, network_name(job, reference), "early"), train.evaluation_view()
    values = error_norms(model, job.loss, view, train.labels, len(train.classes), workers)
    write_early(early_path(home, reference, "errors"), "error_norm", values, job.configuration.early_epoch)


def _measure_early_norms(job: Job, home: Path, seed: int, reference: int) -> None:
    c, train = job.configuration, job.data.train
    model, view = network(job, seed, network_name(job, reference), "early"), train.evaluation_view()
    values = gradient_norms(model, job.loss, view, len(train), c.score_batch_size, job.runtime.loader_workers)
    write_early(early_path(home, reference, "norms"), "squared_norm", values, c.early_epoch)


def _measure_final(job: Job, home: Path, seed: int, columns: Sequence[str]) -> None:
    train, classes = job.data.train, len(job.data.train.classes)
    model, view = network(job, seed, network_name(job, 0), "final"), train.evaluation_view()
    found = {name: np.empty(len(train), dtype=np.float32) for name in columns}
    everything = np.arange(len(train))
    for positions, logits in iter_logits(model, job.loss, view, everything, classes, job.runtime.loader_workers):
        for name, values in describe(logits, train.labels[positions], columns).items():
            found[name][positions] = values
    for name, column in found.items():
        with writing(final_path(home, name), column.shape, np.float32) as file:
            file[:] = column


def _measure_features(job: Job, home: Path, seed: int) -> None:
    train, c = job.data.train, job.configuration
    write_features(
        features_path(home),
        network(job, seed, network_name(job, 0), "final"),
        train.evaluation_view(),
        len(train),
        loss=job.loss,
        loader_workers=job.runtime.loader_workers,
        network=c.model,
        seed=seed,
        epochs=c.surrogate.epochs,
    )


def _measure_influences(job: Job, home: Path, seed: int) -> None:
    c, train = job.configuration, job.data.train
    rows = influences(
        network(job, seed, network_name(job, 0), "final"),
        train.evaluation_view(),
        np.arange(len(train)),
        loss=job.loss,
        weight_decay=c.surrogate.weight_decay,
        seed=seed,
        batch_size=c.score_batch_size,
        loader_workers=job.runtime.loader_workers,
    )
    with writing(influences_path(home), rows.shape, np.float32) as file:
        file[:] = rows


def _measure_predictions(job: Job, home: Path, seed: int) -> None:
    train, partitions = job.data.train, job.partitions(seed)
    check_out_of_sample(len(partitions))
    write_out_of_sample(
        out_of_sample_path(home),
        ((network(job, seed, part_name(part), "final"), positions) for part, positions in enumerate(partitions)),
        train.evaluation_view(),
        (len(train), len(train.classes)),
        loss=job.loss,
        loader_workers=job.runtime.loader_workers,
    )


def check_out_of_sample(partitions: int) -> None:
    """Refuse to predict samples unseen where every network has seen all of them."""
    if partitions < 2:
        raise errors.EvidenceMissing(
            "out-of-sample predictions come from networks that did not see a sample, and with 1 partition the only "
            "network sees all; give --partitions 2 or more"
        )


def _piece(measure: Callable[..., None], what: str) -> Callable[..., None]:
    def measured(job: Job, progress: Progress, seed: int, **arguments: object) -> None:
        started = time.monotonic()
        measure(job, job.directory.of_seed(job.configuration, seed), seed, **arguments)
        name = reference_name(int(str(arguments.get("reference", 0))))
        computed(job, "score", piece_name(seed, f"{name}/{what}"), time.monotonic() - started)
        progress(f"{what}, seed {seed}", 1, 1)

    return measured


MEASURES: dict[str, Callable[..., None]] = {
    "early-errors": _piece(_measure_early_errors, "early errors"),
    "early-norms": _piece(_measure_early_norms, "early norms"),
    "final": _piece(_measure_final, "predictions"),
    "features": _piece(_measure_features, "features"),
    "influences": _piece(_measure_influences, "influences"),
    "predictions": _piece(_measure_predictions, "out-of-sample predictions"),
    "embedding": measure_embedding,
}


def is_measured(job: Job, what: str, seed: int, reference: int = 0, columns: Sequence[str] = ()) -> bool:
    """Whether a measurement is there."""
    home = job.directory.of_seed(job.configuration, seed)
    match what:
        case "early-errors" | "early-norms":
            return early_path(home, reference, what.removeprefix("early-")).exists()
        case "final":
            return all(final_path(home, name).exists() for name in columns)
        case "features":
            return is_written(features_path(home))
        case "embedding":
            return is_written(embedding_path(home))
        case "influences":
            return influences_path(home).exists()
        case _:
            return out_of_sample_path(home).exists()
