"""The view of samples and networks for scoring: without augmentation, or as the training of the surrogate saw them."""

from moso.data.views import View
from moso.evidence import Trajectory, TrajectoryPoint
from moso.evidence.layout import part_name
from moso.evidence.renewed_statistics import renewed_statistics
from moso.run.job import Job


def scored_trajectory(job: Job, seed: int, part: int) -> Trajectory:
    """Return the recorded steps of a partition's surrogate, optimizer-aware if the run is."""
    found = Trajectory.open(job.directory.of_seed(job.configuration, seed) / "trajectory" / part_name(part))
    return found.optimizer_aware() if job.configuration.optimizer_aware else found


def scoring_view(job: Job, seed: int, part: int, point: TrajectoryPoint) -> tuple[View, TrajectoryPoint]:
    """Return the view of the samples of a partition at a time step, and the network at that step.

    The setting `view` decides. `evaluation`: samples without augmentation, batch-norm with its running statistics.
    `training`: samples as augmented in the epoch of the time step, and batch-norm statistics recomputed from these
    samples; the mean gradient is then that of the loss that training minimises, up to mini-batch noise.
    """
    c = job.configuration
    if c.view == "evaluation":
        return job.data.train.evaluation_view(), point
    positions = job.trained(seed)[part]
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
