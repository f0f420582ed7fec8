"""The library in three verbs: `prune` does the whole job, `score` and `select` are its halves."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import Subset

from moso.data.dataset import DataSet
from moso.data.samples import Samples, StoredSamples, UserSamples, check_labels
from moso.data.views import ItemView, Normalisation, as_view, check_repeatable, is_array_pair
from moso.errors import MosoError
from moso.evidence import ParameterFilter, PartitionTerms, Trajectory, step_terms
from moso.executors import InProcess
from moso.gradients import Loss, cross_entropy
from moso.methods import METHODS, find_method
from moso.progress import Progress, silent
from moso.randomness import seeded
from moso.run.configuration import Configuration
from moso.run.directory import RunDirectory
from moso.run.job import Effort, Job
from moso.run.reading import CUSTOM, Run
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage, train_stage
from moso.scores import Form, moso, moso_rank, moso_standardised

Combination = Literal["moso", "moso-standardised", "moso-rank"]
_COMBINATIONS: dict[str, Callable[[PartitionTerms, Form], NDArray[np.float64]]] = {
    "moso": moso,
    "moso-standardised": moso_standardised,
    "moso-rank": moso_rank,
}


def score(
    model: nn.Module,
    data: Any,
    trajectory: Trajectory | Iterable[tuple[Mapping[str, torch.Tensor], float]],
    *,
    loss: Loss = cross_entropy,
    batch_size: int = 256,
    method: Combination = "moso",
    form: Form = "paper",
    total_steps: int | None = None,
    parameters: ParameterFilter | None = None,
    loader_workers: int = 0,
    progress: Progress = silent,
) -> NDArray[np.float64]:
    """The MoSo score of every sample of `data`, float64, in dataset order.

    `data` is any map-style dataset, or a pair of arrays; it must be the samples themselves, not random crops of
    them. `trajectory` is what a `Recorder` left, or your own checkpoints as `(state_dict, learning_rate)`; for the
    latter `total_steps` says how many updates the run had (without it, the checkpoints are taken to be all). `loss`
    gives one number a sample, `loss(model, batch) -> [batch]`. `parameters` filters by name, e.g. the last layer.
    The model's weights, mode and gradients are left as they are.

    >>> model = nn.Linear(2, 2)
    >>> data = (np.eye(2, dtype=np.float32), [0, 1])
    >>> score(model, data, [(model.state_dict(), 0.1)], total_steps=10).shape
    (2,)
    """
    if method not in _COMBINATIONS:
        raise MosoError(f"score(method=...) takes {', '.join(_COMBINATIONS)}, not {method!r}")
    view = as_view(data)
    check_repeatable(view)
    points = trajectory if isinstance(trajectory, Trajectory) else Trajectory.from_states(trajectory, total_steps)
    positions = np.arange(len(view))
    steps = []
    for number, point in enumerate(points, 1):
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
            )
        )
        progress("scoring", number, len(points))
    return _COMBINATIONS[method](PartitionTerms(total_steps or points.total_steps, steps), form)


@dataclass(frozen=True)
class Pruned:
    """What `prune` found: the positions that stay, every sample's score, and the pruned data set."""

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
    labels: Sequence[int] | NDArray[Any] | None = None,
    method: str = "moso",
    selector: str | None = None,
    loss: Loss = cross_entropy,
    out: Path | str | None = None,
    progress: Progress = silent,
    loader_workers: int = 0,
    **settings: Any,
) -> Pruned:
    """Train surrogates on `train_set`, score every sample, and keep the best: the whole job.

    `train_set` is a pair of arrays or any map-style dataset of `(input, label)`. If it augments in `__getitem__`,
    `score_set` must hold the same samples without augmentation. `model` is a name that `moso models` lists, or a
    function that makes a fresh network. With a `test_set` the result is proved by retraining, too. `out` keeps the
    run directory, and a run that was interrupted goes on there; without it a temporary one is used. `settings` are
    those of a run's TOML file: `epochs`, `partitions`, `time_steps`, `recipe`, `seed`, `device`, ...

    >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
    >>> pruned = prune((images, labels), ratio=0.7, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
    >>> len(pruned.kept), len(pruned.subset), pruned.scores.shape
    (12, 12, (40,))
    """
    train, subset_of = _samples(train_set, score_set, labels)
    test = None if test_set is None else _samples(test_set, None, None, train.classes)[0]
    if isinstance(train, StoredSamples):
        normalisation = Normalisation.measure(train.reader)
        train = train.normalised(normalisation)
        test = test.normalised(normalisation) if isinstance(test, StoredSamples) else test
    chosen = find_method(method)
    scored = [name for name, one in METHODS.items() if one.score != "random"]
    configuration = Configuration.resolve(
        {
            "seeds": 1,
            **settings,
            "dataset": CUSTOM,
            "model": model if isinstance(model, str) else CUSTOM,
            "methods": list(dict.fromkeys([method, *scored])),
            "ratios": [ratio],
        }
    )
    directory = RunDirectory(Path(tempfile.mkdtemp(prefix="moso-")) / "run" if out is None else Path(out))
    job = Job(directory, configuration, DataSet(CUSTOM, train, test), _builder(model), loss, Effort(loader_workers))
    executor = InProcess(progress)
    pairs = [(method, selector or chosen.selector)]
    with directory.locked():
        begin(job)
        train_stage(job, executor)
        score_stage(job, executor, list(configuration.methods))
        select_stage(job, pairs)
        if test is not None:
            evaluate_stage(job, executor, pairs)
    run = Run(directory)
    kept = run.kept(method, ratio, pairs[0][1])
    return Pruned(kept, run.scores()[chosen.score], Subset(subset_of, kept.tolist()), run)


def _builder(model: str | Callable[[], nn.Module]) -> Callable[[int], nn.Module] | None:
    if isinstance(model, str):
        return None
    if isinstance(model, nn.Module):
        raise MosoError("model= takes a name or a function that makes a fresh network, such as lambda: MyNetwork()")

    def build(seed: int) -> nn.Module:
        with seeded(seed, "init"):
            return model()

    return build


def _samples(data: Any, plain: Any, labels: Any, classes: Sequence[str] | None = None) -> tuple[Samples, Any]:
    """Somebody's data as samples, and the dataset a `Subset` of it is taken from."""
    if is_array_pair(data):
        stored = StoredSamples.from_arrays(data[0], data[1] if labels is None else labels, classes)
        return stored, list(zip(data[0], data[1], strict=True))
    view = as_view(data)
    quiet = ItemView(data if plain is None else plain)
    if len(quiet) != len(view):
        raise MosoError(f"score_set has {len(quiet)} samples and train_set {len(view)}; they must be the same samples")
    check_repeatable(quiet, "the data set" if plain is None else "score_set")
    found = check_labels(_labels_of(quiet) if labels is None else labels, len(classes) if classes else None)
    if len(found) != len(view):
        raise MosoError(f"there are {len(view)} samples but {len(found)} labels")
    names = tuple(classes) if classes else tuple(str(name) for name in range(int(found.max()) + 1))
    return UserSamples(data, quiet.dataset, found, names), data


def _labels_of(view: ItemView) -> list[Any]:
    found = []
    for position in range(len(view)):
        item = view[position]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise MosoError("samples are not (input, label) pairs; give labels=, one class a sample")
        found.append(item[1].item() if isinstance(item[1], torch.Tensor) else item[1])
    return found
