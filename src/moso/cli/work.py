"""Shared by the working verbs: opening a job, choosing an executor, locking the directory."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from moso.cli.display import showing
from moso.cli.export import ExportOptions
from moso.cli.options.configuration_flags import QUICK, QUICK_VISITS, RunSettings, configuration_from, says_mix
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.selection_options import SelectionOptions, asked_ratios
from moso.code_trust import allow_code
from moso.configuration import CUSTOM, Configuration
from moso.configuration.class_mix import ClassMix, fitting_mix
from moso.configuration.device import available_device
from moso.configuration.network_settings import network_names
from moso.data.samples import Samples
from moso.evaluation.standings import RANDOM
from moso.evaluation.tolerance import check_tolerance
from moso.results.directory import RunDirectory
from moso.results.overrides import overrides_digest
from moso.results.reading import Run
from moso.results.run_data import Preparation, open_data, prepared
from moso.results.verification import mended
from moso.run.job import Job
from moso.run.stages import Executor, begin, evaluation_pieces, select_stage
from moso.run.work_plan import measuring, training
from moso.selection.share import asked_ratio


def default_out(configuration: Configuration) -> Path:
    """Return the default run directory: a folder named after the data and the configuration."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(configuration.dataset).name).strip("-") or "run"
    return Path("runs") / f"{name}-{configuration.digest()[:8]}"


@contextmanager
def working(
    job: Job, options: ExecutorOptions, stages: Collection[str] = (), networks: bool = True
) -> Iterator[Executor]:
    """Lock and prepare the run directory, and yield an executor for its pieces.

    Under torchrun, processes other than the leading one follow it and exit instead.

    Args:
        job: The job of the run.
        options: Where and how pieces run.
        stages: The stages that will be executed, for the bar of the whole command.
        networks: Whether networks will be needed.
    """
    if not options.leads:
        options.follow(job)
        raise typer.Exit
    if not options.is_remote:
        available_device(job.configuration.device)
    with job.directory.locked():
        mended(job.directory, lambda: begin(job, networks=networks))
        with options.executor_for(job.configuration, _planned(job, stages)) as executor:
            yield executor


def _planned(job: Job, stages: Collection[str]) -> dict[str, int]:
    """Return the number of pieces that are not complete yet, by the label of their stage."""
    needs = job.configuration.needs()
    pieces = [*training(job, needs), *measuring(job, needs), *evaluation_pieces(job)] if stages else []
    return dict(Counter(one.label for one in pieces if one.stage in stages and not one.is_complete(job)))


def open_job(run: str, options: ExecutorOptions | None = None) -> Job:
    """Open the job of an existing run directory; `options.trust` allows code that its file names."""
    directory = RunDirectory.at(run)
    directory.pull()
    configuration = directory.configuration()
    if options is not None and options.trust:
        allow_code(network_names(configuration.model_dump()))
    return Job.open(directory, runtime=None if options is None else options.runtime)


def with_tolerance(job: Job, tolerance: float | None) -> Job:
    """Return the job with another tolerance, which the run then has; None changes nothing.

    Raises:
        SettingInvalid: The tolerance is negative or not finite.
    """
    if tolerance is None:
        return job
    check_tolerance(tolerance)
    return replace(job, configuration=job.configuration.model_copy(update={"tolerance": tolerance}))


def new_job(
    file: Path | None,
    out: str | None,
    options: ExecutorOptions,
    settings: RunSettings,
    defaults: dict[str, Any] | None = None,
    dry_run: bool = False,
) -> Job:
    """Return the job that a file and flags describe, with its data loaded and checked.

    Args:
        file: The TOML file, if there is one.
        out: The run directory; by default that of the file, or one named after data and configuration.
        options: Where and how the pieces run.
        settings: Settings given as flags.
        defaults: Defaults of the verb.
        dry_run: Compute no features.

    Raises:
        MosoError: A setting is invalid, or the data cannot be opened.
    """
    given = {**(defaults or {}), **(QUICK if settings.quick else {})}
    configuration, file_out = configuration_from(file, settings.given, given)
    if options.trust:
        allow_code(network_names(configuration.model_dump()))
    data = open_data(configuration)
    configuration = _with_samples(configuration, settings, len(data.train))
    named = out or file_out
    if not says_mix(file, settings.given):
        # A run from before this setting goes on as it began.
        there = None if named is None else RunDirectory.at(named)
        begun = there is not None and there.configuration_path.exists()
        mix = there.configuration().class_mix if there is not None and begun else _fitting_mix(data.train)
        configuration = configuration.model_copy(update={"class_mix": mix})
    directory = RunDirectory.at(named or default_out(configuration))
    with showing(options.quiet) as progress:
        how = Preparation(progress, placeholder=dry_run)
        data = mended(directory, lambda: prepared(data, configuration, directory, how), locked=False)
    return Job(directory, configuration, data, runtime=options.runtime)


def _fitting_mix(train: Samples) -> ClassMix:
    return fitting_mix(train.labels, train.task.by_class)


def _with_samples(configuration: Configuration, settings: RunSettings, samples: int) -> Configuration:
    """Return the configuration with what depends on the number of samples: `--keep 3000`, the epochs of `--quick`."""
    update: dict[str, Any] = {}
    if settings.keep:
        update["ratios"] = tuple(asked_ratios(settings.given.get("ratios"), settings.keep, samples))
    if settings.quick:
        most = max(3, QUICK_VISITS // samples)
        shorter = {"surrogate": ("epochs",), "retraining": ("epochs", "retrain_epochs")}
        for name, flags in shorter.items():
            recipe = getattr(configuration, name)
            if recipe.epochs > most and not any(flag in settings.given for flag in flags):
                update[name] = recipe.changed(epochs=most)
    changed = configuration.model_copy(update=update)
    changed.check()
    return changed


def asked_selection(run: Run, asked: ExportOptions) -> tuple[str | None, str | None, float | None]:
    """Return the method, selector and ratio to export; a ratio that was not selected yet is selected first.

    Args:
        run: The run.
        asked: The flags of `moso export`.

    Raises:
        MosoError: ``ratio-out-of-range``, ``settings-conflict``, and those of `select_stage`.
    """
    if asked.ratio is None and asked.keep is None:
        return asked.method, asked.selector, None
    ratio = asked_ratio(asked.ratio, asked.keep, run.manifest["dataset"]["train"])
    own = [one for one in run.configuration.methods if one != RANDOM]
    method = asked.method or (own[0] if len(own) == 1 else None)
    digest = "" if asked.overrides is None else overrides_digest(asked.overrides)
    there = [
        one
        for one in run.selections()
        if abs(one.ratio - ratio) < 1e-9
        and method in (None, one.method)
        and asked.selector in (None, one.selector)
        and json.loads(one.parameters).get("overrides", "") == digest
    ]
    if not there and method is not None and run.configuration.dataset != CUSTOM:
        job = open_job(str(run.directory))
        wanted = SelectionOptions(
            method=[method], selector=None if asked.selector is None else [asked.selector], overrides=asked.overrides
        )
        with working(job, ExecutorOptions(workers=1, quiet=True), networks=False):
            select_stage(job, wanted.choices(job), [ratio])
    return method, asked.selector, ratio
