"""`prune`: the whole job, from data in memory to the samples to keep and the proof."""

import math
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Unpack

import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.api.given_network import Model, network_builder, try_loss
from moso.api.given_samples import Asked, as_met, labels_argument, other_samples, training_samples
from moso.api.progress_bars import shown_progress
from moso.api.prune_config import PruneConfig, PruneSettings, asked_settings
from moso.api.pruned import Pruned, taking
from moso.configuration import CUSTOM, Configuration
from moso.configuration.class_mix import fitting_mix
from moso.configuration.resolved_method import ResolvedMethod
from moso.data.dataset import DataSet
from moso.data.given import Given, splits_of
from moso.data.samples import Samples, StoredSamples
from moso.data.views import Collate
from moso.evaluation.standings import RANDOM
from moso.evidence import read_state
from moso.evidence_kinds.label_free_embedding import INPUTS
from moso.evidence_kinds.registry import averages
from moso.executors import ForkedProcesses, InProcess
from moso.executors.forked import check_forking
from moso.gradients import Loss, Risk, cross_entropy
from moso.methods import Method, find_method, methods
from moso.progress import Progress
from moso.results.directory import RunDirectory
from moso.results.manifest import PrunedNote
from moso.results.reading import Run
from moso.results.run_data import Preparation, prepared
from moso.results.verification import mended
from moso.run.imported_scores import find_choices
from moso.run.job import Job, Runtime
from moso.run.stages import Executor, begin, evaluate_stage, score_stage, select_stage
from moso.run.training import initial_state_path
from moso.scores import Score, scores
from moso.selection import Selector
from moso.selection.share import Keep, asked_ratio
from moso.tasks import PerSample, Task

# Scores that `prune` computes in addition, because they come from the same step terms.
_ALONG = ("moso", "moso-standardised", "moso-rank")


