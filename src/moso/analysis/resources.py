"""What a run takes beside time: memory and disk, estimated before it starts; and whether its place can hold it.

Memory: the resident set of this process, which holds the data and torch as every worker will, plus the largest rise
while a few steps are trained and scored. Scoring keeps what its second pass needs, up to a limit, so its rise grows
with the number of samples. Disk: recorded networks, numbers per sample, and the page.
"""

import math
import os
import shutil
from dataclasses import dataclass

import numpy as np

from moso import errors
from moso.analysis.wording import count_of
from moso.configuration import Configuration
from moso.data.dataset import DataSet
from moso.evidence.estimators import IN_RUN
from moso.evidence_kinds.registry import averages, columns, needed_kinds, needs_reference, needs_surrogates
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.gradients.engine import KEPT_CALLS
from moso.results.directory import RunDirectory
from moso.run.computed_scores import wanted_scores
from moso.run.job import Job

# Bytes of report.html at most, and without samples.
_PAGE, _EMPTY_PAGE = 25_000_000, 150_000
# Width that features are taken to have; networks of this field have 64 to 2,048.
_FEATURES = 512


@dataclass(frozen=True)
class Rise:
    """How far memory rose while a few steps were tried.

    Attributes:
        base: Resident bytes of the process before; None where the system does not say.
        training: Bytes that training added.
        scoring: Bytes that scoring a few samples added.
        scored: Number of these samples.
    """

    base: int | None
    training: int
    scoring: int
    scored: int


@dataclass(frozen=True)
class Resources:
    """Estimated bytes of a run.

    Attributes:
        memory: Peak of main memory, all processes together; None where the system does not say.
        networks: Disk for recorded networks: time steps, starts, ends, checkpoints of trainings in progress.
        samples: Disk for numbers per sample: scores, evidence, selections.
        page: Disk for the page.
    """

    memory: int | None
    networks: int
    samples: int
    page: int

    @property
    def disk(self) -> int:
        """Disk of the whole run."""
        return self.networks + self.samples + self.page


def resources(job: Job, workers: int, rise: Rise) -> Resources:
    """Estimate memory and disk of a run.

    Args:
        job: The job of the run.
        workers: Number of pieces that run in parallel.
        rise: How far memory rose while a few steps were tried.
    """
    c, samples = job.configuration, len(job.data.train)
    network = sum(one.numel() * one.element_size() for one in job.model(c.seed).state_dict().values())
    pixels = math.prod(job.data.train.shape[-2:])
    return Resources(
        memory=_memory(workers, rise, -(-samples // c.partitions)),
        networks=_network_count(job, workers) * network,
        samples=samples * _bytes_per_sample(c, len(job.data.train.classes)),
        page=min(_PAGE, _EMPTY_PAGE + samples * min(pixels, 1500)),
    )


def _memory(workers: int, rise: Rise, part: int) -> int | None:
    if rise.base is None:
        return None
    grown = min(rise.scoring * max(1.0, part / max(1, rise.scored)), rise.scoring + KEPT_CALLS)
    worker = rise.base + max(rise.training, int(grown))
    return worker if workers == 1 else rise.base + workers * worker


def _network_count(job: Job, workers: int) -> int:
    """Return the number of networks on disk at once: of all seeds, and checkpoints of trainings in progress."""
    c, needs = job.configuration, job.configuration.needs()
    kinds = needed_kinds(needs)
    found = 1
    if needs_surrogates(needs):
        moments = {kind.moment for kind in kinds if kind.network in ("surrogate", "surrogates")}
        steps = c.time_steps if "steps" in moments and c.estimator != IN_RUN else 0
        if "replay" in moments:
            steps += 4 * math.isqrt(job.total_steps(job.partitions(c.seed)[0]))
        found += c.partitions * (steps + 1)
    found += 2 * needs_reference(needs) + (c.initialisations - 1) * averages(needs)
    return c.seeds * found + 3 * workers


def _bytes_per_sample(c: Configuration, classes: int) -> int:
    needs, names = c.needs(), {kind.name for kind in needed_kinds(c.needs())}
    per_seed = 8 * len(wanted_scores(c.methods)) + 16 * c.time_steps + 40
    per_seed += 4 * c.surrogate.epochs * len(columns(needs, DYNAMICS))
    per_seed += 4 * _FEATURES * ("features" in names) + 4 * classes * len(names & {"predictions", "probabilities"})
    return c.seeds * (per_seed + 3 * len(c.pairs()) * len(c.ratios))


def check_place(directory: RunDirectory, needed: int) -> None:
    """Check that the place of a run can be written to and has room.

    Args:
        directory: The run directory; for an address, its working copy is checked.
        needed: Estimated bytes.

    Raises:
        MosoError: ``not-writable``.
    """
    place = next(one for one in (directory.root, *directory.root.absolute().parents) if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise errors.NotWritable(f"cannot write to {directory}: {place} is no folder that can be written to")
    free = shutil.disk_usage(place).free
    if free < needed:
        raise errors.NotWritable(
            f"{directory} needs about {size(needed)}, but {place} has {size(free)} free; make room, use another --out, "
            "or fewer --time-steps, --partitions or --seeds"
        )


def class_notes(data: DataSet) -> list[str]:
    """Return one sentence per way in which the classes of training and test data differ; none if they do not.

    A class without training samples cannot be learned, and one without test samples is not measured.
    """
    if data.test is None or not data.train.task.by_class:
        return []
    count = len(data.train.classes)
    train, test = (np.bincount(one.labels, minlength=count) for one in (data.train, data.test))
    found = []
    for missing, there, words in (
        (train, test, "no training samples but test samples: no network can get them right"),
        (test, train, "no test samples: what pruning does to them cannot be measured"),
    ):
        names = [data.train.classes[index] for index in np.flatnonzero((missing == 0) & (there > 0))]
        if names:
            shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            found.append(f"{count_of(len(names), 'class')} ({shown}) {'has' if len(names) == 1 else 'have'} {words}.")
    return found


def size(count: float) -> str:
    """Format bytes with a suitable unit.

    Example:
        >>> size(900), size(2_471_041), size(3.2e9)
        ('900 B', '2.5 MB', '3.2 GB')
    """
    for limit, unit, scale in ((1e3, "B", 1), (1e6, "kB", 1e3), (1e9, "MB", 1e6), (1e12, "GB", 1e9)):
        if count < limit:
            return f"{count / scale:.0f} {unit}" if scale == 1 else f"{count / scale:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"
