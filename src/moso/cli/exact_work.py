"""The work of `moso exact`: prepare data, network and recipe, then estimate, study or compare, and print."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.cli.display import showing
from moso.cli.exact import RATE, SAMPLES, STEPS, ExactOptions
from moso.cli.exact_tables import print_comparison, print_cost, print_json, print_study
from moso.data.dataset import open_dataset
from moso.data.samples import Samples
from moso.exact.cost import exact_cost
from moso.exact.leave_one_out import exact_scores
from moso.exact.left_out import choose_samples, left_out_positions, named_positions, scaled_inputs
from moso.exact.records import Setting, table_of
from moso.exact.study import GRID_RATES, GRID_STEPS, Comparison, Study, compare_with_approximation, study
from moso.files import write_table
from moso.models import build_model
from moso.progress import Progress
from moso.scores import Form
from moso.training.loop import TrainingData, threads
from moso.training.recipe import TrainingRecipe, load_recipe

# The recipe that --estimate uses by default: the paper's surrogate.
ESTIMATED_RECIPE = "paper-cifar"


@dataclass(frozen=True)
class _Prepared:
    """Data, network and training of the study, as flags describe them."""

    about: Setting
    train: Samples
    data: TrainingData
    network: nn.Module
    recipe: TrainingRecipe
    rates: Sequence[float]
    steps: Sequence[int]
    left_out: NDArray[np.int64]

    def given(self, options: ExactOptions, progress: Progress) -> dict[str, Any]:
        """Return the arguments that all three kinds of work share."""
        return {"seed": options.seed, "evaluation_view": self.train.evaluation_view(), "progress": progress}


def carry_out(options: ExactOptions) -> None:
    """Do what the flags of `moso exact` ask for.

    Raises:
        MosoError: ``setting-invalid``, ``settings-conflict``, ``output-invalid``, ``not-writable``,
            ``classes-required``, and those of `open_dataset`.
    """
    form, dtype = _form(options.form), _dtype(options.precision)
    _check(options)
    prepared = _prepare(options)
    with threads(options.threads), showing(options.quiet or options.as_json) as progress:
        if options.estimate:
            print_cost(prepared.about, _cost(options, prepared, progress), options.as_json)
            return
        comparisons, grid = _compare(options, prepared, form, dtype, progress)
    if options.out is not None:
        write_table(options.out, table_of(prepared.train, comparisons, options.grid))
    if options.as_json:
        print_json(prepared.about, prepared.train, comparisons, None if grid is None else grid.growth)
    elif grid is not None:
        print_study(prepared.about, grid)
    else:
        print_comparison(prepared.about, prepared.train, comparisons[0])
    if options.out is not None and not options.as_json:
        typer.echo(f"scores written to {options.out}")


def _prepare(o: ExactOptions) -> _Prepared:
    found = open_dataset(o.dataset, labels=o.labels, label_noise=o.label_noise, seed=o.seed, resize=o.resize)
    train = scaled_inputs(found.train, o.inputs)
    named = named_positions(train, o.leave_out)
    usual = len(train) if o.estimate else min(SAMPLES, len(train))
    positions = choose_samples(train, usual if o.samples is None else o.samples, o.seed, named)
    size = o.batch_size if o.batch_size is not None else (None if o.recipe or o.estimate else 0)
    base = _recipe(o.recipe if o.recipe or not o.estimate else ESTIMATED_RECIPE, len(positions)).changed(
        batch_size=len(positions) if size == 0 else size, momentum=o.momentum, epochs=o.epochs
    )
    data = TrainingData(train.training_view(base.augmentation, o.seed), positions, train.keys)
    rates, totals = _rates_and_steps(base, data, o)
    if not train.task.by_class:
        raise errors.ClassesRequired(f"the answers of {o.dataset} are numbers; `moso exact` studies classes only")
    about = (o.dataset, o.label_noise, o.inputs, o.model, len(positions), o.recipe or "", base.batch_size)
    return _Prepared(
        about=Setting(*about, base.momentum, o.seed),
        train=train,
        data=data,
        network=build_model(o.model, train.shape, train.task.outputs, o.seed, vocabulary=train.vocabulary),
        recipe=base.changed(learning_rate=rates[0], epochs=-(-totals[0] // data.steps_per_epoch(base.batch_size))),
        rates=rates,
        steps=totals,
        left_out=left_out_positions(train, positions, o.leave_out, named, o.seed),
    )


def _cost(options: ExactOptions, prepared: _Prepared, progress: Progress) -> Any:
    return exact_cost(
        prepared.network,
        prepared.data,
        prepared.recipe,
        total_steps=prepared.steps[0],
        time_steps=options.time_steps or 10,
        **prepared.given(options, progress),
    )


def _compare(
    options: ExactOptions, prepared: _Prepared, form: Form, dtype: torch.dtype, progress: Progress
) -> tuple[list[Comparison], Study | None]:
    """Return the comparisons with exact scores, and the study that they belong to, if one was asked for."""
    what = prepared.network, prepared.data, prepared.recipe
    how = prepared.given(options, progress)
    how |= {"left_out": prepared.left_out, "time_steps": options.time_steps or None, "dtype": dtype}
    if options.grid:
        found = study(*what, rates=prepared.rates, steps=prepared.steps, form=form, **how)
        return list(found.comparisons), found
    scores = exact_scores(*what, total_steps=prepared.steps[0], **how)
    view, positions = how["evaluation_view"], prepared.data.positions
    compared = compare_with_approximation(prepared.network, scores, view, positions, seed=options.seed, form=form)
    return [compared], None


def _recipe(name: str | None, count: int) -> TrainingRecipe:
    if name is not None:
        return load_recipe(name).surrogate
    return TrainingRecipe(epochs=1, batch_size=count, learning_rate=RATE, schedule="constant", momentum=0.0)


def _rates_and_steps(base: TrainingRecipe, data: TrainingData, o: ExactOptions) -> tuple[list[float], list[int]]:
    rates, steps = o.learning_rate, o.steps
    whole = base.epochs * data.steps_per_epoch(base.batch_size)
    if o.grid:
        return rates or list(GRID_RATES), steps or ([whole] if o.epochs else list(GRID_STEPS))
    by_recipe = o.recipe is not None or o.estimate
    return rates or [base.learning_rate], steps or [whole if o.epochs or by_recipe else STEPS]


def _form(form: str) -> Form:
    if form not in ("paper", "centred"):
        raise errors.SettingInvalid(f"--form {form}: it is 'paper' or 'centred'")
    return "paper" if form == "paper" else "centred"


def _dtype(precision: str) -> torch.dtype:
    if precision not in ("float32", "float64"):
        raise errors.SettingInvalid(f"--precision {precision}: it is 'float32' or 'float64'")
    return torch.float32 if precision == "float32" else torch.float64


def _check(o: ExactOptions) -> None:
    """Refuse flags that contradict each other, and a file that cannot be written, before hours of computation."""
    if o.steps and o.epochs:
        raise errors.SettingsConflict("--steps and --epochs both say how long training is; give one of them")
    for total in o.steps or []:
        if total < 1:
            raise errors.SettingInvalid(f"--steps {total}: training needs at least 1 step")
    if o.time_steps < 0:
        raise errors.SettingInvalid(f"--time-steps {o.time_steps}: it is a number of steps, or 0 for all")
    if o.grid and o.estimate:
        raise errors.SettingsConflict("--grid and --estimate exclude each other")
    if not o.grid and max(len(o.steps or []), len(o.learning_rate or [])) > 1:
        raise errors.SettingsConflict("several --steps or --learning-rate need --grid")
    if o.out is not None:
        _check_writable(o.out)


def _check_writable(out: Path) -> None:
    if out.suffix != ".parquet":
        raise errors.OutputInvalid(f"--out {out}: scores are written as Parquet; give a name that ends in .parquet")
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise errors.NotWritable(f"--out {out} cannot be written; choose another place")
