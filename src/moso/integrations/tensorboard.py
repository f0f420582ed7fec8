"""TensorBoard: the scores and the verdict of a run beside the curves of your training.

with SummaryWriter("runs/board") as writer:
    log(pruned, writer)
"""

from moso.integrations.needed import needed
from moso.integrations.run_log import Loggable, RunLog

with needed("tensorboard", extra="watch"):
    from torch.utils.tensorboard import SummaryWriter


def log(what: Loggable, writer: SummaryWriter, *, prefix: str = "moso", tolerance: float | None = None) -> None:
    """Write a histogram per score, retrainings as scalars over the share removed, and the verdict as text.

    The step of a scalar is the share removed, in per cent.

    Args:
        what: A `moso.Run`, the result of `moso.prune`, or scores by name.
        writer: Where to write.
        prefix: First part of all names.
        tolerance: Accepted loss of the verdict, in points; None takes that of the run's configuration.

    Raises:
        MosoError: ``wrong-type``, ``stage-incomplete``.
    """
    found = RunLog.of(what, tolerance)
    for name, scores in found.scores.items():
        writer.add_histogram(f"{prefix}/scores/{name}", scores)
    for name, removed, value in found.curves():
        writer.add_scalar(f"{prefix}/{name}", value, removed)
    if found.verdict is not None:
        writer.add_text(f"{prefix}/verdict", "\n\n".join(found.verdict.sentences))
    writer.flush()
