"""Compute and write scores: one file per score with a record of how it was computed, and one table of all scores."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from moso.columns import empty_column
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence.layout import piece_name
from moso.evidence_kinds.registry import needed_kinds
from moso.files import write_table
from moso.methods import find_method
from moso.results.score_files import read_scores, store_score
from moso.run.job import Job
from moso.run.profiling import record_cost
from moso.run.seed_evidence import SeedEvidence
from moso.scores import Score
from moso.settings import Settings


def wanted_scores(methods: Iterable[str]) -> list[str]:
    """Return the names of the scores that methods need, each once."""
    names = (find_method(method).score for method in methods)
    return list(dict.fromkeys(name for name in names if name is not None))


def write_scores(job: Job, seed: int, choices: Iterable[ResolvedMethod]) -> None:
    """Compute and write the scores of these choices for a seed, and update the table of all scores.

    Args:
        job: The job of the run.
        seed: Seed of the surrogates.
        choices: Methods to score; those without a score, and scores that the user imported, are skipped.
    """
    home = job.directory.of_seed(job.configuration, seed)
    given = SeedEvidence(job, seed)
    wanted = {choice.score.name: choice for choice in choices if choice.score is not None and not choice.is_own}
    for name, choice in wanted.items():
        assert choice.score is not None
        with record_cost(job.directory, "values", piece_name(seed, name)):
            values = choice.score(given, choice.score_settings, job.trained_on)
        store_score(home, name, job.data.train.ids, values, _made_by(given, choice.score, choice.score_settings))
    write_view(job, seed)


def _made_by(given: SeedEvidence, score: Score, settings: Settings) -> dict[str, Any]:
    """Return the provenance of a score: the settings that it depends on, and no others."""
    c, needs = given.job.configuration, score.needed(settings)
    found: dict[str, Any] = {"score": score.name, "seed": given.seed}
    kinds = needed_kinds(needs)
    for kind in kinds:
        found |= {**kind.decided(c), **kind.provenance(given)}
    if any(kind.moment not in ("", "steps") for kind in kinds):
        found["epochs"] = c.surrogate.epochs
    if score.options():
        found["settings"] = settings.model_dump()
    return {**found, "needs": sorted(needs), "keep": score.keep, "hard": score.hard, "source": score.source}


def write_view(job: Job, seed: int) -> None:
    """Write `scores.parquet`: one row per sample, one column per score."""
    train, home = job.data.train, job.directory.of_seed(job.configuration, seed)
    part_of = empty_column(len(train), np.int32)
    for part, positions in enumerate(job.partitions(seed)):
        part_of[positions] = part
    # Classes given by the user take precedence over answers that are not classes.
    answers = pa.array(train.labels) if train.task.by_class else train.task.cells(train.targets)
    columns = {"id": train.ids, "label": answers, "partition": pa.array(part_of)}
    columns |= {name: pa.array(values) for name, values in read_scores(home).items()}
    write_table(home / "scores.parquet", pa.table(columns))
