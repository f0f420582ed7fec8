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
from moso.data.samples import Samples, StoredSamples, UserSamples, check_labels, check_targets
from moso.data.views import Collate, ItemView, Normalisation, as_view, check_repeatable, holds_numbers, is_array_pair
from moso.evaluation.metrics import PerSample
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

# What `score` can be asked for by name: all that follows from step terms.
Combination = Literal["moso", "moso-standardised", "moso-rank", "grand-steps"]
_FROM_TERMS = frozenset({"terms", "norms"})
# Scored along with whatever was asked for: they come from the same terms.
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
    """The MoSo score of every sample of `data`, float64, in dataset order.

    `data` is any map-style dataset, or a pair of arrays; it must be the samples themselves, not random crops of
    them. `collate` makes a batch of a list of items, as in a `DataLoader`. `trajectory` is what a `Recorder` left, or
    your own checkpoints as `(state_dict, learning_rate)`; for the latter `total_steps` says how many updates the run
    had (without it, the checkpoints are taken to be all), and what was frozen need not be in them (docs/library.md).
    `loss` gives one number a sample, `loss(model, batch) -> [batch]`. `method` is the name of a score that follows from
    step terms, or a `Score` of your own that needs no more.
    `parameters` filters by name, e.g. the last layer. `estimator` is `exact`, or cheaper and less true: `subsampled`,
    `sketched`, `last-layer`, or an `Estimator` with settings of its own. `risk` is another one than that of `data`
    itself: a `SampleRisk` of other samples or weights, or a function from the network to one number.
    `renew_statistics=64` gathers batch-norm's statistics anew at every time step, from `data` in batches of 64, best
    those of training: what checkpoints hold trails behind their weights (docs/view.md). The model's weights, mode and
    gradients are left as they are.

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
    view = as_view(data, collate, numbers=loss is not cross_entropy)
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
    """A score that needs step terms alone, by name or as it is."""
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
    """What `prune` found: the positions that stay, every sample's score, and the pruned data set.

    Where the method does without scores, as `herding` does, they are not numbers.
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
    loss: Loss | None = None,
    metric: PerSample | None = None,
    collate: Collate | None = None,
    out: Path | str | None = None,
    progress: Progress = silent,
    loader_workers: int = 0,
    **settings: Any,
) -> Pruned:
    """Train surrogates on `train_set`, score every sample, and keep the best: the whole job.

    `train_set` is a pair of arrays or any map-style dataset of `(input, label)`; with a `loss` of your own, of anything
    that it takes. If it augments in `__getitem__`, `score_set` must hold the same samples without augmentation.
    `collate` makes a batch of a list of items. `model` is a name that `moso models` lists, or a function that makes a
    fresh network. `loss` gives one number a sample, `loss(model, batch) -> [batch]`; with one of your own, labels that
    are fractions or several a sample are numbers to predict and not classes. `labels` are classes in place of the
    data's own.

    With a `test_set` the result is proved by retraining, too: by accuracy; by R² with `moso.squared_error`; by the mean
    loss where another loss has no classes; or by your own `metric(model, batch) -> [batch]`, from 0 to 1, more is
    better.

    `risk` is what samples are judged by: the paper's training risk, that of a `validation_set`, or one of your own, a
    `SampleRisk` (a class, a group, a weighted mixture) or a function from the network to one number.

    `method` is a name that `moso methods` lists, or a `Method` or `Score` of your own; `selector` is a name or a
    `Selector`, in place of the method's.

    `out` keeps the run directory, and a run that was interrupted goes on there; without it a temporary one is used.
    `settings` are those of a run's TOML file: `epochs`, `partitions`, `time_steps`, `recipe`, `seed`, `device`, ...
    and `settings` itself, those of selectors and scores: `settings={"coverage": {"cut": 0.2}}`.

    >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
    >>> pruned = prune((images, labels), ratio=0.7, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
    >>> len(pruned.kept), len(pruned.subset), pruned.scores.shape
    (12, 12, (40,))
    """
    own_loss = None if loss is cross_entropy else loss
    train, subset_of = _samples(train_set, score_set, labels, own_loss, collate)
    test = None if test_set is None else _samples(test_set, None, None, own_loss, collate, train)[0]
    judge = None if validation_set is None else _samples(validation_set, None, None, own_loss, collate, train)[0]
    if isinstance(train, StoredSamples):
        normalisation = Normalisation.measure(train.reader)
        train = train.normalised(normalisation)
        test = test.normalised(normalisation) if isinstance(test, StoredSamples) else test
        judge = judge.normalised(normalisation) if isinstance(judge, StoredSamples) else judge
    score = method if isinstance(method, Score) else None
    chosen = _method(method)
    registered = [chosen.name] if isinstance(method, str) else []
    along = list(_ALONG) if score is None and "terms" in _needs_of(chosen) else []
    # What is no picture is not cropped, and the recipe that fits pictures does not fit it.
    fitting = {} if len(train.shape) == 3 else {"recipe": "table"}
    configuration = Configuration.resolve(
        {
            "seeds": 1,
            **fitting,
            **settings,
            "dataset": CUSTOM,
            "classless": not train.classes,
            "model": model if isinstance(model, str) else CUSTOM,
            "methods": list(dict.fromkeys([*registered, *along])) or ["random"],
            "ratios": [ratio],
            "risk": risk if isinstance(risk, str) else "own",
        }
    )
    directory = RunDirectory.at(Path(tempfile.mkdtemp(prefix="moso-")) / "run" if out is None else out)
    data, runtime = DataSet(CUSTOM, train, test, validation=judge), Runtime(loader_workers)
    own_risk = None if isinstance(risk, str) else risk
    job = Job(directory, configuration, data, _builder(model), own_loss, runtime, metric, own_risk)
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
    return Pruned(kept, found, Subset(subset_of, kept.tolist()), run)


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


