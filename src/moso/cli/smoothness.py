"""`moso smoothness`: whether derivatives of a training run mean anything, before an adjoint is computed."""

from typing import Annotated

import typer

from moso.cli.configuration_flags import RunSettings
from moso.cli.executor_options import ExecutorOptions
from moso.cli.flags import option, with_flags
from moso.cli.panels import SCORING
from moso.cli.run import ConfigArgument

Nudge = Annotated[
    float, option("--nudge", panel=SCORING, help="change of the weights of samples, up or down [default: 0.02]")
]


@with_flags
def smoothness(
    file: ConfigArgument = None, nudge: Nudge = 0.02, *, options: ExecutorOptions, settings: RunSettings
) -> None:
    """Train the surrogate of the first partition three times with nudged weights; nothing is written."""
    from moso.cli.work import new_job
    from moso.exact.smoothness import measure_smoothness
    from moso.training.loop import threads

    job = new_job(file, None, options, settings)
    c = job.configuration
    with threads(c.threads):
        found = measure_smoothness(
            lambda: job.model(c.seed),
            job.training_data(c.surrogate, job.partitions(c.seed)[0], c.seed),
            c.surrogate,
            c.seed,
            loss=job.loss,
            nudge=nudge,
            window=c.window,
            loader_workers=options.loader_workers,
        )
    typer.echo(found.sentence())
