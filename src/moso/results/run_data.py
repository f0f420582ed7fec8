"""The data that the networks of a run meet: the data set itself, features of it, or the outputs of a frozen trunk.

A frozen trunk is found from the network (`moso.models.trunk`). Its outputs lie in the run directory (`trunk/`),
float32, one array per split and one more per fixed augmented view; the network of the run is then what comes after the
trunk. `trunk/trunk.json` is written last and says whether the network was cut.
"""

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from moso import errors
from moso.code_trust import is_code
from moso.configuration import Configuration
from moso.data.augment import Augmentation
from moso.data.dataset import DataSet, open_dataset
from moso.data.mapped import MappedReader
from moso.data.samples import Samples, StoredSamples
from moso.data.sources.registry import may_have_texts
from moso.data.views import Normalisation, View, load
from moso.embedding import write_rows
from moso.embedding.embedded_folder import content_of
from moso.embedding.embedder import trained_with
from moso.evidence import arrays
from moso.files import read_record, write_record
from moso.models import Start, build_model
from moso.models.adapters import is_adapter
from moso.models.transformers_folder import is_of_transformers
from moso.models.transformers_tokenizer import token_settings
from moso.models.trunk import Cut, cut_frozen
from moso.progress import Progress, silent
from moso.results.directory import RunDirectory
from moso.results.embedded import FOLDER, begin_folder, embedded_data, is_embedded, on_features, splits_of
from moso.training.two_views import inputs_of

TRUNK = "trunk"
_NOTE = "trunk.json"
_SPLITS = ("train", "test", "validation")
_BATCH = 256
Build = Callable[[int], nn.Module]


@dataclass(frozen=True)
class Preparation:
    """How inputs are prepared.

    Attributes:
        progress: Called as features are computed.
        placeholder: Compute no features: zeros of the right shape serve to estimate durations.
    """

    progress: Progress = silent
    placeholder: bool = False


def open_data(configuration: Configuration) -> DataSet:
    """Open the data set of a configuration as its source has it."""
    c = configuration
    data = open_dataset(
        c.dataset,
        task=c.task,
        resize=c.resize,
        on_broken=c.on_broken,
        labels=c.labels,
        label_noise=c.label_noise,
        noise_kind=c.noise_kind,
        seed=c.seed,
        test_share=c.test_share,
        memory_limit=c.memory_limit_bytes,
        validation=c.validation,
        validation_share=c.validation_share,
        tokens=token_settings(c.model, c.max_tokens) if may_have_texts(c.dataset) else None,
    )
    return data if c.embed else _as_trained(data, c.model, c.start)


def load_data(configuration: Configuration, directory: RunDirectory, how: Preparation | None = None) -> DataSet:
    """Open the data set of a configuration as the networks of its run meet it.

    Args:
        configuration: The configuration of the run.
        directory: The run directory, where computed features are kept.
        how: How features are computed that are not there yet.

    Raises:
        MosoError: Those of `open_dataset`, `embedded_data` and `build_model`.
    """
    return prepared(open_data(configuration), configuration, directory, how)


def prepared(
    data: DataSet,
    configuration: Configuration,
    directory: RunDirectory,
    how: Preparation | None = None,
    build: Build | None = None,
) -> DataSet:
    """Return the data that the networks of a run meet; features are computed unless they are there.

    Args:
        data: The data set itself.
        configuration: The configuration of the run.
        directory: The run directory.
        how: How features are computed.
        build: Builds the user's own network from a seed.
    """
    how = how or Preparation()
    if configuration.embed:
        return _embedded(data, configuration, directory, how)
    # A dataset or a loss of the user's own may give the network more than one tensor per sample; pairs do.
    plain = isinstance(data.train, StoredSamples) and data.task.own_loss is None and not data.task.answers_are_texts
    if not plain or not _may_be_frozen(configuration, build):
        return data
    return _behind_trunk(data, configuration, directory, how, build)


def full_network(configuration: Configuration, data: DataSet, seed: int, build: Build | None = None) -> nn.Module:
    """Return the network of a run, trunk and all, with the initial weights of a seed."""
    if build is not None:
        return build(seed)
    data.task.check_outputs()
    train, c = data.train, configuration
    start = Start() if c.embed else c.start
    return build_model(
        c.model, train.shape, data.task.outputs, seed, vocabulary=train.vocabulary, start=start, task=data.task.name
    )


def rest_network(model: nn.Module, original: DataSet) -> nn.Module:
    """Return the part of a network after its frozen trunk.

    Raises:
        MosoError: ``model-unsuitable`` if the network cannot be cut any more.
    """
    cut = _cut(model, original.train)
    if cut is None:
        raise errors.ModelUnsuitable("the frozen trunk of the network is not what it was when the run was begun")
    return copy.deepcopy(cut.rest)


def is_cut(directory: RunDirectory) -> bool:
    """Return whether the network of a run was cut behind its frozen trunk."""
    note = directory.root / TRUNK / _NOTE
    return note.exists() and bool(read_record(note)["cut"])


def _as_trained(data: DataSet, name: str, start: Start) -> DataSet:
    """Return the data normalised as a network's pretrained weights expect it, if that is known."""
    normalisation = trained_with(name, start)[1]
    if normalisation is None or len(data.train.shape) != 3 or data.train.shape[0] != len(normalisation.mean):
        return data
    seen = {
        split: samples.normalised(normalisation)
        for split in _SPLITS
        if isinstance(samples := getattr(data, split), StoredSamples)
    }
    return replace(data, **seen)  # type: ignore[arg-type]


