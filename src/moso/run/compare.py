"""A comparison: all stages of a run, with scores and lists that the user brought as further rows."""

from collections.abc import Sequence
from pathlib import Path

from moso.evaluation.compare import RANDOM
from moso.run.job import Job
from moso.run.own import find_choice, find_choices, keep_list, keep_scores, own_positions, own_scores
from moso.run.stages import Executor, evaluate_stage, score_stage, select_stage, train_stage

# What the user brings: its name and its file.
Named = Sequence[tuple[str, Path]]


def check_own(job: Job, scores: Named, lists: Named) -> None:
    """Refuse scores and lists that cannot be read, before anything is computed."""
    for _, file in scores:
        own_scores(file, job.data.train)
    for _, file in lists:
        own_positions(file, job.data.train)


def compare(job: Job, executor: Executor, scores: Named = (), lists: Named = ()) -> None:
    """Train, score, select and retrain; what is done already is not done again."""
    c = job.configuration
    for name, file in scores:
        keep_scores(job, name, file)
    own = [find_choice(job, name, selector) for name, _ in scores for selector in c.selectors or (None,)]
    kept = [keep_list(job, name, file) for name, file in lists]
    # What cannot be is refused now, before hours of training.
    choices = find_choices(job, [*c.choices(), *own])
    train_stage(job, executor, choices)
    score_stage(job, executor, choices)
    select_stage(job, choices)
    evaluate_stage(job, executor, [*choices, *(choice for choice, _ in kept)])
    # A list of a size of its own needs random selections of that size to be held against.
    sizes = sorted({ratio for _, ratio in kept} - set(c.ratios))
    if sizes:
        random = [choice for choice in choices if choice.method == RANDOM]
        select_stage(job, random, sizes)
        evaluate_stage(job, executor, random, sizes)
