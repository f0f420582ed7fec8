"""The stages of a run: train, score, select, evaluate. Each stage performs the pieces that are not complete yet."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.configuration.resolved_method import ResolvedMethod, all_needs
from moso.evaluation.standings import RANDOM
from moso.evidence_kinds.registry import needed_kinds
from moso.evidence_kinds.step_terms import TERMS
from moso.methods.auto import AUTO
from moso.results.directory import surroundings
from moso.results.overrides import find_overrides
from moso.results.retrainings import FULL, Retraining, write_retrainings_view
from moso.results.score_files import read_scores
from moso.results.selections import Selection, write_selection, write_selections_view
from moso.run.choosing import choose_methods, chosen_samples
from moso.run.computed_scores import write_scores
from moso.run.imported_scores import (
    LISTED,
    Pair,
    find_choice,
    find_choices,
    import_list,
    import_scores,
    ratios_of,
    read_imported_list,
    read_imported_scores,
)
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.profiling import record_cost
from moso.run.retraining_piece import Retrain
from moso.run.rounds import goes_in_rounds, kept_after_rounds, write_trained_on
from moso.run.seed_evidence import SeedEvidence
from moso.run.sharding import sharded_rounds
from moso.run.training import record_initial_state
from moso.run.work_plan import measuring, training
from moso.selection import Kept, select_weighted

# A method and selector, resolved or by name.
Chosen = ResolvedMethod | Pair


class Executor(Protocol):
    """Runs pieces somewhere: in this process, in others, on a cluster."""

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Perform all pieces, in any order and in parallel; the first error stops the rest and is raised."""


def begin(job: Job, networks: bool = True) -> None:
    """Check that the run is possible and that directory and data are unchanged since its start; write the manifest.

    All checks come before the first write, and the manifest is pushed before any work. The caller holds the lock of the
    directory.

    Args:
        job: The job of the run.
        networks: Whether networks will be needed; otherwise none is built, and no code of a stranger's run.

    Raises:
        MosoError: ``data-changed``, ``run-differs``, ``not-a-run``, and those of `Job.check`.
    """
    job.check(networks)
    for kind in needed_kinds(job.configuration.needs()):
        kind.check(job.configuration, job.data.train)
    for choice in job.configuration.choices():
        labels = job.data.train.labels if job.task.by_class else None
        choice.selector.check_samples(choice.settings, labels, len(job.data.train))
    job.directory.settle(job.configuration)
    fingerprint = {"train": job.data.train.fingerprint()}
    if job.data.test is not None:
        fingerprint["test"] = job.data.test.fingerprint()
    if job.data.validation is not None:
        fingerprint["validation"] = job.data.validation.fingerprint()
    if job.data.original is not None:
        fingerprint["original"] = job.data.original.train.fingerprint()
    before = job.directory.manifest().get("dataset")
    known = job.directory.known_data() if before is None else before["fingerprint"]
    if known is not None and known != fingerprint:
        raise errors.DataChanged(
            f"the data of {job.configuration.dataset} is not what it was when {job.directory} was begun "
            "(its fingerprint differs); use another directory (out) for the new data"
        )
    if before is None:
        if known is None:
            job.directory.event("data", fingerprint=fingerprint)
        c, train = job.configuration, job.data.train
        job.directory.note(
            dataset={
                "name": c.dataset,
                "fingerprint": fingerprint,
                "train": len(train),
                "test": 0 if job.data.test is None else len(job.data.test),
                **job.task.note(),
                "shape": list(train.shape),
                "vocabulary": train.vocabulary,
                "labels_drawn_at_random": _drawn_ids(job),
            },
            **surroundings(),
            seeds=c.all_seeds(),
            threads=c.threads,
            recipe=c.recipe,
            stages={},
        )
    job.directory.push()


def _drawn_ids(job: Job) -> list[int | str]:
    if job.data.noisy is None:
        return []
    ids: list[int | str] = job.data.train.ids.filter(job.data.noisy).to_pylist()
    return ids


def train_stage(job: Job, executor: Executor, choices: Sequence[Chosen] = ()) -> None:
    """Train the networks whose evidence these choices need, for all seeds.

    Args:
        job: The job of the run.
        executor: Runs the pieces.
        choices: Methods and selectors; none stands for those of the run.
    """
    _train(job, executor, all_needs(find_choices(job, choices)))


def score_stage(job: Job, executor: Executor, choices: Sequence[Chosen] = (), ratios: Sequence[float] = ()) -> None:
    """Collect the evidence that these choices need and write their scores for all seeds.

    Args:
        job: The job of the run.
        executor: Runs the pieces.
        choices: Methods and selectors; none stands for those of the run.
        ratios: Shares of samples to remove at which `auto` tries candidates; none stands for those of the run.
    """
    chosen = find_choices(job, choices)
    gather(job, executor, all_needs(chosen))
    for seed in job.configuration.all_seeds():
        write_scores(job, seed, chosen)
    for choice in chosen:
        if goes_in_rounds(job, choice):
            _later_rounds(job, executor, choice)
    if any(choice.method == AUTO for choice in chosen):
        choose_methods(job, partial(_perform, job, executor, "score"), ratios or job.configuration.ratios)
        job.directory.push()


