"""Step terms of a whole partition: by one process, or by a team of processes that all-reduce their gradient sums."""

import time

import numpy as np
from numpy.typing import NDArray

from moso.data.views import View
from moso.evidence import StepTerms, TrajectoryPoint, step_terms, terms_path, write_terms
from moso.evidence.layout import part_name, piece_name
from moso.evidence.measure import checked, prepared
from moso.gradients import directional_derivatives, gradient_sums, mean_of, risk_gradient
from moso.progress import Progress
from moso.run.job import Job
from moso.run.scoring_view import scored_trajectory, scoring_view
from moso.run.training import computed
from moso.training.team import ALONE, Team


def scoring_team(job: Job) -> Team:
    """Return the team that scores a partition; cheaper estimators keep state of all samples, so one process scores."""
    return job.runtime.team if job.configuration.estimator == "exact" else ALONE


def score_partition(job: Job, progress: Progress, seed: int, part: int) -> None:
    """Compute and write the step terms of partition `part` at every sampled step that has none yet."""
    team, estimator = scoring_team(job), job.estimator(seed)
    home = job.directory.of_seed(job.configuration, seed)
    trajectory = scored_trajectory(job, seed, part)
    model, positions = job.model(seed), job.partitions(seed)[part]
    label = f"scoring {part + 1}/{job.configuration.partitions}, seed {seed}"
    paths = {point.step: terms_path(home / "terms" / part_name(part), point.step) for point in trajectory}
    # All processes of a team must compute the same steps, but may see different files on a shared mount.
    missing = team.agreed({step for step, path in paths.items() if not path.exists()})
    for number, point in enumerate(trajectory, 1):
        if point.step in missing:
            started = time.monotonic()
            view, seen = scoring_view(job, seed, part, point)
            if team.size > 1:
                terms = _terms_of_team(job, team, seen, view, positions, seed)
            else:
                terms = step_terms(
                    model,
                    seen,
                    view,
                    positions,
                    loss=job.loss,
                    batch_size=job.configuration.score_batch_size,
                    parameters=job.parameter_filter,
                    loader_workers=job.runtime.loader_workers,
                    estimator=estimator,
                    risk=job.risk(),
                )
            if team.leads:
                write_terms(paths[point.step], terms)
            computed(job, "score", piece_name(seed, part_name(part)), time.monotonic() - started)
        progress(label, number, len(trajectory))


def _terms_of_team(
    job: Job, team: Team, point: TrajectoryPoint, view: View, positions: NDArray[np.int64], seed: int
) -> StepTerms:
    """Compute the terms of a step: each process sweeps its share; gradient sums are all-reduced, products gathered."""
    at, load = prepared(
        job.model(seed),
        point,
        view,
        positions,
        job.loss,
        job.configuration.score_batch_size,
        job.parameter_filter,
        job.runtime.loader_workers,
    )
    mine, risk = team.share(positions), job.risk()
    if risk is None:
        total, norms = gradient_sums(at, lambda: load(mine), point.groups)
        team.add_up(total.values())
        direction = at.along(mean_of(at, total, len(positions)))
        dots = directional_derivatives(at, lambda: load(mine), direction, point.groups)
    else:
        dots = directional_derivatives(at, lambda: load(mine), at.along(risk_gradient(at, risk)), point.groups)
        norms = np.zeros_like(dots)
    dot, norm = (np.concatenate(parts, axis=1) for parts in zip(*team.gathered((dots, norms)), strict=True))
    return checked(StepTerms(point.step, point.learning_rates, dot, norm, risk is None), positions)
