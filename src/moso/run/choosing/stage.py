"""The rounds of `auto`: candidates are tried fold by fold, the worse half leaves, and the rest decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moso.configuration.candidates import Candidate
from moso.evaluation.halving import decide, fold_rounds, survivors
from moso.run.choosing.decision import (
    Decision,
    decision_path,
    read_decision,
    tried_from,
    write_decision,
    write_decisions_view,
)
from moso.run.choosing.held_out import folds, kept_samples, possible_candidates
from moso.run.choosing.trial import Trial, find_candidate, held_out_metric, split
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.seed_evidence import SeedEvidence
from moso.selection import Kept

# Draws of random selection per fold, whose mean the others are compared with.
RANDOM_DRAWS = 2


@dataclass
class _Contest:
    """The candidates of one seed and ratio, and those that are still in it."""

    job: Job
    seed: int
    ratio: float
    candidates: list[Candidate]
    alive: list[str] = field(default_factory=list)
    tried: dict[str, list[int]] = field(default_factory=dict)

    def trials(self, name: str, fold: int) -> list[Trial]:
        """Return the trials of a candidate on a fold: several draws of random selection, one of any other."""
        draws = RANDOM_DRAWS if name == self.candidates[0].name else 1
        return [Trial(self.seed, self.ratio, fold, name, draw) for draw in range(draws)]

    def values(self, name: str) -> dict[int, float]:
        """Return the value of a candidate on every fold that it was tried on."""
        return {
            fold: float(np.mean([trial.value(self.job) for trial in self.trials(name, fold)]))
            for fold in self.tried[name]
        }


def choose_methods(job: Job, run: Callable[[Sequence[Piece]], None], ratios: Sequence[float]) -> None:
    """Decide what `auto` stands for at every ratio and seed of a run; decisions on disk stay.

    All seeds and ratios go through a round together, so that their trials run in parallel.

    Args:
        job: The job of the run.
        run: Performs pieces that are not complete yet.
        ratios: Shares of samples to remove.
    """
    places = [(seed, ratio) for seed in job.configuration.all_seeds() for ratio in ratios]
    found = possible_candidates(job)
    names = [one.name for one in found]
    open_places = [place for place in places if not decision_path(job, *place).exists()]
    contests = [
        _Contest(job, seed, ratio, found, list(names), {name: [] for name in names}) for seed, ratio in open_places
    ]
    measure = held_out_metric(job, split(job, job.configuration.seed, 0)[0]).measure
    for number, now in enumerate(fold_rounds(len(folds(job.configuration.partitions)))):
        if number:
            for contest in contests:
                values = {name: contest.values(name) for name in contest.alive}
                contest.alive = survivors(values, names[0], measure)
        run([trial for one in contests for name in one.alive for fold in now for trial in one.trials(name, fold)])
        for contest in contests:
            for name in contest.alive:
                contest.tried[name] += now
    for contest in contests:
        write_decision(job, _decided(contest))
    write_decisions_view(job)


def planned_trials(candidates: int, folds: int) -> int:
    """Return the number of trials per ratio and seed, random selection included.

    Example:
        >>> planned_trials(11, 5)
        41
    """
    others, total = candidates - 1, 0
    for number, now in enumerate(fold_rounds(folds)):
        if number:
            others = min(others, max(2, -(-others // 2)))
        total += (others + RANDOM_DRAWS) * len(now)
    return total


def _decided(contest: _Contest) -> Decision:
    job, names = contest.job, [one.name for one in contest.candidates]
    parts = [split(job, contest.seed, fold)[0] for fold in range(len(folds(job.configuration.partitions)))]
    measure = held_out_metric(job, parts[0]).measure
    values = {name: contest.values(name) for name in names}
    verdict = decide(values, names[0], measure, min(map(len, parts)), contest.alive)
    trials = [trial for name in names for fold in contest.tried[name] for trial in contest.trials(name, fold)]
    tried = []
    for one in contest.candidates:
        choice = one.choice
        settings = {**choice.score_settings.model_dump(), **choice.settings.model_dump()}
        score = None if choice.score is None or one.is_random else choice.score.name
        difference, last = verdict.differences.get(one.name), one.name in contest.alive
        tried.append(tried_from(one.name, score, choice.selector.name, settings, values[one.name], difference, last))
    c = job.configuration
    return Decision(
        contest.seed,
        contest.ratio,
        verdict.winner,
        measure.name,
        measure.unit,
        tuple(tried),
        tuple(map(len, parts)),
        len(trials),
        sum(trial.updates(job) for trial in trials),
        bool(c.label_noise or c.labels),
    )


def chosen_samples(evidence: SeedEvidence, ratio: float, keep: NDArray[np.int64], drop: NDArray[np.int64]) -> Kept:
    """Return the samples that the chosen candidate keeps of all training samples; candidates have no weights.

    Args:
        evidence: The evidence of the seed.
        ratio: Share of samples to remove.
        keep: Positions that are kept in any case.
        drop: Positions that are removed in any case.

    Raises:
        MosoError: ``stage-incomplete`` if candidates were not tried at this ratio.
    """
    winner = find_candidate(evidence.job, read_decision(evidence.job, evidence.seed, ratio).winner)
    everything = np.arange(len(evidence.job.data.train))
    return Kept(kept_samples(evidence, winner, ratio, evidence.seed, everything, keep, drop))