def _later_rounds(job: Job, executor: Executor, choice: ResolvedMethod) -> None:
    """Train, score and select in every round but the first, for all seeds and ratios."""

    def score(later: Job) -> None:
        with later.directory.locked():
            begin(later)
            write_trained_on(later)
            score_stage(later, executor, [choice])

    for seed in job.configuration.all_seeds():
        for ratio in job.configuration.ratios:
            kept_after_rounds(job, choice, seed, ratio, partial(_kept, choice), score)


def gather(job: Job, executor: Executor, needs: frozenset[str]) -> None:
    """Train networks and measure evidence until the evidence of these names is on disk."""
    _train(job, executor, needs)
    if TERMS.name in needs and job.configuration.shard_size:
        _score_shards(job, executor)
    _perform(job, executor, "score", measuring(job, needs))


def _score_shards(job: Job, executor: Executor) -> None:
    """Compute the step terms of all partitions shard by shard."""
    waiting = [[piece for piece in one if not piece.is_complete(job)] for one in sharded_rounds(job)]
    if any(waiting):
        job.directory.event("begun", stage="score", pieces=sum(map(len, waiting)))
        job.directory.push()
    for pieces in waiting:
        if pieces:
            executor.run(job, pieces)


def _train(job: Job, executor: Executor, needs: frozenset[str]) -> None:
    for seed in job.configuration.all_seeds():
        record_initial_state(job, seed)
    _perform(job, executor, "train", training(job, needs))


def select_stage(job: Job, choices: Sequence[Chosen] = (), ratios: Sequence[float] = ()) -> None:
    """Select the kept samples per choice, ratio and seed; imported lists are selections already.

    Args:
        job: The job of the run.
        choices: Methods and selectors; none stands for those of the run.
        ratios: Shares of samples to remove; none stands for those of the run.

    Raises:
        MosoError: ``stage-incomplete`` if scores or evidence are missing.
    """
    c, train = job.configuration, job.data.train
    chosen = [choice for choice in find_choices(job, choices) if choice.selector.name != LISTED]
    for choice in chosen:
        _check_evidence(job, choice)
    for seed in c.all_seeds():
        evidence = SeedEvidence(job, seed)
        scores = read_scores(evidence.home)
        for choice in chosen:
            name = None if choice.score is None else choice.score.name
            if name is not None and name not in scores:
                raise errors.StageIncomplete(f"score {name} is not in {job.directory}; run `moso score` first")
            keeping = _keeping(evidence, choice, None if name is None else scores[name])
            for ratio in ratios or c.ratios:
                made_by = Selection(choice.method, choice.selector.name, ratio, seed, choice.parameters)
                with record_cost(job.directory, "select", made_by.digest()):
                    kept = keeping(ratio)
                write_selection(job.directory.root, made_by, train.ids, kept)
    write_selections_view(job.directory.root)
    _stage_done(job, "select")


def _keeping(
    evidence: SeedEvidence, choice: ResolvedMethod, scores: NDArray[np.float64] | None
) -> Callable[[float], Kept]:
    """Return the function from a ratio to the samples that a choice keeps."""
    job, seed = evidence.job, evidence.seed
    decided = find_overrides(job.directory.root, choice.overrides, job.data.train)
    if choice.method == AUTO:
        return lambda ratio: chosen_samples(evidence, ratio, decided.keep, decided.drop)
    if goes_in_rounds(job, choice):
        return lambda ratio: kept_after_rounds(job, choice, seed, ratio, partial(_kept, choice))
    return lambda ratio: _kept(choice, evidence, scores, ratio, decided.drop, decided.keep)


def _kept(
    choice: ResolvedMethod,
    evidence: SeedEvidence,
    scores: NDArray[np.float64] | None,
    ratio: float,
    drop: NDArray[np.int64],
    keep: NDArray[np.int64] | None = None,
) -> Kept:
    """Return the samples that a choice keeps at a ratio; `drop` and `keep` are decided already."""
    return select_weighted(
        scores,
        ratio=ratio,
        selector=choice.selector,
        seed=evidence.seed,
        ids=evidence.job.data.train.ids.to_numpy(zero_copy_only=False),
        min_per_class=choice.min_per_class,
        always_keep=() if keep is None else keep,
        always_drop=drop,
        settings=choice.settings.model_dump(),
        **evidence.for_selector(choice),
    )


def _check_evidence(job: Job, choice: ResolvedMethod) -> None:
    """Refuse a choice whose selector lacks evidence; the message names the command that collects it."""
    asked = choice.selector_needs() - {"labels"}
    pieces = [*training(job, asked), *measuring(job, asked)]
    if not all(piece.is_complete(job) for piece in pieces):
        named = f"--method {choice.method} --selector {choice.selector.name}"
        raise errors.StageIncomplete(
            f"selector {choice.selector.name!r} needs {', '.join(sorted(asked))}, which {job.directory} does not "
            f"have yet; run `moso score {job.directory} {named}` first"
        )