def prune(
    train_set: Any,
    *,
    ratio: float | str | None = None,
    keep: float | int | str | Keep | None = None,
    model: Model | None = None,
    score_set: Any = None,
    test_set: Any = None,
    validation_set: Any = None,
    risk: Literal["train", "validation"] | Risk = "train",
    labels: str | Sequence[Any] | NDArray[Any] | None = None,
    method: str | Method | Score = "moso-rank",
    selector: str | Selector | None = None,
    task: str | Task | None = None,
    loss: Loss | None = None,
    metric: PerSample | None = None,
    collate: Collate | None = None,
    out: Path | str | None = None,
    device: str = "auto",
    workers: int = 1,
    loader_workers: int = 0,
    progress: bool | Progress | None = None,
    config: PruneConfig | None = None,
    **settings: Unpack[PruneSettings],
) -> Pruned:
    """Train surrogates on `train_set`, score every sample, and keep the best: the whole job.

    Args:
        train_set: Arrays `(inputs, labels)`, a dictionary of columns, a pandas or polars frame, a Hugging Face dataset
            or `DatasetDict`, a map-style dataset (torchvision's, a list of dictionaries, ...), or a stream that fits
            into memory.
        ratio: Share of samples to remove, in ``[0, 1)``: 0.4 or "40%".
        keep: What stays, in place of `ratio`: a share (0.6, "60%") or a number of samples (3000).
        model: A name that `moso models` lists, a function that returns a fresh network, or a network, whose weights
            are then where every training starts. By default a small network that fits the data.
        score_set: The same samples without augmentation; required if `train_set` augments in `__getitem__`.
        test_set: Samples on which networks retrained on the kept samples, on a random selection of the same size and
            on all data are compared: by accuracy, by R² with `moso.squared_error`, by the mean loss for other losses
            without classes, or by `metric`. That of a `DatasetDict` is found.
        validation_set: Samples of the risk with `risk="validation"`.
        risk: Risk to judge samples by: the training risk of the paper, that of `validation_set`, a `SampleRisk` (a
            class, a group, a weighted mixture), or a function from the network to a scalar.
        labels: One class per sample (numbers or names) in place of the labels of `train_set`; or the name of the column
            or entry that holds them.
        method: A name that `moso methods` lists, a `Method` or a `Score`.
        selector: Name or `Selector` to use in place of the selector of the method.
        task: What is learned, if data and loss do not determine it: a name (`multi-label`) or a `Task` with its loss
            and metric. With `unlabelled`, `train_set` is a column of inputs (an array, a tensor, a list of texts), no
            network is trained on labels, and nothing is measured.
        loss: Per-sample loss, `loss(model, batch) -> [batch]`. With a loss, fractional labels and several labels per
            sample are numbers to predict instead of classes.
        metric: Per-sample metric, `metric(model, batch) -> [batch]`, in ``[0, 1]``; higher is better.
        collate: Makes a batch from a list of items, as in a `DataLoader`.
        out: Run directory to keep; an interrupted run resumes there. None uses a temporary directory, which lives as
            long as the result.
        device: `cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes an accelerator if there is one.
        workers: Processes that train and score partitions in parallel; they are copies of this one (Linux, CPU).
        loader_workers: Processes that load data; 0 loads in this process.
        progress: True shows bars, False nothing; None shows bars in notebooks and on terminals; or a callback.
        config: Further settings as an object.
        settings: Further settings as keywords, those of `PruneConfig`: `epochs`, `partitions`, `time_steps`, `recipe`,
            `augmentation`, `seed`, ...

    Returns:
        The kept positions, the scores, the pruned data and the run.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``, ``settings-conflict``, ``name-taken``, ``wrong-type``,
            ``length-mismatch``, ``labels-missing``, ``label-invalid``, ``dataset-random``, ``run-locked``,
            ``run-differs`` and others of the stages of a run (docs/errors.md).

    Example:
        >>> import numpy as np
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> pruned = prune((images, labels), ratio=0.7, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
        >>> len(pruned.kept), pruned.scores.shape
        (12, (40,))
    """
    asked_for = asked_settings(config, settings)
    build = None if model is None else network_builder(model)
    chosen, own_score = _method(method), method if isinstance(method, Score) else None
    splits = splits_of(train_set)
    column, label = labels_argument(labels, splits.get("train", train_set))
    own_risk = None if isinstance(risk, str) else risk
    with shown_progress(progress) as bars:
        asked = Asked(
            task=task,
            own_loss=None if loss is cross_entropy else loss,
            metric=metric,
            collate=collate,
            labels=column,
            label=label,
            progress=bars,
            loader_workers=loader_workers,
        )
        given = asked.look_at(splits.get("train", train_set), read_answers=score_set is None and column is None)
        share = asked_ratio(ratio, keep, given.count)
        others = (None, None) if asked.is_unlabelled else _others(splits, test_set, validation_set, risk)
        if asked.is_unlabelled and (test_set is not None or validation_set is not None):
            raise errors.SettingsConflict("task='unlabelled' retrains and measures nothing; leave test data out")
        data = _data(given, score_set, others, asked)
        along = list(_ALONG) if own_score is None and "terms" in _needs_of(chosen) else []
        registered = [chosen.name] if isinstance(method, str) else []
        values = {
            "class_mix": fitting_mix(data.train.labels, data.train.task.by_class),
            **_fitting(data.train, model, asked_for),
            "device": device,
            "methods": list(dict.fromkeys([*registered, *along])) or [RANDOM],
            "ratios": [share],
            "risk": "own" if own_risk is not None else risk,
        }
        configuration = _resolved(values, given.count)
        executor = _executor(workers, bars, configuration)
        with _directory(out) as directory:
            data = prepared(data, configuration, directory, Preparation(bars), build)
            job = Job(directory, configuration, data, build, Runtime(loader_workers), own_risk)
            [choice] = find_choices(job, [configuration.choice(chosen, selector, own_score)])
            _check_start(model, choice, job)
            _perform(job, executor, choice, along)
            directory.note(pruned=_note(choice, share, out is None, given, asked, score_set is not None))
            directory.push()
            return Pruned._opened(_run(directory, out is None), taking(train_set, given.take))


