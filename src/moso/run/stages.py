"""The stages of a run, each of which does what is not done yet: train, score, select, evaluate."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

from moso.data.samples import outputs
from moso.errors import MosoError
from moso.methods import find_method
from moso.run.cells import FULL, Cell, write_cells_view
from moso.run.directory import surroundings
from moso.run.job import Job
from moso.run.pieces import Piece, is_complete, part_name, record_initial_state
from moso.run.scores import read_scores, wanted_scores, write_scores
from moso.run.selections import Selection, write_selection, write_selections_view
from moso.selection import select

Pair = tuple[str, str]


class Executor(Protocol):
    """Where pieces run."""

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Do all pieces, in any order and side by side; the first error stops the rest and is raised."""


def begin(job: Job) -> None:
    """See that the plan can work and that the directory and the data are those the run began with.

    Nothing is written before all of it is found in order. The caller holds the directory's lock.
    """
    job.check()
    job.directory.settle(job.configuration)
    fingerprint = {"train": job.data.train.fingerprint()}
    if job.data.test is not None:
        fingerprint["test"] = job.data.test.fingerprint()
    before = job.directory.manifest().get("dataset")
    if before is not None and before["fingerprint"] != fingerprint:
        raise MosoError(
            f"the data of {job.configuration.dataset} is not what it was when {job.directory.root} was begun "
            "(its fingerprint differs); use another --out for the new data"
        )
    if before is None:
        c, train = job.configuration, job.data.train
        job.directory.note(
            dataset={
                "name": c.dataset,
                "fingerprint": fingerprint,
                "train": len(train),
                "test": 0 if job.data.test is None else len(job.data.test),
                "classes": list(train.classes),
                "outputs": outputs(train),
                "numbers": train.targets is not None,
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


def _drawn_ids(job: Job) -> list[int | str]:
    if job.data.noisy is None:
        return []
    ids: list[int | str] = job.data.train.ids.filter(job.data.noisy).to_pylist()
    return ids


def train_stage(job: Job, executor: Executor) -> None:
    """Train the surrogates of all partitions under all seeds."""
    for seed in job.configuration.all_seeds():
        record_initial_state(job, seed)
    _perform(job, executor, _partition_pieces(job, "train"))


def score_stage(job: Job, executor: Executor, methods: list[str] | None = None) -> None:
    """Measure the step terms and write the scores of all seeds."""
    _perform(job, executor, _partition_pieces(job, "score"))
    names = wanted_scores(methods or [method for method, _ in job.configuration.pairs()])
    for seed in job.configuration.all_seeds():
        write_scores(job, seed, names)


def select_stage(job: Job, pairs: Sequence[Pair] = (), ratios: Sequence[float] = ()) -> None:
    """Choose what each (method, selector) pair keeps at each ratio under each seed."""
    c, train = job.configuration, job.data.train
    for seed in c.all_seeds():
        scores = read_scores(job.directory.of_seed(c, seed))
        for method, selector in pairs or c.pairs():
            name = find_method(method).score
            if name not in scores:
                raise MosoError(f"score {name} is not in {job.directory.root}; run `moso score` first")
            for ratio in ratios or c.ratios:
                kept = select(
                    scores[name],
                    ratio=ratio,
                    labels=train.labels if train.classes else None,
                    selector=selector,
                    seed=seed,
                    ids=train.ids.to_numpy(zero_copy_only=False),
                )
                write_selection(job.directory.root, Selection(method, selector, ratio, seed), train.ids, kept)
    write_selections_view(job.directory.root)
    _stage_done(job, "select")


def evaluate_stage(job: Job, executor: Executor, pairs: Sequence[Pair] = (), ratios: Sequence[float] = ()) -> None:
    """Retrain on what every selection keeps, and on all data; test each."""
    if job.data.test is None:
        raise MosoError("there is no test data to measure anything on")
    _perform(job, executor, evaluation_pieces(job, pairs, ratios))
    write_cells_view(job.directory.root)


def evaluation_pieces(job: Job, pairs: Sequence[Pair] = (), ratios: Sequence[float] = ()) -> list[Piece]:
    """The retrainings of this run, full data first."""
    c = job.configuration
    cells = []
    for seed in c.all_seeds():
        network = c.retrain_model or c.model
        cells.append(Cell(FULL, "none", 0.0, seed, network, c.recipe, c.match))
        for method, selector in pairs or c.pairs():
            cells += [Cell(method, selector, ratio, seed, network, c.recipe, c.match) for ratio in ratios or c.ratios]
    # The longest first, so that no worker is left alone with one at the end.
    cells.sort(key=lambda cell: cell.ratio)
    return [Piece("evaluate", cell.digest(), {"cell": asdict(cell)}) for cell in cells]


def _partition_pieces(job: Job, stage: str) -> list[Piece]:
    return [
        Piece(stage, f"seed-{seed}/{part_name(part)}", {"seed": seed, "part": part})
        for seed in job.configuration.all_seeds()
        for part in range(job.configuration.partitions)
    ]


def _perform(job: Job, executor: Executor, pieces: list[Piece]) -> None:
    open_pieces = [piece for piece in pieces if not is_complete(job, piece)]
    if open_pieces:
        job.directory.event("begun", stage=pieces[0].stage, pieces=len(open_pieces))
        executor.run(job, open_pieces)
    _stage_done(job, pieces[0].stage)


def _stage_done(job: Job, stage: str) -> None:
    stages = job.directory.manifest().get("stages", {})
    stages[stage] = {"complete": True, "seconds": round(sum(job.directory.seconds(stage).values()), 3)}
    job.directory.note(stages=stages)
    job.directory.event("complete", stage=stage)
