"""Scores on disk: one file a score that says what made it, and a view over all in dataset order."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from moso.data.samples import Samples
from moso.errors import MosoError
from moso.evidence import PartitionTerms, read_terms, terms_path
from moso.files import write_json, write_table
from moso.methods import find_method
from moso.run.job import Job
from moso.run.pieces import part_name
from moso.scores import ScoreInput, find_score


def wanted_scores(methods: list[str]) -> list[str]:
    """The names of the scores that methods need, each once."""
    return list(dict.fromkeys(find_method(method).score for method in methods))


def read_partition_terms(job: Job, seed: int) -> list[PartitionTerms]:
    """The stored terms of every partition under a seed."""
    home = job.directory.of_seed(job.configuration, seed)
    found = []
    for part, positions in enumerate(job.partitions(seed)):
        steps = job.time_steps(positions, seed).tolist()
        paths = [terms_path(home / "terms" / part_name(part), step) for step in steps]
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise MosoError(f"{missing[0]} is missing: partition {part} was not scored; run `moso score` first")
        found.append(PartitionTerms(job.total_steps(positions), [read_terms(path) for path in paths]))
    return found


def write_scores(job: Job, seed: int, names: list[str]) -> None:
    """Compute and write the scores of these names under a seed, and the view over them."""
    c, train = job.configuration, job.data.train
    home = job.directory.of_seed(c, seed)
    needs_terms = any(find_score(name).needs == "terms" for name in names)
    terms = read_partition_terms(job, seed) if needs_terms else []
    given = ScoreInput(train.keys, job.partitions(seed), terms, c.form, seed)
    for name in names:
        values = find_score(name).compute(given)
        if np.isnan(values).any():
            raise MosoError(f"score {name} left sample {train.ids[int(np.argmax(np.isnan(values)))]} without a value")
        write_table(home / "scores" / f"{name}.parquet", pa.table({"id": train.ids, "score": values}))
        made_by = {"score": name, "seed": seed, "form": c.form, "partitions": c.partitions, "time_steps": c.time_steps}
        steps = [[step.step for step in part.steps] for part in terms]
        totals = [part.total_steps for part in terms]
        write_json(
            home / "scores" / f"{name}.json",
            {
                **made_by,
                "sampling": c.sampling,
                "parameters": c.parameters,
                "estimator": c.estimator,
                "total_steps": totals,
                "steps": steps,
            },
        )
    _write_view(job, seed, home)


def _write_view(job: Job, seed: int, home: Path) -> None:
    train = job.data.train
    part_of = np.empty(len(train), dtype=np.int32)
    for part, positions in enumerate(job.partitions(seed)):
        part_of[positions] = part
    columns = {"id": train.ids, "label": _answers(train), "partition": pa.array(part_of)}
    columns |= {name: pa.array(values) for name, values in read_scores(home).items()}
    write_table(home / "scores.parquet", pa.table(columns))


def _answers(samples: Samples) -> pa.Array:
    """Class indices; where there are no classes the numbers to predict, or nothing."""
    if samples.classes:
        return pa.array(samples.labels)
    return pa.nulls(len(samples)) if samples.targets is None else pa.array(samples.targets.tolist())


def read_scores(home: Path) -> dict[str, NDArray[np.float64]]:
    """Every score below a seed's folder, by name, in dataset order."""
    names = sorted(path.stem for path in (home / "scores").glob("*.parquet"))
    return {name: pq.read_table(home / "scores" / f"{name}.parquet")["score"].to_numpy() for name in names}
