"""Weights & Biases: the scores and the verdict of a run in a W&B run.

with wandb.init(project="pruning"):
    log(pruned)
"""

from moso import errors
from moso.integrations.needed import needed
from moso.integrations.run_log import Loggable, RunLog

with needed("wandb"):
    import wandb


def log(
    what: Loggable,
    run: "wandb.Run | None" = None,
    *,
    prefix: str = "moso",
    rows: int = 10_000,
    tolerance: float | None = None,
) -> None:
    """Log a histogram per score, a table of samples, a table of retrainings, and the verdict as summary.

    Args:
        what: A `moso.Run`, the result of `moso.prune`, or scores by name.
        run: The W&B run; by default the one that `wandb.init` started.
        prefix: First part of all names.
        rows: The table of samples is logged if there are at most so many samples; W&B shows no more than some 10,000.
        tolerance: Accepted loss of the verdict, in points; None takes that of the run's configuration.

    Raises:
        MosoError: ``setting-missing`` without a W&B run, ``wrong-type``, ``stage-incomplete``.
    """
    run = run or wandb.run
    if run is None:
        raise errors.SettingMissing("there is no W&B run; call wandb.init(...) before, or give run=")
    found = RunLog.of(what, tolerance)
    values: dict[str, object] = {
        f"{prefix}/scores/{name}": wandb.Histogram(scores) for name, scores in found.scores.items()
    }
    if found.samples.num_rows <= rows:
        values[f"{prefix}/samples"] = wandb.Table(
            columns=found.samples.column_names, data=[list(row.values()) for row in found.samples.to_pylist()]
        )
    if found.retrainings:
        values[f"{prefix}/retrainings"] = wandb.Table(
            columns=["method", "selector", "removed", "seed", "metric", "value"],
            data=[
                [entry.method, entry.selector, entry.ratio, seed, entry.measure.name, value]
                for entry in found.retrainings
                for seed, value in sorted(entry.by_seed.items())
            ],
        )
    run.log(values)
    run.summary.update({f"{prefix}/{name}": value for name, value in found.summary().items()})
