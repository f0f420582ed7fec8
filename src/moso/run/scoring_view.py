"""How samples and networks are seen while they are scored: as they are, or as the surrogate's training saw them."""

from moso.data.views import View
from moso.evidence import TrajectoryPoint
from moso.evidence.renewed_statistics import renewed_statistics
from moso.run.job import Job


def scoring_view(job: Job, seed: int, part: int, point: TrajectoryPoint) -> tuple[View, TrajectoryPoint]:
    """The view that a partition's samples are scored through at a time step, and the network there.

    `evaluation`: samples without augmentation, batch-norm with the statistics that training had gathered. `training`:
    samples as the epoch of the time step augmented them, and statistics of just these; so the mean gradient is that of
    the loss which training descends, to within the noise of its mini-batches.
    """
    c = job.configuration
    if c.view == "evaluation":
        return job.data.train.evaluation_view(), point
    positions = job.partitions(seed)[part]
    view = job.training_data(c.surrogate, positions, seed).view
    renewed = renewed_statistics(
        job.model(seed),
        point,
        view,
        positions,
        batch_size=c.surrogate.batch_size,
        loss=job.loss,
        loader_workers=job.runtime.loader_workers,
    )
    return view, renewed