def evaluate_stage(job: Job, executor: Executor, choices: Sequence[Chosen] = (), ratios: Sequence[float] = ()) -> None:
    """Retrain on the samples that every selection keeps and on all data, and test each network.

    Args:
        job: The job of the run.
        executor: Runs the pieces.
        choices: Methods and selectors; none stands for those of the run.
        ratios: Shares of samples to remove; none stands for those of the run.

    Raises:
        MosoError: ``split-missing`` without test data.
    """
    check_measurable(job)
    if job.data.test is None:
        raise errors.SplitMissing("there is no test data to evaluate on")
    _perform(job, executor, "evaluate", evaluation_pieces(job, choices, ratios))
    write_retrainings_view(job.directory.root)


def check_measurable(job: Job) -> None:
    """Refuse to retrain and test on data without labels.

    Raises:
        MosoError: ``labels-missing``.
    """
    if not job.task.has_answers:
        raise errors.LabelsMissing(
            f"{job.configuration.dataset} has no labels, so nothing can be retrained or measured; moso run selects "
            "samples, and moso export writes what is kept"
        )


def evaluation_pieces(job: Job, choices: Sequence[Chosen] = (), ratios: Sequence[float] = ()) -> list[Piece]:
    """Return the retrainings of this run including baselines, full data first."""
    c, chosen = job.configuration, find_choices(job, choices)
    if not job.task.has_answers:
        return []
    retrainings = []
    for seed in c.all_seeds():
        network, recipe = c.retrained_network, c.retrain_recipe or c.recipe
        retrainings.append(Retraining(FULL, "none", 0.0, seed, network, recipe, c.match))
        for match in c.matches:
            for choice in chosen:
                name = choice.selector.name
                retrainings += [
                    Retraining(choice.method, name, ratio, seed, network, recipe, match, choice.parameters)
                    for ratio in ratios_of(job, choice, ratios)
                ]
            retrainings += [
                Retraining(name, "none", ratio, seed, network, recipe, match)
                for ratio in ratios or c.ratios
                for name in c.retrained_baselines(match)
            ]
    # The longest first, so that the other workers do not idle at the end while one finishes a long retraining.
    retrainings.sort(key=lambda retraining: retraining.ratio)
    return [Retrain(retraining) for retraining in retrainings]


def _perform(job: Job, executor: Executor, stage: str, pieces: Sequence[Piece]) -> None:
    """Perform the incomplete pieces of a stage; pieces that depend on others belong in a later call."""
    open_pieces = [piece for piece in pieces if not piece.is_complete(job)]
    assert all(piece.stage == stage for piece in pieces), "a stage has pieces of its own"
    if open_pieces:
        job.directory.event("begun", stage=stage, pieces=len(open_pieces))
        job.directory.push()
        executor.run(job, open_pieces)
    _stage_done(job, stage)


def _stage_done(job: Job, stage: str) -> None:
    stages = job.directory.manifest().get("stages", {})
    stages[stage] = {"complete": True, "seconds": round(sum(job.directory.seconds(stage).values()), 3)}
    job.directory.note(stages=stages)
    job.directory.event("complete", stage=stage)
    job.directory.push()


# Scores or lists to import: name and file of each.
Named = Sequence[tuple[str, Path]]


def check_own(job: Job, scores: Named, lists: Named) -> None:
    """Refuse scores and lists of the user that cannot be read, before anything is computed.

    Raises:
        MosoError: Those of `read_imported_scores` and `read_imported_list`.
    """
    for _, file in scores:
        read_imported_scores(file, job.data.train)
    for _, file in lists:
        read_imported_list(file, job.data.train)


def compare(job: Job, executor: Executor, scores: Named = (), lists: Named = ()) -> None:
    """Train, score, select and retrain; complete pieces are skipped.

    Args:
        job: The job of the run.
        executor: Runs the pieces.
        scores: Scores of the user to compare with.
        lists: Lists of kept samples of the user to compare with.
    """
    c = job.configuration
    check_measurable(job)
    for name, file in scores:
        import_scores(job, name, file)
    own = [find_choice(job, name, selector) for name, _ in scores for selector in c.selectors or (None,)]
    kept = [import_list(job, name, file) for name, file in lists]
    # Refuses impossible choices now, before hours of training.
    choices = find_choices(job, [*c.choices(), *own])
    train_stage(job, executor, choices)
    score_stage(job, executor, choices)
    select_stage(job, choices)
    evaluate_stage(job, executor, [*choices, *(choice for choice, _ in kept)])
    # A list whose size matches no ratio of the run is compared with random selections of the same size.
    sizes = sorted({ratio for _, ratio in kept} - set(c.ratios))
    if sizes:
        random = [choice for choice in choices if choice.method == RANDOM]
        select_stage(job, random, sizes)
        evaluate_stage(job, executor, random, sizes)
