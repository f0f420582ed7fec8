"""Rounds of dropping: train on what is still kept, score all samples, drop a part, and again.

After round `r` of `R` a share `r / R` of what is to be removed is gone. A later round is an ordinary run of one seed,
one method and one ratio below `rounds/`, whose surrogates are trained on the samples that are still kept
(`trained-on.npy`). Dropped samples stay in the risk: step terms are those of all samples of a partition, so a surrogate
that was trained on what is kept is judged by everything. What is dropped stays dropped. The first round is the run
itself.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence import arrays
from moso.methods.auto import AUTO
from moso.results.directory import RunDirectory
from moso.results.score_files import read_scores
from moso.results.selections import Selection
from moso.run.job import TRAINED_ON, Job
from moso.run.seed_evidence import SeedEvidence
from moso.run.training import computed
from moso.selection import Kept

# Samples that one round keeps, given the evidence and scores of the round, the share removed so far and what was
# dropped before.
Keep = Callable[[SeedEvidence, NDArray[np.float64], float, NDArray[np.int64]], Kept]


def goes_in_rounds(job: Job, choice: ResolvedMethod) -> bool:
    """Return whether a choice is made in several rounds: it has a score of ours that changes with what is kept."""
    drawn = choice.method in (AUTO, "random")
    return job.configuration.rounds > 1 and choice.score is not None and not choice.is_own and not drawn


def round_ratios(ratio: float, rounds: int) -> list[float]:
    """Return the shares of the samples that are removed after each round.

    Example:
        >>> round_ratios(0.8, 4)
        [0.2, 0.4, 0.6, 0.8]
    """
    return [round(ratio * number / rounds, 12) for number in range(1, rounds)] + [ratio]


def kept_after_rounds(
    job: Job, choice: ResolvedMethod, seed: int, ratio: float, keep: Keep, score: Callable[[Job], None] | None = None
) -> Kept:
    """Return the samples that are kept after the last round; weights, if there are any, are those of that round.

    Args:
        job: The job of the run; its scores are those of the first round.
        choice: The method and selector.
        seed: The seed.
        ratio: Share of samples to remove in all.
        keep: Selects the samples that a round keeps.
        score: Computes the scores of a later round's job, unless they are on disk; None requires that they are.

    Raises:
        MosoError: ``stage-incomplete`` without `score`, if a round has no scores yet.
    """
    assert choice.score is not None, "only scores change from round to round"
    count, name = len(job.data.train), choice.score.name
    current, kept = job, Kept(np.arange(count))
    for number, share in enumerate(round_ratios(ratio, job.configuration.rounds), 1):
        if number > 1:
            current = _round_job(job, choice, seed, ratio, number, kept.positions)
            if score is not None:
                score(current)
                spent = sum(current.directory.seconds("train").values()) + sum(
                    current.directory.seconds("score").values()
                )
                computed(job, "score", f"seed-{seed}/round-{number}", spent)
        scores = read_scores(current.directory.of_seed(current.configuration, seed))
        if name not in scores:
            raise errors.StageIncomplete(
                f"round {number} of score {name} is not in {job.directory}; run `moso score` first"
            )
        dropped = np.setdiff1d(np.arange(count), kept.positions)
        kept = keep(SeedEvidence(current, seed), scores[name], share, dropped)
    return kept


def write_trained_on(job: Job) -> None:
    """Write which samples the networks of a later round are trained on, for other processes that open its folder."""
    path = job.directory.root / TRAINED_ON
    assert job.trained_on is not None, "the first round is trained on all samples"
    if not path.exists():
        arrays.write(path, job.trained_on)


def _round_job(job: Job, choice: ResolvedMethod, seed: int, ratio: float, number: int, kept: NDArray[np.int64]) -> Job:
    """Return the job of a later round, whose networks are trained on the samples that are still kept."""
    made_by = Selection(choice.method, choice.selector.name, ratio, seed, choice.parameters)
    root = job.directory.root / "rounds" / made_by.digest() / f"round-{number}"
    trained_on = np.zeros(len(job.data.train), dtype=bool)
    trained_on[kept] = True
    configuration = job.configuration.model_copy(
        update={"seed": seed, "seeds": 1, "rounds": 1, "ratios": (ratio,), "methods": (choice.method,)}
    )
    directory = RunDirectory(root, job.directory.writer)
    return Job(directory, configuration, job.data, job.build, job.runtime, job.own_risk, trained_on)