def _samples(
    data: Any, plain: Any, labels: Any, own_loss: Loss | None, collate: Collate | None, train: Samples | None = None
) -> tuple[Samples, Any]:
    """Somebody's data as samples, and the dataset a `Subset` of it is taken from; a test is like `train`."""
    if is_array_pair(data):
        answers, count = data[1], len(data[0])
    else:
        view, quiet = as_view(data), ItemView(data if plain is None else plain)
        count = len(view)
        if len(quiet) != count:
            raise errors.LengthMismatch(
                f"score_set has {len(quiet)} samples and train_set {count}; they must be the same samples"
            )
        check_repeatable(quiet, "the data set" if plain is None else "score_set")
        answers = _answers_of(quiet, own_loss) if labels is None else None
    numbers = own_loss is not None and answers is not None
    numbers = numbers and (holds_numbers(answers) or (train is not None and train.targets is not None))
    if labels is None and not numbers and (train is None or train.classes):
        labels = answers
    if labels is not None and len(labels) != count:
        raise errors.LengthMismatch(f"there are {count} samples but {len(labels)} labels")
    found, names = _classes(labels, count, train)
    if is_array_pair(data):
        given = {"targets": answers} if numbers else {"labels": found}
        stored = StoredSamples.from_arrays(data[0], **given)
        return replace(stored, labels=found, classes=names), list(zip(data[0], data[1], strict=True))
    targets = check_targets(answers) if numbers else None
    return UserSamples(data, quiet.dataset, found, names, targets, collate or default_collate), data


def _classes(labels: Any, count: int, train: Samples | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices and names; labels are refused where it is not certain that they are classes."""
    if labels is None:
        return np.zeros(count, dtype=np.int64), ()
    if holds_numbers(labels):
        kind = np.asarray(labels).dtype if np.ndim(labels) == 1 else f"of shape {np.shape(labels)}"
        raise errors.LabelInvalid(
            f"labels are {kind}: for classes give whole numbers, one a sample (labels.astype(int)); "
            "for numbers to predict give loss=, for example moso.squared_error"
        )
    known = train.classes if train is not None else ()
    found = check_labels(labels, len(known) or None)
    return found, known or tuple(str(name) for name in range(int(found.max(initial=-1)) + 1))


def _answers_of(view: ItemView, own_loss: Loss | None) -> Any:
    """The label of every item: the second of a pair, or what a mapping calls `labels` or `label`.

    None where a loss of the user's takes items without one, or with whole sequences or pictures for an answer.
    """
    found: list[Any] = []
    for position in range(len(view)):
        item = view[position]
        if isinstance(item, tuple | list) and len(item) == 2:
            answer = item[1]
        elif isinstance(item, Mapping) and (name := next((n for n in ("labels", "label") if n in item), None)):
            answer = item[name]
        elif own_loss is not None:
            return None
        else:
            raise errors.LabelsMissing("samples are not (input, label) pairs; give labels=, one class a sample")
        if own_loss is not None and (
            np.ndim(answer) > 1 or np.shape(answer) != np.shape(found[0] if found else answer)
        ):
            return None
        found.append(answer.tolist() if isinstance(answer, torch.Tensor | np.ndarray) else answer)
    return found