def _others(splits: dict[str, Any], test_set: Any, validation_set: Any, risk: object) -> tuple[Any, Any]:
    """Return the test and the validation data: those given, or else those of a `DatasetDict`.

    Raises:
        SettingsConflict: Validation data is given that no risk asks for.
    """
    if validation_set is not None and risk != "validation":
        raise errors.SettingsConflict(
            "validation_set is the data of risk='validation', which was not asked for; give both or none of them"
        )
    if validation_set is None and risk == "validation":
        validation_set = splits.get("validation")
    return splits.get("test") if test_set is None else test_set, validation_set


def _data(given: Given, score_set: Any, others: tuple[Any, Any], asked: Asked) -> DataSet:
    train = training_samples(given, score_set, asked)
    test, judge = (other_samples(data, train, given.columns, asked) for data in others)
    met, test, judge = as_met(train, test, judge)
    assert met is not None, "the first split is the training split"
    return DataSet(CUSTOM, met, test, validation=judge)


def _fitting(train: Samples, model: Any, asked_for: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run: those asked for, with a network and a recipe that fit the data.

    Nothing is mirrored or cropped by default, because nothing is known of the pictures.

    Raises:
        SettingMissing: Nothing is known of the inputs, so the user has to give a network.
        SettingsConflict: Another network is to be retrained, but the network is the user's own.
    """
    network, recipe = ("convnet", "pictures") if len(train.shape) == 3 else ("mlp-w32", "table")
    if not train.task.has_answers:
        inputs = {"embedding": INPUTS} if len(train.shape) == 1 and train.vocabulary is None else {}
        asked_for = {"task": train.task.name, **inputs, **asked_for}
    if train.vocabulary is not None:
        network, recipe = "bag", "text"
    if asked_for.get("embed") and model is None:
        return {"seeds": 1, **asked_for, "dataset": CUSTOM, "by_class": train.task.by_class}  # a head fits features
    if model is None and not train.shape:
        raise errors.SettingMissing("items have several inputs; give model=, a function that makes a network for them")
    if "retrain_model" in asked_for and not isinstance(model, str | None):
        raise errors.SettingsConflict("retrain_model is a network by name, and so must model be; leave one of them out")
    return {
        "seeds": 1,
        "recipe": recipe,
        **asked_for,
        **_augmentation(train, asked_for),
        "dataset": CUSTOM,
        "by_class": train.task.by_class,
        "model": network if model is None else model if isinstance(model, str) else CUSTOM,
    }


def _augmentation(train: Samples, asked_for: dict[str, Any]) -> dict[str, Any]:
    """Return the augmentation of items that a user's dataset makes: none, because only the dataset can augment them.

    Raises:
        SettingsConflict: Another one is asked for.
    """
    if isinstance(train, StoredSamples):
        return {}
    tables = (asked_for, asked_for.get("surrogate", {}), asked_for.get("retraining", {}))
    if any(table.get("augmentation", "none") != "none" for table in tables):
        raise errors.SettingsConflict(
            "augmentation is for arrays and pictures that moso reads; a dataset augments its own items (train_set) and "
            "has the same items without augmentation as score_set"
        )
    return {"augmentation": "none"}


def _resolved(values: dict[str, Any], count: int) -> Configuration:
    """Return the configuration; where few updates are made, the default number of time steps is no more than those."""
    configuration = Configuration.resolve(values)
    if "time_steps" in values:
        return configuration
    recipe = configuration.surrogate
    updates = recipe.epochs * max(1, math.ceil(count // configuration.partitions / recipe.batch_size))
    return configuration.model_copy(update={"time_steps": min(configuration.time_steps, updates)})


@contextmanager
def _directory(out: Path | str | None) -> Iterator[RunDirectory]:
    """Yield the run directory; a temporary one is removed if the work fails."""
    if out is not None:
        yield RunDirectory.at(out)
        return
    folder = Path(tempfile.mkdtemp(prefix="moso-"))
    try:
        yield RunDirectory.at(folder / "run")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(directory: RunDirectory, temporary: bool) -> Run:
    """Open the run; a temporary directory goes with the last reference to the run, or at the end of the process."""
    run = Run(directory)
    if temporary:
        weakref.finalize(run, shutil.rmtree, directory.root.parent, ignore_errors=True)
    return run


def _executor(workers: int, progress: Progress, configuration: Configuration) -> Executor:
    if workers < 1:
        raise errors.SettingInvalid(f"workers = {workers} must be at least 1")
    if workers == 1:
        return InProcess(progress)
    check_forking(configuration.device, configuration.threads)
    return ForkedProcesses(workers, progress)


def _perform(job: Job, executor: Executor, choice: ResolvedMethod, along: list[str]) -> None:
    """Score, select, and with test data retrain: on what is kept, on as many random samples, and on all data."""
    chosen = [choice]
    if job.data.test is not None and choice.method != RANDOM:
        chosen.append(_random_selection(job.configuration, choice))

    def work() -> None:
        begin(job)
        score_stage(job, executor, [*chosen, *(job.configuration.choice(name) for name in along)])
        select_stage(job, chosen)
        if job.data.test is not None:
            evaluate_stage(job, executor, chosen)

    with job.directory.locked():
        mended(job.directory, work)


def _random_selection(configuration: Configuration, choice: ResolvedMethod) -> ResolvedMethod:
    """Return random selection of the same family: as many of every class where the method chooses class by class."""
    by_class = choice.by_class() and choice.selector.name in ("balanced", "proportional")
    return configuration.choice(RANDOM, choice.selector.name if by_class else RANDOM)


def _check_start(model: Any, choice: ResolvedMethod, job: Job) -> None:
    """Refuse a network that fails on the data, and a network that does not give the starts that are needed.

    Raises:
        NetworkFailed: The network of the user's own fails on the first samples.
        MethodImpossible: The score averages several initialisations, and a network given itself has one.
        RunDiffers: The run in the directory began with other weights.
    """
    configuration = job.configuration
    if job.build is not None:
        try_loss(job.model(configuration.seed), job.loss, job.data.train.evaluation_view())
    if not isinstance(model, nn.Module):
        return
    if averages(choice.needs()) and configuration.initialisations > 1:
        raise errors.MethodImpossible(
            f"method {choice.method!r} averages {configuration.initialisations} initialisations, and a network given "
            "itself has one; give a function that makes fresh networks, or initialisations=1"
        )
    path = initial_state_path(job, configuration.seed)
    if path.exists():
        before, now = read_state(path)[0], job.built(configuration.seed).state_dict()
        if before.keys() != now.keys() or not all(torch.equal(before[name], now[name].cpu()) for name in before):
            raise errors.RunDiffers(
                f"the run in {job.directory} began with other weights than the network has; give the same network, or "
                "another directory (out)"
            )


def _note(
    choice: ResolvedMethod, share: float, temporary: bool, given: Given, asked: Asked, augmented: bool
) -> PrunedNote:
    """Return what the manifest keeps of the result, enough to load it again."""
    return {
        "method": choice.method,
        "selector": choice.selector.name,
        "score": None if choice.score is None else choice.score.name,
        "ratio": share,
        "temporary": temporary,
        "data": given.fingerprint(content=not augmented),
        "augmented": augmented,
        "label": asked.label,
        "items": not asked.takes_pairs or asked.collate is not None,
    }


def _method(method: str | Method | Score) -> Method:
    if isinstance(method, str):
        return find_method(method)
    if not isinstance(method, Method | Score):
        raise errors.WrongType(f"method= takes a name, a Method or a Score, not {type(method).__name__}")
    registered = (scores() if isinstance(method, Score) else methods()).get(method.name)
    if method.name in methods() and registered is not method:
        raise errors.NameTaken(f"{method.name!r} is the name of a method of moso's own; give yours another")
    return Method(method.name, None, "top", method.description) if isinstance(method, Score) else method


def _needs_of(method: Method) -> frozenset[str]:
    score = method.find_score()
    return frozenset() if score is None else score.needed()
