"""MLflow: the scores and the verdict of a run in an MLflow run.

with mlflow.start_run():
    log(pruned)
"""

import tempfile
from pathlib import Path

from moso.files import write_table
from moso.integrations.needed import needed
from moso.integrations.run_log import Loggable, RunLog

with needed("mlflow"):
    import mlflow


def log(what: Loggable, *, prefix: str = "moso", tolerance: float | None = None) -> None:
    """Log samples with their scores as an artifact, retrainings as metrics over the share removed, and the verdict.

    The verdict is the tag `moso.verdict` (its first sentences) and the artifacts `verdict.txt` and `verdict.json`. The
    step of a metric is the share removed, in per cent. Everything goes to the active MLflow run; without one, MLflow
    starts one.

    Args:
        what: A `moso.Run`, the result of `moso.prune`, or scores by name.
        prefix: First part of all names.
        tolerance: Accepted loss of the verdict, in points; None takes that of the run's configuration.

    Raises:
        MosoError: ``wrong-type``, ``stage-incomplete``.
    """
    found = RunLog.of(what, tolerance)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        write_table(path, found.samples)
        mlflow.log_artifact(str(path), prefix)
    for name, removed, value in found.curves():
        mlflow.log_metric(f"{prefix}/{name}", value, step=removed)
    summary = found.summary()
    numbers = {name: float(value) for name, value in summary.items() if not isinstance(value, str)}
    mlflow.log_metrics({f"{prefix}/{name}": value for name, value in numbers.items()})
    words = {name: value for name, value in summary.items() if isinstance(value, str) and name != "verdict"}
    mlflow.set_tags({f"{prefix}.{name}": value for name, value in words.items()})
    if found.verdict is not None:
        mlflow.set_tag(f"{prefix}.verdict", found.verdict.headline)
        mlflow.log_text(f"{found.verdict}\n", f"{prefix}/verdict.txt")
        mlflow.log_dict(found.verdict.to_dict(), f"{prefix}/verdict.json")
