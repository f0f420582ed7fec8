"""The library in three verbs: `prune` does the whole job, `score` and `select` are its halves."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Subset, default_collate

from moso import errors
from moso.configuration import CUSTOM, Configuration
from moso.data.dataset import DataSet
from moso.data.samples import Samples, StoredSamples, UserSamples
from moso.data.views import Collate, ItemView, Normalisation, as_view, check_repeatable, is_array_pair
from moso.evidence import Estimator, EstimatorName, ParameterFilter, PartitionTerms, Trajectory, step_terms
from moso.evidence.renewed_statistics import renewed_statistics
from moso.evidence.trajectory import as_network
from moso.executors import InProcess
from moso.gradients import Loss, Risk, cross_entropy
from moso.methods import Method, find_method, methods
from moso.progress import Progress, silent
from moso.randomness import seeded
from moso.results.directory import RunDirectory
from moso.results.reading import Run
from moso.run.imported_scores import find_choices
from moso.run.job import Job, Runtime
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage
from moso.scores import Form, MemoryInput, Score, find_score, scores
from moso.selection import Selector
from moso.tasks import Classification, PerSample, Task, find_task, fitting_task, mean_loss, own_metric, unread
from moso.tasks.registry import holds_numbers

# The names that `score(method=...)` accepts: scores computed from step terms alone.
Combination = Literal["moso", "moso-standardised", "moso-rank", "grand-steps"]
_FROM_TERMS = frozenset({"terms", "norms"})
# Scores that `prune` computes in addition, because they come from the same step terms.
_ALONG = ("moso", "moso-standardised", "moso-rank")


def score(
    model: nn.Module,
    data: Any,
    trajectory: Trajectory | Iterable[tuple[Mapping[str, torch.Tensor], float]],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    method: Combination | Score = "moso",
    form: Form = "paper",
    total_steps: int | None = None,
    parameters: ParameterFilter | None = None,
    estimator: Estimator | EstimatorName = "exact",
    risk: Risk | None = None,
    renew_statistics: int | None = None,
    collate: Collate | None = None,
    loader_workers: int = 0,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """Compute the MoSo score of every sample of `data` along a training trajectory.

    The model's weights, mode and gradients are left unchanged.

    Args:
        model: The trained network; weights come from the trajectory, except frozen ones that checkpoints lack.
        data: A map-style dataset or a pair of arrays, without random augmentation.
        trajectory: The trajectory of a `Recorder`, or checkpoints as pairs `(state_dict, learning_rate)`; frozen
            parameters may be missing from the checkpoints (docs/library.md).
        loss: Per-sample loss, `loss(model, batch) -> [batch]`.
        batch_size: Samples per batch; None finds a size that suits the network and the device.
        method: Name of a score that is computed from step terms, or a `Score` that needs no other evidence.
        form: Form of the MoSo score, `paper` or `centred`.
        total_steps: Number of updates of the run that the checkpoints were taken from; without it, the checkpoints
            count as all updates.
        parameters: Filter by parameter name, for example the last layer only.
        estimator: `exact`, a cheaper approximation (`subsampled`, `sketched`, `last-layer`), or a configured
            `Estimator`.
        risk: Risk to judge samples by in place of the mean loss over `data`: a `SampleRisk` (other samples or
            weights), or a function from the network to a scalar.
        renew_statistics: Batch size, at least 2, with which batch-norm statistics are recomputed from `data` at every
            time step, because the running statistics of a checkpoint lag behind its weights (docs/view.md). The
            training batch size is best. None keeps the statistics of the checkpoints.
        collate: Makes a batch from a list of items, as in a `DataLoader`.
        loader_workers: Number of processes that load data; 0 loads in this process.
        progress: Called after every time step.

    Returns:
        One float64 per sample, in dataset order, shape ``[samples]``.

    Raises:
        MosoError: ``unknown-name``, ``evidence-missing``, ``setting-invalid``, ``data-empty``, ``dataset-random``,
            ``trajectory-incomplete``.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> data = (np.eye(2, dtype=np.float32), [0, 1])
        >>> score(model, data, [(model.state_dict(), 0.1)], total_steps=10).shape
        (2,)
    """
    wanted = _from_terms(method, estimator)
    if renew_statistics is not None and renew_statistics < 2:
        raise errors.SettingInvalid(
            f"renew_statistics={renew_statistics}: batch-norm's statistics need batches of at least 2"
        )
    view = as_view(data, collate, None if loss is cross_entropy else loss)
    check_repeatable(view)
    points = trajectory if isinstance(trajectory, Trajectory) else Trajectory.from_states(trajectory, total_steps)
    model = as_network(model)
    for point in points:
        point.check_recorded()
    positions = np.arange(len(view))
    steps = []
    for number, point in enumerate(points, 1):
        if renew_statistics is not None:
            point = renewed_statistics(
                model,
                point,
                view,
                positions,
                loss=loss,
                batch_size=renew_statistics,
                loader_workers=loader_workers,
            )
        steps.append(
            step_terms(
                model,
                point,
                view,
                positions,
                loss=loss,
                batch_size=batch_size,
                parameters=parameters,
                loader_workers=loader_workers,
                estimator=estimator,
                risk=risk,
            )
        )
        progress("scoring", number, len(points))
    terms = [PartitionTerms(total_steps or points.total_steps, steps)]
    return wanted(MemoryInput(len(view), evidence={"terms": terms}, form=form))


def _from_terms(method: str | Score, estimator: Estimator | EstimatorName) -> Score:
    """Return the score, looked up by name or as given; refuse one that needs more than step terms."""
    wanted = find_score(method) if isinstance(method, str) else method
    if isinstance(method, str) and not (wanted.needed() and wanted.needed() <= _FROM_TERMS):
        possible = [name for name, one in scores().items() if one.needed() and one.needed() <= _FROM_TERMS]
        raise errors.UnknownName(f"score(method=...) takes {', '.join(possible)}, not {method!r}")
    missing = sorted(wanted.needed() - _FROM_TERMS)
    if missing:
        raise errors.EvidenceMissing(
            f"score {wanted.name!r} needs {', '.join(missing)}, which a trajectory does not have; use a run"
        )
    if "norms" in wanted.needed() and "subsampled" in (estimator, getattr(estimator, "name", None)):
        raise errors.EvidenceMissing(
            f"score {wanted.name!r} needs the gradient norms of all samples, which 'subsampled' leaves out"
        )
    return wanted


@dataclass(frozen=True)
class Pruned:
    """The result of `prune`.

    Attributes:
        kept: Sorted positions of the kept samples.
        scores: One float per sample, in dataset order; NaN for methods without scores (such as `herding`).
        subset: The kept samples as a dataset.
        run: The run, for everything else that it recorded.
    """

    kept: NDArray[np.int64]
    scores: NDArray[np.float64]
    subset: Subset[Any]
    run: Run


def prune(
    train_set: Any,
    *,
    ratio: float,
    model: str | Callable[[], nn.Module] = "convnet",
    score_set: Any = None,
    test_set: Any = None,
    validation_set: Any = None,
    risk: Literal["train", "validation"] | Risk = "train",
    labels: Sequence[int] | NDArray[Any] | None = None,
    method: str | Method | Score = "moso",
    selector: str | Selector | None = None,
    task: str | Task | None = None,
    loss: Loss | None = None,
    metric: PerSample | None = None,
    collate: Collate | None = None,
    out: Path | str | None = None,
    progress: Progress = silent,
    loader_workers: int = 0,
    **settings: Any,
) -> Pruned:
    """Train surrogates on `train_set`, score every sample, and keep the best: the whole job.

    Args:
        train_set: A pair of arrays or a map-style dataset of `(input, label)`; with a `loss`, a dataset of whatever
            items that loss accepts.
        ratio: Share of samples to remove, in ``[0, 1)``.
        model: A name that `moso models` lists, or a function that returns a fresh network.
        score_set: The same samples without augmentation; required if `train_set` augments in `__getitem__`.
        test_set: Samples on which networks retrained on the kept samples are evaluated: by accuracy, by R² with
            `moso.squared_error`, by the mean loss for other losses without classes, or by `metric`.
        validation_set: Samples of the risk with `risk="validation"`.
        risk: Risk to judge samples by: the training risk of the paper, that of `validation_set`, a `SampleRisk` (a
            class, a group, a weighted mixture), or a function from the network to a scalar.
        labels: One class per sample, in place of the labels of `train_set`.
        method: A name that `moso methods` lists, a `Method` or a `Score`.
        selector: Name or `Selector` to use in place of the selector of the method.
        task: What is learned, if data and loss do not determine it: a name (`multi-label`) or a `Task` with its loss
            and metric.
        loss: Per-sample loss, `loss(model, batch) -> [batch]`. With a loss, fractional labels and several labels per
            sample are numbers to predict instead of classes.
        metric: Per-sample metric, `metric(model, batch) -> [batch]`, in ``[0, 1]``; higher is better.
        collate: Makes a batch from a list of items.
        out: Run directory to keep; an interrupted run resumes there. None uses a temporary directory.
        progress: Called as work advances.
        loader_workers: Number of processes that load data; 0 loads in this process.
        settings: Settings of the TOML file of a run (`epochs`, `partitions`, `time_steps`, `recipe`, `seed`,
            `device`, ...), and `settings` itself for those of selectors and scores:
            `settings={"coverage": {"cut": 0.2}}`.

    Returns:
        The kept positions, the scores, the pruned dataset and the run.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``, ``name-taken``, ``wrong-type``, ``length-mismatch``,
            ``labels-missing``, ``label-invalid``, ``dataset-random``, ``run-locked``, ``run-differs`` and others of
            the stages of a run (docs/errors.md).

    Example:
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> pruned = prune((images, labels), ratio=0.7, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
        >>> len(pruned.kept), len(pruned.subset), pruned.scores.shape
        (12, 12, (40,))
    """
    own_loss = None if loss is cross_entropy else loss
    left_to_loss = own_loss is not None and task is None
    given = _look_at(train_set, score_set, left_to_loss, first_only=labels is not None)
    train = _samples(given, _task(given, task, own_loss, metric), collate, labels)

    def another(data: Any) -> Samples | None:
        return None if data is None else _samples(_look_at(data, None, left_to_loss), train.task, collate)

    test, judge = another(test_set), another(validation_set)
    items: Any = train_set if given.inputs is None else list(zip(*train_set, strict=True))
    if isinstance(train, StoredSamples):
        normalisation = Normalisation.measure(train.reader)
        train = train.normalised(normalisation)
        test = test.normalised(normalisation) if isinstance(test, StoredSamples) else test
        judge = judge.normalised(normalisation) if isinstance(judge, StoredSamples) else judge
    score = method if isinstance(method, Score) else None
    chosen = _method(method)
    registered = [chosen.name] if isinstance(method, str) else []
    along = list(_ALONG) if score is None and "terms" in _needs_of(chosen) else []
    # The default recipe and its augmentation are for images (three dimensions); other inputs get that for tables.
    fitting = {} if len(train.shape) == 3 else {"recipe": "table"}
    configuration = Configuration.resolve(
        {
            "seeds": 1,
            **fitting,
            **settings,
            "dataset": CUSTOM,
            "by_class": train.task.by_class,
            "model": model if isinstance(model, str) else CUSTOM,
            "methods": list(dict.fromkeys([*registered, *along])) or ["random"],
            "ratios": [ratio],
            "risk": risk if isinstance(risk, str) else "own",
        }
    )
    directory = RunDirectory.at(Path(tempfile.mkdtemp(prefix="moso-")) / "run" if out is None else out)
    data, runtime = DataSet(CUSTOM, train, test, validation=judge), Runtime(loader_workers)
    own_risk = None if isinstance(risk, str) else risk
    job = Job(directory, configuration, data, _builder(model), runtime, own_risk)
    executor = InProcess(progress)
    [choice] = find_choices(job, [configuration.choice(chosen, selector, score)])
    with directory.locked():
        begin(job)
        score_stage(job, executor, [choice, *(configuration.choice(name) for name in along)])
        select_stage(job, [choice])
        if test is not None:
            evaluate_stage(job, executor, [choice])
    run = Run(directory)
    kept = run.kept(choice.method, ratio, choice.selector.name)
    found = np.full(len(train), np.nan) if choice.score is None else run.scores()[choice.score.name]
    return Pruned(kept, found, Subset(items, kept.tolist()), run)


def _method(method: str | Method | Score) -> Method:
    if isinstance(method, str):
        return find_method(method)
    registered = (scores() if isinstance(method, Score) else methods()).get(method.name)
    if method.name in methods() and registered is not method:
        raise errors.NameTaken(f"{method.name!r} is the name of a method of moso's own; give yours another")
    return Method(method.name, None, "top", method.description) if isinstance(method, Score) else method


def _needs_of(method: Method) -> frozenset[str]:
    score = method.find_score()
    return frozenset() if score is None else score.needed()


def _builder(model: str | Callable[[], nn.Module]) -> Callable[[int], nn.Module] | None:
    if isinstance(model, str):
        return None
    if isinstance(model, nn.Module):
        raise errors.WrongType(
            "model= takes a name or a function that makes a fresh network, such as lambda: MyNetwork()"
        )

    def build(seed: int) -> nn.Module:
        with seeded(seed, "init"):
            return model()

    return build


@dataclass(frozen=True)
class _Given:
    """A user's data: a pair of arrays (`inputs`) or a dataset of items, and its answers (targets) as far as found."""

    dataset: Any
    plain: Any
    count: int
    inputs: Any
    answers: Any
    is_pairs: bool


def _look_at(data: Any, plain: Any, left_to_loss: bool, first_only: bool = False) -> _Given:
    """Read a user's data and its answers; with `first_only`, the answer of the first item only.

    With `left_to_loss`, dense answers (more than one dimension per sample) are not read: only the loss sees them.
    """
    if is_array_pair(data):
        return _Given(data, data, len(data[0]), data[0], data[1], is_pairs=True)
    view, quiet = as_view(data), ItemView(data if plain is None else plain)
    count = len(view)
    if len(quiet) != count:
        raise errors.LengthMismatch(
            f"score_set has {len(quiet)} samples and train_set {count}; they must be the same samples"
        )
    check_repeatable(quiet, "the data set" if plain is None else "score_set")
    answers = _answers_of(quiet, 1 if first_only else count)
    if left_to_loss and answers and np.ndim(answers[0]) > 1:
        answers = None
    return _Given(data, quiet.dataset, count, None, answers, isinstance(quiet[0], tuple | list))


def _answers_of(view: ItemView, count: int) -> list[Any] | None:
    """Return the answers of the first `count` items: the second of a pair, or the key `labels` or `label` of a mapping.

    Returns None if an item has no answer, or an answer of another shape than the first.
    """
    found: list[Any] = []
    for position in range(count):
        item = view[position]
        if isinstance(item, tuple | list) and len(item) == 2:
            answer = item[1]
        elif isinstance(item, Mapping) and (name := next((n for n in ("labels", "label") if n in item), None)):
            answer = item[name]
        else:
            return None
        if found and np.shape(answer) != np.shape(found[0]):
            return None
        found.append(answer.tolist() if isinstance(answer, torch.Tensor | np.ndarray) else answer)
    return found


def _task(given: _Given, wanted: str | Task | None, own_loss: Loss | None, metric: PerSample | None) -> Task:
    """Return the task of a user's training data: the one they name or the one that fits, with their loss and metric."""
    if wanted is None:
        task = Classification() if own_loss is None else fitting_task(given.answers, own_loss)
    else:
        task = find_task(wanted) if isinstance(wanted, str) else wanted
    if own_loss is not None:
        # The metric of the task unpacks batches into inputs and answers, so it needs pairs.
        task = replace(task, own_loss=own_loss, judge=task.judge if given.is_pairs else mean_loss(own_loss))
    return task if metric is None else replace(task, judge=own_metric(metric))


def _samples(given: _Given, task: Task, collate: Collate | None, labels: Any = None) -> Samples:
    """Return a user's data as samples of a task.

    `labels` replace the answers of a task whose answers are classes; for other tasks they group the samples.
    """
    groups, answers = None, labels if labels is not None and task.answers_are_classes else given.answers
    column = answers if task.answers_are_classes else labels
    if column is not None:
        _check_classes(column, given.count)
    if labels is not None and not task.answers_are_classes:
        grouped, groups = Classification().read(labels)
        task = replace(task, classes=grouped.classes)
    if given.inputs is not None:
        return replace(StoredSamples.from_arrays(given.inputs, answers, task), groups=groups)
    if answers is None and task.answers_are_read:
        raise errors.LabelsMissing("samples are not (input, label) pairs; give labels=, one class a sample")
    task, targets = task.read(answers) if task.answers_are_read else (task, unread(given.count))
    targets = targets if len(targets) == given.count else unread(given.count)
    return UserSamples(given.dataset, given.plain, task, targets, groups, collate or default_collate)


def _check_classes(labels: Any, count: int) -> None:
    """Refuse labels whose number differs from that of the samples, and labels that may not be classes."""
    if len(labels) != count:
        raise errors.LengthMismatch(f"there are {count} samples but {len(labels)} labels")
    if holds_numbers(labels):
        kind = np.asarray(labels).dtype if np.ndim(labels) == 1 else f"of shape {np.shape(labels)}"
        raise errors.LabelInvalid(
            f"labels are {kind}: for classes give whole numbers, one a sample (labels.astype(int)); "
            "for numbers to predict give loss=, for example moso.squared_error"
        )