def _embedded(data: DataSet, c: Configuration, directory: RunDirectory, how: Preparation) -> DataSet:
    folder = directory.root / FOLDER
    directory.pull(lambda name: name.startswith(f"{FOLDER}/"))
    ready = how.placeholder or is_embedded(c, splits_of(data), folder)
    with nullcontext() if ready else _writing(directory, c):
        found = embedded_data(data, c, folder, how.progress, how.placeholder)
    if c.prove == "network" and found.original is not None:
        start = c.start if c.retrained_network == c.embed else Start()
        found = replace(found, original=_as_trained(found.original, c.retrained_network, start))
    return found


@contextmanager
def _writing(directory: RunDirectory, c: Configuration) -> Iterator[None]:
    """Hold the lock of a directory that is this run's or empty."""
    with directory.locked():
        directory.check(c)
        yield


def _may_be_frozen(c: Configuration, build: Build | None) -> bool:
    if is_adapter(c.train) or (build is None and is_of_transformers(c.model)):
        return False  # adapters sit in every block, and models of transformers take token ids
    own = build is not None or is_code(c.model)
    return c.trunk == "once" and (own or c.train != "all")


def _behind_trunk(
    data: DataSet, c: Configuration, directory: RunDirectory, how: Preparation, build: Build | None
) -> DataSet:
    folder = directory.root / TRUNK
    directory.pull(lambda name: name.startswith(f"{TRUNK}/"))
    noted = (folder / _NOTE).exists()
    if (noted and not is_cut(directory)) or (not noted and directory.manifest().get("dataset") is not None):
        return data
    views = _views(data, c)
    if noted and all((folder / f"{name}.npy").exists() for name in views):
        return _read(data, folder)
    cut = _fixed_cut(data, c, build)
    if cut is None or how.placeholder:
        return data
    with _writing(directory, c):
        begin_folder(folder, {"trunk": _digest(cut.trunk), "views": {name: one[1:] for name, one in views.items()}})
        for name, view in views.items():
            _write(folder / f"{name}.npy", view, cut.trunk, how.progress, f"frozen trunk, {name}")
        write_record(folder / _NOTE, {"format": 1, "cut": True, "after": cut.after, "views": sorted(views)})
    return _read(data, folder)


def _fixed_cut(data: DataSet, c: Configuration, build: Build | None) -> Cut | None:
    """Return the cut, if there is one, its trunk is the same for every seed, and augmentation does not forbid it."""
    cuts = [_cut(full_network(c, data, seed, build), data.train) for seed in (c.seed, c.seed + 1)]
    first, second = cuts
    if first is None or second is None or _digest(first.trunk) != _digest(second.trunk):
        return None
    if not c.feature_views and any(one != "none" for one in _augmentations(c)):
        warnings.warn(
            "the trunk of the network is frozen, but augmentation changes its inputs in every epoch; --augmentation "
            "none or --feature-views 4 computes it once",
            stacklevel=3,
        )
        return None
    return first


def _cut(model: nn.Module, train: Samples) -> Cut | None:
    inputs = inputs_of(train.evaluation_view().batch(np.arange(min(2, len(train)))))
    return cut_frozen(model.cpu(), inputs)


def _digest(module: nn.Module) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _augmentations(c: Configuration) -> set[Augmentation]:
    found = {c.surrogate.augmentation}
    return found | {c.retraining.augmentation} if c.retrained_network == c.model else found


def _views(data: DataSet, c: Configuration) -> dict[str, tuple[View, int, str]]:
    """Return every view that is computed: the splits themselves, and fixed augmented views of the training split."""
    found: dict[str, tuple[View, int, str]] = {}
    for split in _SPLITS:
        samples = getattr(data, split)
        if samples is not None:
            found[split] = (samples.evaluation_view(), 0, content_of(samples))
    for augmentation in sorted(_augmentations(c) - {"none"}):
        view = data.train.training_view(augmentation, c.seed)
        for number in range(c.feature_views):
            found[f"train-{augmentation}-{number:03d}"] = (view, number, content_of(data.train))
    return found


def _write(path: Path, what: tuple[View, int, str], trunk: nn.Module, progress: Progress, label: str) -> None:
    view, epoch, content = what
    trunk = trunk.eval()

    @torch.inference_mode()
    def compute(batch: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.asarray(trunk(inputs_of(batch)).float().numpy())

    write_rows(
        path,
        len(view),
        lambda plan: load(view, plan, epoch),
        compute,
        dtype="float32",
        batch_size=_BATCH,
        decided_by={"trunk": _digest(trunk), "content": content},
        progress=progress,
        label=label,
    )


def _read(data: DataSet, folder: Path) -> DataSet:
    """Return the data set of a trunk's outputs."""
    seen: dict[str, StoredSamples] = {}
    for split in _SPLITS:
        samples = getattr(data, split)
        if samples is not None:
            rows = arrays.read(folder / f"{split}.npy")
            if len(rows) != len(samples):
                raise errors.DataChanged(f"{folder} holds {len(rows)} rows of the {split} split, not {len(samples)}")
            seen[split] = replace(on_features(samples, MappedReader(rows), Normalisation()), one_scale=False)
    augmented: dict[str, tuple[MappedReader, ...]] = {}
    for name in read_record(folder / _NOTE)["views"]:
        if name not in _SPLITS:
            kind = name.removeprefix("train-").rpartition("-")[0]
            augmented[kind] = (*augmented.get(kind, ()), MappedReader(arrays.read(folder / f"{name}.npy")))
    train = replace(seen["train"], augmented=augmented)
    return replace(data, train=train, test=seen.get("test"), validation=seen.get("validation"), original=data)
