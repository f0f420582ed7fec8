"""A run on features: the samples of a data set, seen through a network that is not trained.

The features lie in the run directory (`embedding/`), computed once, or in a folder that somebody made (`features:DIR`),
whose rows are found by id and whose labels must be those of the data. Ids, labels, noise and splits are the data's own,
so what is kept of the features is kept of the data.
"""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso import errors
from moso.configuration import Configuration
from moso.configuration.network_settings import GIVEN_FEATURES
from moso.data.dataset import DataSet
from moso.data.mapped import MappedReader
from moso.data.samples import Samples, StoredSamples
from moso.data.sources.features_folder import open_features
from moso.data.sources.source import Request
from moso.data.views import Normalisation
from moso.embedding import Embedding, embed_samples, find_embedder
from moso.embedding.embedded_folder import content_of
from moso.evidence import arrays
from moso.files import clear_away, read_record, write_record
from moso.progress import Progress, silent

FOLDER = "embedding"
COMPLETE = "embedding.json"
_DECIDED = "settings.json"
_SPLITS = ("train", "test", "validation")


def embedded_data(
    data: DataSet, configuration: Configuration, folder: Path, progress: Progress = silent, placeholder: bool = False
) -> DataSet:
    """Return a data set whose inputs are features; `original` is the data set itself.

    Args:
        data: The data set.
        configuration: The configuration of the run, with `embed`.
        folder: Where features are kept that have to be computed.
        progress: Called as features are computed.
        placeholder: Compute none: return zeros of the right width, to estimate durations by.

    Raises:
        MosoError: ``length-mismatch``, ``sample-unknown``, ``classes-mismatch``, and those of `find_embedder`.
    """
    splits = splits_of(data)
    if configuration.embed.startswith(GIVEN_FEATURES):
        readers = _given(configuration.embed.removeprefix(GIVEN_FEATURES), data, splits)
    else:
        readers = _computed(configuration, splits, folder, progress, placeholder)
    normalisation = Normalisation.measure(readers["train"], one_scale=True)
    seen = {name: on_features(splits[name], readers[name], normalisation) for name in splits}
    return replace(data, train=seen["train"], test=seen.get("test"), validation=seen.get("validation"), original=data)


def on_features(samples: Samples, reader: MappedReader, normalisation: Normalisation) -> StoredSamples:
    """Return samples with features in place of their inputs; ids, task and answers stay."""
    if isinstance(samples, StoredSamples):
        return replace(samples, reader=reader, normalisation=normalisation, one_scale=True)
    groups = getattr(samples, "groups", None)
    return StoredSamples(samples.ids, samples.task, samples.targets, reader, normalisation, groups=groups)


def splits_of(data: DataSet) -> dict[str, Samples]:
    """Return the splits of a data set by name."""
    return {name: samples for name in _SPLITS if (samples := getattr(data, name)) is not None}


def is_embedded(configuration: Configuration, splits: Collection[str], folder: Path) -> bool:
    """Return whether the features of all splits are in the folder, or given."""
    if configuration.embed.startswith(GIVEN_FEATURES):
        return True
    return (folder / COMPLETE).exists() and all((folder / f"{name}.npy").exists() for name in splits)


def begin_folder(folder: Path, decided: dict[str, Any]) -> None:
    """Begin or go on with a folder of computed features; those of other settings are removed."""
    note = folder / _DECIDED
    if folder.is_dir():
        before = read_record(note) if note.exists() else None
        if before == json.loads(json.dumps(decided)):
            return
        clear_away(folder)
    write_record(note, decided)


def _computed(
    configuration: Configuration, splits: dict[str, Samples], folder: Path, progress: Progress, placeholder: bool
) -> dict[str, MappedReader]:
    c = configuration
    decided = {
        **{name: getattr(c, name) for name in ("embed", "embed_size", "pretrained", "weights")},
        "content": {name: content_of(samples) for name, samples in splits.items()},
    }
    if not placeholder and not is_embedded(c, splits, folder):
        begin_folder(folder, decided)
    embedder = None
    readers = {}
    for name, samples in splits.items():
        path = folder / f"{name}.npy"
        if not path.exists() and embedder is None:
            embedder = find_embedder(c.embed, splits["train"], c.start, c.embed_size, c.device)
        if placeholder and not path.exists():
            assert embedder is not None
            some = embedder.probe(samples)
            readers[name] = MappedReader(np.broadcast_to(some[:1], (len(samples), some.shape[1])))
            continue
        label = f"features of the {name} split"
        how = Embedding(threads=os.cpu_count() or 1)
        rows = (
            arrays.read(path)
            if embedder is None
            else embed_samples(path, samples, embedder, how, progress=progress, label=label)
        )
        if len(rows) != len(samples):
            raise errors.DataChanged(f"{path} holds the features of {len(rows)} samples, and there are {len(samples)}")
        readers[name] = MappedReader(rows)
    if embedder is not None and not placeholder:
        write_record(folder / COMPLETE, {"format": 1, "dataset": c.dataset, **embedder.note()})
    return readers


def _given(place: str, data: DataSet, splits: dict[str, Samples]) -> dict[str, MappedReader]:
    # Texts have no column beside features: the classes that lie there are read and not used.
    classes = data.task.answers_are_classes or data.task.answers_are_texts
    train, test = open_features(Request(place, task="" if classes else data.task.name))
    found = {}
    for name, samples in splits.items():
        # A test split of the source's own is in the folder's test split; one that was held out, in its training split.
        candidates = [train] if name != "test" or test is None else [test, train]
        found[name] = _rows_of(place, name, samples, candidates, _clean(data, name))
    return found


def _clean(data: DataSet, split: str) -> NDArray[np.int64] | None:
    """Return the labels of the source, which the labels beside given features must equal."""
    if split == "train" and data.clean_labels is not None:
        return data.clean_labels
    samples = getattr(data, split)
    return np.asarray(samples.labels) if data.task.answers_are_classes else None


def _rows_of(
    place: str, split: str, samples: Samples, candidates: Sequence[StoredSamples], labels: NDArray[np.int64] | None
) -> MappedReader:
    problem: errors.MosoError | None = None
    for features in candidates:
        ids = samples.ids
        found = pc.index_in(ids.cast("string"), features.ids.cast("string"))
        if found.null_count:
            first = ids[pc.index(pc.is_null(found), True).as_py()]
            problem = problem or errors.SampleUnknown(
                f"features:{place} has {len(features)} rows and none for sample {first} of the {split} split "
                f"({found.null_count} of {len(ids)} are missing)"
            )
            continue
        rows = found.to_numpy(zero_copy_only=False).astype(np.int64)
        if labels is not None and (wrong := np.flatnonzero(_other_labels(features, samples, rows, labels))).size:
            problem = problem or errors.ClassesMismatch(
                f"the labels beside features:{place} are not those of the data: {wrong.size} of {len(ids)} samples of "
                f"the {split} split differ, the first is sample {ids[int(wrong[0])]}; the rows may be in another order"
            )
            continue
        reader = features.reader
        assert isinstance(reader, MappedReader)
        return reader if np.array_equal(rows, np.arange(len(features))) else reader.take(rows)
    assert problem is not None
    raise problem


def _other_labels(
    features: StoredSamples, samples: Samples, rows: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which samples have another class beside the features: by name if both have names, else by index."""
    theirs = features.labels[rows]
    if set(features.classes) == set(samples.classes):
        return np.asarray(np.array(features.classes)[theirs] != np.array(samples.classes)[labels])
    return np.asarray(theirs != labels)
