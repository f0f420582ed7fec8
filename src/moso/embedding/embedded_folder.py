"""A folder of features, which `features:DIR` reads: arrays, labels, ids, class names, and a note of what made them."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.data.dataset import DataSet
from moso.data.samples import Samples, StoredSamples
from moso.data.sources.features_folder import NOTE, read_array, read_note
from moso.embedding.embedder import Embedder
from moso.embedding.rows import BATCH_SIZE, batches_of, write_rows
from moso.files import replacing, sweep_dead, write_json
from moso.progress import Progress, silent
from moso.training.loop import threads


@dataclass(frozen=True)
class Embedding:
    """How features are computed and stored; none of it but `dtype` changes them by more than rounding.

    Attributes:
        dtype: Type of the stored numbers, `float16` or `float32`.
        batch_size: Samples per batch.
        threads: Threads of PyTorch.
        loader_workers: Processes that read samples ahead.
    """

    dtype: str = "float16"
    batch_size: int = BATCH_SIZE
    threads: int = 1
    loader_workers: int = 0


def content_of(samples: Samples) -> str:
    """Return a hash of ids and inputs, whatever the labels: it says whose features a file holds."""
    digest = hashlib.blake2b(samples.keys.tobytes(), digest_size=16)
    inputs = samples.reader.fingerprint() if isinstance(samples, StoredSamples) else samples.fingerprint()
    digest.update(inputs.encode())
    return digest.hexdigest()


def embed_samples(
    path: Path,
    samples: Samples,
    embedder: Embedder,
    how: Embedding | None = None,
    *,
    progress: Progress = silent,
    label: str = "embedding",
) -> NDArray[Any]:
    """Compute the features of samples, or read them if the file is there; return them as a memory map.

    Args:
        path: The npy file, `[samples, width]`.
        samples: The samples.
        embedder: The network.
        how: Type of the numbers, batches, threads.
        progress: Called after every batch.
        label: Name of the work, for progress.

    Raises:
        MosoError: ``values-not-finite``, ``model-unsuitable``, ``out-of-memory``.

    Example:
        >>> import tempfile
        >>> from moso.embedding.embedder import find_embedder
        >>> samples = StoredSamples.from_arrays(np.zeros((5, 1, 8, 8), dtype=np.uint8), [0, 1, 0, 1, 0])
        >>> path = Path(tempfile.mkdtemp()) / "train.npy"
        >>> embed_samples(path, samples, find_embedder("convnet-w4", samples)).shape
        (5, 8)
    """
    how = how or Embedding()
    if not path.exists():
        batches = batches_of(embedder, embedder.view_of(samples), samples.text, how.loader_workers)
        decided = {**embedder.note(), "content": content_of(samples), "threads": how.threads}
        with threads(how.threads):
            write_rows(
                path,
                len(samples),
                batches,
                embedder.rows,
                dtype=how.dtype,
                batch_size=how.batch_size,
                decided_by=decided,
                progress=progress,
                label=label,
            )
    return read_array(path)


@dataclass(frozen=True)
class EmbeddedFolder:
    """What `write_features_folder` wrote: the folder, the number of samples per split, and the width of a row."""

    path: Path
    samples: dict[str, int]
    width: int


def write_features_folder(
    folder: Path,
    data: DataSet,
    embedder: Embedder,
    how: Embedding | None = None,
    *,
    resize: int | None = None,
    progress: Progress = silent,
) -> EmbeddedFolder:
    """Write the features of every split of a data set, with labels, ids and class names; go on where a kill stopped it.

    Args:
        folder: The folder; a folder with features of something else is refused.
        data: The data set.
        embedder: The network.
        how: Type of the numbers, batches, threads.
        resize: Pixels to which the data set's images were scaled when it was opened, for the record.
        progress: Called after every batch.

    Raises:
        MosoError: ``output-exists``, and those of `embed_samples`.
    """
    how = how or Embedding()
    splits = {"train": data.train, "test": data.test, "validation": data.validation}
    there = {name: samples for name, samples in splits.items() if samples is not None}
    decided = {
        "format": 1,
        "dataset": data.name,
        "resize": resize,
        "dtype": how.dtype,
        **embedder.note(),
        "content": {name: content_of(samples) for name, samples in there.items()},
    }
    before = read_note(folder) if folder.is_dir() else {}
    if before and {name: before.get(name) for name in decided} != json.loads(json.dumps(decided)):
        raise errors.OutputExists(f"{folder} holds other features already ({before.get('network')}); use another --out")
    if not before and (folder / "train.npy").exists() and not (folder / ".moso-embedding.json").exists():
        raise errors.OutputExists(f"{folder} holds a train.npy that moso embed did not write; use another --out")
    if not before:
        _begin(folder, decided)
    width = 0
    for name, samples in there.items():
        rows = embed_samples(folder / f"{name}.npy", samples, embedder, how, progress=progress, label=f"{name} split")
        width = rows.shape[1]
        ids = samples.ids.to_numpy(zero_copy_only=False)
        _save(folder / f"{name}_ids.npy", ids.astype(np.str_) if ids.dtype == object else ids)
        _save(folder / f"{name}_labels.npy", np.asarray(samples.targets))
    if data.task.classes:
        write_json(folder / "classes.json", list(data.task.classes))
    write_json(folder / NOTE, {**decided, "width": width})
    (folder / ".moso-embedding.json").unlink(missing_ok=True)
    sweep_dead(folder)
    return EmbeddedFolder(folder, {name: len(samples) for name, samples in there.items()}, width)


def _begin(folder: Path, decided: dict[str, Any]) -> None:
    """Mark a folder as begun; rows of other settings that were begun before are removed."""
    marker = folder / ".moso-embedding.json"
    if marker.exists() and json.loads(marker.read_text(encoding="utf-8")) != json.loads(json.dumps(decided)):
        for name in decided["content"]:
            (folder / f"{name}.npy").unlink(missing_ok=True)
    write_json(marker, decided)


def _save(path: Path, values: NDArray[Any]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)
