"""Scores that only experiments use, computed from the evidence of a run's surrogates.

    moso-last, grand-last       both terms at the very last update alone: the paper's variant without training dynamics
    moso-K, moso-rank-K, ...    MoSo from K of the recorded time steps, for K below their number
    moso-robust, -robust-rank   MoSo along a robust mean of the gradients, for data that is mostly noise

They are stored in the run like a user's own scores, and are selected and retrained like any other score.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.columns import Array
from moso.configuration import Configuration
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence import PartitionTerms, StepTerms, TrajectoryPoint, step_terms, terms_path, write_terms
from moso.evidence.layout import part_name, piece_name
from moso.evidence.terms import read_terms
from moso.evidence.trajectory import Trajectory
from moso.evidence_kinds.step_terms import TERMS
from moso.experiments.declaration import Contender
from moso.experiments.robust import robust_terms
from moso.methods import Method
from moso.randomness import generator
from moso.results.score_files import read_scores, store_score
from moso.run.computed_scores import write_view
from moso.run.job import Job
from moso.run.profiling import record_cost
from moso.run.scoring_view import scoring_view
from moso.run.seed_evidence import SeedEvidence
from moso.run.training import network
from moso.scores import Hard, Score, moso_rank_score, moso_score, moso_standardised_score
from moso.scores.grand_steps import grand_steps

# From a partition's terms to one float per sample.
Combine = Callable[[PartitionTerms], NDArray[np.float64]]
FEWER = (1, 2, 5)
_COMBINATIONS: dict[str, Combine] = {
    "moso": moso_score,
    "moso-standardised": moso_standardised_score,
    "moso-rank": moso_rank_score,
}


@dataclass(frozen=True)
class Derived:
    """A score of experiments: its step terms, and the function that combines them.

    Attributes:
        terms: Returns the terms for a job, a seed and a partition.
        combine: Maps the terms of a partition to one float per sample.
        hard: The hard end of the score.
    """

    name: str
    description: str
    terms: Callable[[Job, int, int], PartitionTerms]
    combine: Combine
    hard: Hard


def derived_choice(configuration: Configuration, contender: Contender) -> ResolvedMethod:
    """Return the resolved method of a contender with a derived score.

    The score needs step terms, and counts as a user's own score.
    """
    derived = DERIVED[contender.method]
    method = Method(derived.name, derived.name, "balanced", derived.description, contender.settings)
    score = Score(derived.name, derived.description, _is_there, frozenset({"terms"}), hard=derived.hard)
    choice = configuration.choice(method, contender.selector, score)
    return replace(choice, is_own=True)


def write_derived(job: Job, seed: int, name: str) -> None:
    """Compute and store a derived score under a seed, unless it is stored already."""
    home = job.directory.of_seed(job.configuration, seed)
    if name in read_scores(home):
        return
    derived, values = DERIVED[name], np.full(len(job.data.train), np.nan)
    with record_cost(job.directory, "derived", piece_name(seed, name)):
        for part, positions in enumerate(job.partitions(seed)):
            values[positions] = derived.combine(derived.terms(job, seed, part))
    note = {"score": name, "seed": seed, "own": True, "made": derived.description, "keep": "high", "hard": derived.hard}
    store_score(home, name, job.data.train.ids, values, note)
    write_view(job, seed)


def _last(job: Job, seed: int, part: int) -> PartitionTerms:
    """Return the terms at the final network; with a single step the learning rate does not matter and is set to 1."""

    def measure() -> StepTerms:
        model = network(job, seed, part_name(part), "final")
        positions, last_epoch = job.partitions(seed)[part], job.configuration.surrogate.epochs - 1
        end = TrajectoryPoint(job.total_steps(positions), (1.0,), epoch=last_epoch, memory=model.state_dict())
        view, point = scoring_view(job, seed, part, end)
        batch_size = job.configuration.score_batch_size
        return step_terms(model, point, view, positions, loss=job.loss, batch_size=batch_size)

    return PartitionTerms(1, [_kept(_folder(job, seed, "last", part) / "step-00000000.npz", measure)])


def _fewer(count: int) -> Callable[[Job, int, int], PartitionTerms]:
    def terms(job: Job, seed: int, part: int) -> PartitionTerms:
        whole = SeedEvidence(job, seed).read(TERMS)[part]
        chosen = fewer_steps(len(whole.steps), count, seed, job.configuration.sampling == "stratified")
        return PartitionTerms(whole.total_steps, [whole.steps[number] for number in chosen])

    return terms


def fewer_steps(recorded: int, count: int, seed: int, stratified: bool) -> list[int]:
    """Draw `count` of the recorded steps, with the distribution of a direct sample of `count` steps.

    For stratified sampling, one step is drawn from each of `count` equal runs of strata; for uniform sampling, any
    steps.
    All partitions draw the same numbers, as they do when steps are recorded.

    Args:
        recorded: Number of recorded steps.
        count: Number of steps to draw.
        seed: Seed of the draw.
        stratified: Whether the recorded steps are stratified.

    Returns:
        Indices of the drawn steps, ascending.

    Example:
        >>> [number // 5 for number in fewer_steps(10, 2, seed=0, stratified=True)]
        [0, 1]
    """
    draw = generator(seed, "fewer-time-steps", recorded, count)
    if not stratified:
        return [int(number) for number in np.sort(draw.choice(recorded, min(count, recorded), replace=False))]
    edges = np.arange(count + 1) * recorded // count
    return [int(number) for number in draw.integers(edges[:-1], edges[1:])]


def _robust(job: Job, seed: int, part: int) -> PartitionTerms:
    home = job.directory.of_seed(job.configuration, seed)
    trajectory = Trajectory.open(home / "trajectory" / part_name(part))
    return PartitionTerms(trajectory.total_steps, list(_robust_steps(job, seed, part, trajectory)))


def _robust_steps(job: Job, seed: int, part: int, trajectory: Trajectory) -> Iterator[StepTerms]:
    model, positions = job.model(seed), job.partitions(seed)[part]
    for point in trajectory:

        def measure(point: TrajectoryPoint = point) -> StepTerms:
            view, seen = scoring_view(job, seed, part, point)
            return robust_terms(model, seen, view, positions, seed=seed, loss=job.loss)

        yield _kept(terms_path(_folder(job, seed, "robust", part), point.step), measure)


def _folder(job: Job, seed: int, kind: str, part: int) -> Path:
    return job.directory.of_seed(job.configuration, seed) / "terms" / f"{kind}-{part_name(part)}"


def _kept(path: Path, measure: Callable[[], StepTerms]) -> StepTerms:
    """Read the terms, or measure and cache them first; an interruption costs at most one step."""
    if not path.exists():
        write_terms(path, measure())
    return read_terms(path)


def _is_there(*_: object) -> Array:
    raise AssertionError("scores of experiments are written before they are selected from")


DERIVED = {
    one.name: one
    for one in (
        Derived("moso-last", "MoSo at the last update alone", _last, moso_score, "low"),
        Derived("grand-last", "the gradient's norm at the last update alone", _last, grand_steps, "high"),
        Derived("moso-robust", "MoSo along a robust mean gradient", _robust, moso_score, "low"),
        Derived("moso-robust-rank", "MoSo along a robust mean gradient, by rank", _robust, moso_rank_score, "low"),
        *(
            Derived(f"{name}-{k}", f"{name} from {k} of the time steps", _fewer(k), combine, "low")
            for name, combine in _COMBINATIONS.items()
            for k in FEWER
        ),
    )
}
