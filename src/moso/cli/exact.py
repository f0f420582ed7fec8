"""`moso exact`: exact leave-one-out against its approximation, and the cost of it on your own data."""

import os
from pathlib import Path
from typing import Annotated

import torch
import typer

from moso import errors
from moso.cli.display import showing
from moso.cli.exact_tables import print_comparison, print_cost, print_json, print_study
from moso.cli.work import local_path
from moso.data.dataset import open_dataset
from moso.exact.cost import exact_cost
from moso.exact.leave_one_out import exact_scores
from moso.exact.left_out import choose_samples, left_out_positions, named_positions, scaled_inputs
from moso.exact.records import Setting, table_of
from moso.exact.study import GRID_RATES, GRID_STEPS, compare_with_approximation, study
from moso.files import write_table
from moso.models import build_model
from moso.scores import Form
from moso.training.loop import TrainingData, threads
from moso.training.recipe import TrainingRecipe, load_recipe

SAMPLES = 200
STEPS = 20
RATE = 0.1
# The recipe that --estimate uses by default: the paper's surrogate.
ESTIMATED_RECIPE = "paper-cifar"


def exact(
    dataset: Annotated[str, typer.Option(help="name or path of the data")] = "digits",
    labels: Annotated[str | None, typer.Option(help="FILE[:KEY] whose labels replace the training labels")] = None,
    label_noise: Annotated[float, typer.Option(help="share of samples that get a label drawn at random")] = 0.1,
    resize: Annotated[int | None, typer.Option(help="pixels every image is scaled and cut to")] = None,
    inputs: Annotated[
        str,
        typer.Option(help="normalised, as networks meet them elsewhere, or plain: pixels in 0..1, numbers as stored"),
    ] = "normalised",
    model: Annotated[str, typer.Option(help="the network")] = "linear",
    samples: Annotated[
        int | None, typer.Option(help=f"samples that make up S [{SAMPLES}; --estimate: all]", show_default=False)
    ] = None,
    leave_out: Annotated[str, typer.Option(help="'all', how many, or ids separated by commas (one id: 'ID,')")] = "all",
    recipe: Annotated[
        str | None, typer.Option(help="train as this recipe's surrogate [plain full-batch descent]", show_default=False)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="epochs of every training", show_default=False)] = None,
    steps: Annotated[
        list[int] | None,
        typer.Option(help=f"updates of every training [{STEPS}]; with --grid repeated", show_default=False),
    ] = None,
    learning_rate: Annotated[
        list[float] | None, typer.Option(help=f"learning rate [{RATE}]; with --grid repeated", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="samples an update, 0 = all of S [0]", show_default=False)
    ] = None,
    momentum: Annotated[float | None, typer.Option(help="momentum [0]", show_default=False)] = None,
    time_steps: Annotated[
        int, typer.Option(help="time steps of the approximation, 0 = all (--estimate: the paper's 10)")
    ] = 0,
    form: Annotated[str, typer.Option(help="form of moso-standardised and moso-rank: paper or centred")] = "paper",
    precision: Annotated[str, typer.Option(help="float32 or float64")] = "float32",
    seed: Annotated[int, typer.Option(help="start, batches and what is sampled")] = 0,
    thread_count: Annotated[int, typer.Option("--threads", min=1, help="threads to compute with")] = 1,
    grid: Annotated[bool, typer.Option("--grid", help="study the error over rates and steps")] = False,
    estimate: Annotated[bool, typer.Option("--estimate", help="only say what exact scores would cost")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="write the scores to FILE.parquet", parser=local_path, metavar="PATH", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="results as JSON, for programs")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Retrain without each sample and hold the true score against the approximation."""
    checked_form, dtype = _form(form), _dtype(precision)
    _check(steps, learning_rate, epochs, time_steps, grid, estimate, out)
    train = open_dataset(dataset, labels=labels, label_noise=label_noise, seed=seed, resize=resize).train
    train = scaled_inputs(train, inputs)
    named = named_positions(train, leave_out)
    if samples is None:
        samples = len(train) if estimate else min(SAMPLES, len(train))
    positions = choose_samples(train, samples, seed, named)
    size = batch_size if batch_size is not None else (None if recipe or estimate else 0)
    base = _recipe(recipe if recipe or not estimate else ESTIMATED_RECIPE, len(positions)).changed(
        batch_size=len(positions) if size == 0 else size, momentum=momentum, epochs=epochs
    )
    data = TrainingData(train.training_view(base.augmentation, seed), positions, train.keys)
    rates, totals = _settings(base, data, learning_rate, steps, epochs, recipe is not None or estimate, grid)
    first = base.changed(learning_rate=rates[0], epochs=-(-totals[0] // data.steps_per_epoch(base.batch_size)))
    if not train.task.by_class:
        raise errors.ClassesRequired(f"the answers of {dataset} are numbers; `moso exact` studies classes only")
    network = build_model(model, train.shape, train.task.outputs, seed, vocabulary=train.vocabulary)
    view = train.evaluation_view()
    about = Setting(
        dataset, label_noise, inputs, model, len(positions), recipe or "", base.batch_size, base.momentum, seed
    )

    with threads(thread_count), showing(quiet or as_json) as progress:
        if estimate:
            cost = exact_cost(
                network,
                data,
                first,
                seed=seed,
                total_steps=totals[0],
                time_steps=time_steps or 10,
                evaluation_view=view,
                progress=progress,
            )
            print_cost(about, cost, as_json)
            return
        left_out = left_out_positions(train, positions, leave_out, named, seed)
        sampled = time_steps or None
        if grid:
            result = study(
                network,
                data,
                first,
                seed=seed,
                rates=rates,
                steps=totals,
                left_out=left_out,
                evaluation_view=view,
                time_steps=sampled,
                form=checked_form,
                dtype=dtype,
                progress=progress,
            )
            comparisons = list(result.comparisons)
        else:
            scores = exact_scores(
                network,
                data,
                first,
                seed=seed,
                total_steps=totals[0],
                left_out=left_out,
                evaluation_view=view,
                time_steps=sampled,
                dtype=dtype,
                progress=progress,
            )
            comparisons = [compare_with_approximation(network, scores, view, positions, seed=seed, form=checked_form)]
    if out is not None:
        write_table(out, table_of(train, comparisons, grid))
    if as_json:
        print_json(about, train, comparisons, result.growth if grid else None)
    elif grid:
        print_study(about, result)
    else:
        print_comparison(about, train, comparisons[0])
    if out is not None and not as_json:
        typer.echo(f"scores written to {out}")


def _recipe(name: str | None, count: int) -> TrainingRecipe:
    if name is not None:
        return load_recipe(name).surrogate
    return TrainingRecipe(epochs=1, batch_size=count, learning_rate=RATE, schedule="constant", momentum=0.0)


def _settings(
    base: TrainingRecipe,
    data: TrainingData,
    rates: list[float] | None,
    steps: list[int] | None,
    epochs: int | None,
    by_recipe: bool,
    grid: bool,
) -> tuple[list[float], list[int]]:
    whole = base.epochs * data.steps_per_epoch(base.batch_size)
    if grid:
        return rates or list(GRID_RATES), steps or ([whole] if epochs else list(GRID_STEPS))
    return rates or [base.learning_rate], steps or [whole if epochs or by_recipe else STEPS]


def _form(form: str) -> Form:
    if form not in ("paper", "centred"):
        raise errors.SettingInvalid(f"--form {form}: it is 'paper' or 'centred'")
    return "paper" if form == "paper" else "centred"


def _dtype(precision: str) -> torch.dtype:
    if precision not in ("float32", "float64"):
        raise errors.SettingInvalid(f"--precision {precision}: it is 'float32' or 'float64'")
    return torch.float32 if precision == "float32" else torch.float64


def _check(
    steps: list[int] | None,
    rates: list[float] | None,
    epochs: int | None,
    time_steps: int,
    grid: bool,
    estimate: bool,
    out: Path | None,
) -> None:
    if steps and epochs:
        raise errors.SettingsConflict("--steps and --epochs both say how long training is; give one of them")
    for total in steps or []:
        if total < 1:
            raise errors.SettingInvalid(f"--steps {total}: training needs at least 1 step")
    if time_steps < 0:
        raise errors.SettingInvalid(f"--time-steps {time_steps}: it is a number of steps, or 0 for all")
    if grid and estimate:
        raise errors.SettingsConflict("--grid and --estimate exclude each other")
    if not grid and max(len(steps or []), len(rates or [])) > 1:
        raise errors.SettingsConflict("several --steps or --learning-rate need --grid")
    if out is not None:
        if out.suffix != ".parquet":
            raise errors.OutputInvalid(f"--out {out}: scores are written as Parquet; give a name that ends in .parquet")
        # Checked now, before hours of computation.
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir() or not os.access(out.parent, os.W_OK):
            raise errors.NotWritable(f"--out {out} cannot be written; choose another place")
