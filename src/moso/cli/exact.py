"""`moso exact`: exact leave-one-out against its approximation. `moso smoothness`: can training be differentiated?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from moso.cli.options.configuration_flags import RunSettings
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.flags import Flags, Json, Quiet, local_option, option, with_flags
from moso.cli.options.panels import DATA, NETWORK, PLACE, SCORING
from moso.cli.run import ConfigArgument

SAMPLES = 200
STEPS = 20
RATE = 0.1


@dataclass(frozen=True)
class ExactOptions(Flags):
    """Data, network and training of the study, what is left out, and what is printed."""

    dataset: Annotated[str, option("--dataset", panel=DATA, help="name or path of the data")] = "digits"
    labels: Annotated[
        str | None,
        option(
            "--labels", panel=DATA, help="FILE[:KEY] of labels that replace the training labels", show_default=False
        ),
    ] = None
    label_noise: Annotated[
        float, option("--label-noise", panel=DATA, help="share of samples that get a random label")
    ] = 0.1
    resize: Annotated[
        int | None, option("--resize", panel=DATA, help="pixels that every image is scaled and cropped to")
    ] = None
    inputs: Annotated[
        str, option("--inputs", panel=DATA, help="normalised, or plain: pixels in 0..1, numbers as stored")
    ] = "normalised"
    samples: Annotated[
        int | None,
        option("--samples", panel=DATA, help=f"samples that make up S [default: {SAMPLES}; --estimate: all]"),
    ] = None
    leave_out: Annotated[
        str,
        option("--leave-out", panel=DATA, help="'all', a number, or ids separated by commas (one id: 'ID,')"),
    ] = "all"
    model: Annotated[str, option("--model", panel=NETWORK, help="network")] = "linear"
    recipe: Annotated[
        str | None,
        option("--recipe", panel=NETWORK, help="recipe of the surrogates [default: plain full-batch descent]"),
    ] = None
    epochs: Annotated[int | None, option("--epochs", panel=NETWORK, help="epochs of every training")] = None
    steps: Annotated[
        list[int] | None,
        option("--steps", panel=NETWORK, help=f"updates of every training; repeated with --grid [default: {STEPS}]"),
    ] = None
    learning_rate: Annotated[
        list[float] | None,
        option("--learning-rate", panel=NETWORK, help=f"learning rate; repeated with --grid [default: {RATE}]"),
    ] = None
    batch_size: Annotated[
        int | None, option("--batch-size", panel=NETWORK, help="samples per update, 0 for all of S [default: 0]")
    ] = None
    momentum: Annotated[float | None, option("--momentum", panel=NETWORK, help="momentum [default: 0]")] = None
    time_steps: Annotated[
        int,
        option(
            "--time-steps",
            panel=SCORING,
            help="time steps of the approximation, 0 for all [default: 0; --estimate: the paper's 10]",
        ),
    ] = 0
    form: Annotated[
        str, option("--form", panel=SCORING, help="form of moso-standardised and moso-rank: paper or centred")
    ] = "paper"
    precision: Annotated[str, option("--precision", panel=SCORING, help="float32 or float64")] = "float32"
    seed: Annotated[int, option("--seed", panel=SCORING, help="seed of start, batches and sampling [default: 0]")] = 0
    grid: Annotated[bool, option("--grid", panel=SCORING, help="study the error over rates and steps")] = False
    estimate: Annotated[bool, option("--estimate", panel=SCORING, help="only estimate the cost of exact scores")] = (
        False
    )
    threads: Annotated[int, option("--threads", panel=PLACE, min=1, help="threads to compute with")] = 1
    out: Annotated[Path | None, local_option("--out", help="write the scores to FILE.parquet")] = None
    as_json: Json = False
    quiet: Quiet = False


@with_flags
def exact(options: ExactOptions) -> None:
    """Retrain without each sample and compare the true score with the approximation."""
    from moso.cli.exact_work import carry_out

    carry_out(options)


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
