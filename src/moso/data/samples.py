"""The samples of one split: stable ids, answers, and the two views of them.

The **training view** is what the network learns from (augmented, addressed by seed and epoch). The
**evaluation view** is the sample itself; scores are always taken through it.

What an answer is, the task says. Where samples belong to no classes all `labels` are 0, so that partitions and
held-out tests know a single stratum.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import default_collate

from moso import errors
from moso.columns import take
from moso.data.augment import Augmentation
from moso.data.readers import MemoryReader, Reader, check_finite
from moso.data.tokenizer import TextReader
from moso.data.views import Collate, ItemView, Normalisation, StoredView, View, tree_bytes
from moso.randomness import generator, hashes, key
from moso.tasks import Classification, Task
from moso.tasks.task import Answers


class Samples(Protocol):
    """One split of a data set, whatever it is made of."""

    @property
    def ids(self) -> pa.Array:
        """One stable id a sample: the row number (int64) or the path (string)."""

    @property
    def task(self) -> Task:
        """What is to be learned; the same for all splits of a data set."""

    @property
    def targets(self) -> Answers:
        """One answer per sample, `[n, ...]`, as the user knows it; `[n, 0]` where answers were not looked at."""

    @property
    def answers(self) -> Answers:
        """What the network is to answer, `[n, ...]`: the targets in the units that batches have them in."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """One class index per sample; all 0 where there are no classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the task's classes, by index."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key a sample, made from its id: where its random draws are addressed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @property
    def vocabulary(self) -> int | None:
        """How many token ids there are, where inputs are token ids."""

    def __len__(self) -> int:
        """How many samples there are."""

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """What the network learns from."""

    def evaluation_view(self) -> View:
        """The samples themselves."""

    def picture(self, position: int) -> Image.Image | None:
        """A sample as a picture, if it is one."""

    def text(self, position: int) -> str | None:
        """A sample as a text, if it is one."""

    def fingerprint(self) -> str:
        """A hash of ids, labels and content: another data set under the same name is noticed."""


def id_keys(ids: pa.Array) -> NDArray[np.uint64]:
    """The samples' keys: a function of the id alone, so of no order.

    >>> id_keys(pa.array([0, 1, 2]))[1] == id_keys(pa.array([1]))[0]
    np.True_
    """
    if pa.types.is_integer(ids.type):
        return hashes(ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64), "id")
    return np.fromiter((key(str(value)) for value in ids.to_pylist()), dtype=np.uint64, count=len(ids))


def _content_hash(samples: Samples, content: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(samples.keys.data)
    digest.update(np.ascontiguousarray(samples.labels).data)
    digest.update("\0".join(samples.classes).encode())
    digest.update(content.encode())
    if samples.targets is not samples.labels:
        digest.update(np.ascontiguousarray(samples.targets).tobytes())
    return digest.hexdigest()


class _Answered:
    """What follows from ids, answers and their task; `groups` are classes that the user put samples in beside them."""

    task: Task
    targets: Answers
    groups: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the task's classes, by index."""
        return self.task.classes

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """One class index per sample; all 0 where there are no classes."""
        return self.task.labels(self.targets) if self.groups is None else self.groups

    @cached_property
    def keys(self: Samples) -> NDArray[np.uint64]:
        """One key per sample."""
        return id_keys(self.ids)


@dataclass(frozen=True)
class StoredSamples(_Answered):
    """Samples of arrays, images and texts: a reader, an id and an answer for each, and how the network meets them.

    >>> samples = StoredSamples.from_arrays(np.zeros((4, 1, 8, 8), dtype=np.uint8), [0, 1, 0, 1])
    >>> len(samples), samples.classes, samples.ids.to_pylist()
    (4, ('0', '1'), [0, 1, 2, 3])
    """

    ids: pa.Array
    task: Task
    targets: Answers
    reader: Reader
    normalisation: Normalisation = field(default_factory=Normalisation)
    target_normalisation: Normalisation = field(default_factory=Normalisation)
    groups: NDArray[np.int64] | None = None

    @classmethod
    def from_arrays(
        cls, inputs: Any, answers: Any, task: Task | None = None, ids: Sequence[Any] | None = None
    ) -> "StoredSamples":
        """Samples in memory: uint8 `[n, channels, height, width]` images, or numbers of any shape.

        `answers` are as the task reads them, `[n, ...]`; without a task, they are class indices.
        """
        task = Classification() if task is None else task
        array, given = _plain_array(inputs), _plain_array(answers)
        if not (array.dtype == np.uint8 and array.ndim == 4):
            if array.dtype.kind not in "iufb":
                raise errors.WrongType(f"inputs must be numbers, not {array.dtype}")
            array = array.astype(np.float32)
        if len(array) != len(given):
            raise errors.LengthMismatch(f"there are {len(array)} inputs but {len(given)} {task.column}s")
        if len(array) == 0:
            raise errors.DataEmpty("the data set is empty")
        task, targets = task.read(given)
        targets = targets.copy() if targets is given else targets  # somebody else's, who may write to it
        column = pa.array(np.arange(len(array)) if ids is None else ids)
        if len(column) != len(array):
            raise errors.LengthMismatch(f"there are {len(array)} inputs but {len(column)} ids")
        if ids is not None and pc.count_distinct(column).as_py() != len(column):
            raise errors.IdsNotUnique("ids are not unique; scores are bound to ids, so each sample needs its own")
        check_finite(array, column)
        return cls(column, task, targets, MemoryReader(array))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.reader.shape

    @property
    def vocabulary(self) -> int | None:
        """How many token ids there are, where inputs are texts."""
        return self.reader.vocabulary if isinstance(self.reader, TextReader) else None

    @cached_property
    def answers(self) -> Answers:
        """What the network is to answer, normalised as the network meets it."""
        if not self.target_normalisation.mean:
            return self.targets
        return self.target_normalisation.apply(self.targets.copy()).numpy()  # it works in place

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """Augmented inputs and answers; refused where the answer would have to move with its picture."""
        if augmentation != "none" and not self.task.answers_survive_crops:
            raise errors.SettingsConflict(
                f"augmentation {augmentation!r} moves pictures and not the answers of task {self.task.name!r}; "
                "give --augmentation none, or augment both in a dataset of your own"
            )
        return StoredView(self.reader, self.answers, self.keys, self.normalisation, augmentation, seed)

    def evaluation_view(self) -> View:
        """Inputs as they are, and answers."""
        return StoredView(self.reader, self.answers, self.keys, self.normalisation)

    def picture(self, position: int) -> Image.Image | None:
        """A sample as a picture, if it is one."""
        return self.reader.picture(position)

    def text(self, position: int) -> str | None:
        """A sample as a text, if it is one."""
        return self.reader.text(position) if isinstance(self.reader, TextReader) else None

    def fingerprint(self) -> str:
        """A hash of ids, answers and content."""
        return _content_hash(self, self.reader.fingerprint())

    def take(self, positions: NDArray[np.int64]) -> "StoredSamples":
        """A subset, in the order given, ids and all."""
        return replace(
            self,
            ids=_taken_ids(self.ids, positions),
            targets=take(self.targets, positions),
            reader=self.reader.take(positions),
            groups=None if self.groups is None else take(self.groups, positions),
        )

    def relabelled(self, targets: Answers) -> "StoredSamples":
        """The same samples with other answers."""
        return replace(self, targets=self.task.read(targets)[1])

    def normalised(self, normalisation: Normalisation) -> "StoredSamples":
        """The same samples, seen by the network through this normalisation."""
        return replace(self, normalisation=normalisation)


def _taken_ids(ids: pa.Array, positions: NDArray[np.int64]) -> pa.Array:
    if pa.types.is_integer(ids.type):
        return pa.array(take(ids.to_numpy(zero_copy_only=False), positions))
    return ids.take(pa.array(positions))


def _plain_array(part: Any) -> NDArray[Any]:
    return np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)


@dataclass(frozen=True)
class UserSamples(_Answered):
    """Somebody's own map-style dataset: `dataset[i]` is whatever their loss takes.

    `plain` is its evaluation view: the same samples, without random augmentation. `collate` makes a batch of items.
    """

    dataset: Any
    plain: Any
    task: Task
    targets: Answers
    groups: NDArray[np.int64] | None = None
    collate: Collate = default_collate
    vocabulary = None

    @property
    def answers(self) -> Answers:
        """The answers as the user's dataset has them."""
        return self.targets

    @property
    def ids(self) -> pa.Array:
        """The position in the user's dataset."""
        return pa.array(np.arange(len(self)))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        first = self.plain[0]
        inputs = first[0] if isinstance(first, tuple | list) else first
        return tuple(getattr(inputs, "shape", ()))

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """The user's dataset, its own randomness addressed by seed, epoch and sample."""
        return ItemView(self.dataset, self.keys, seed, self.collate)

    def evaluation_view(self) -> View:
        """The user's evaluation view."""
        return ItemView(self.plain, self.keys, collate=self.collate)

    def picture(self, position: int) -> Image.Image | None:
        """Unknown: the user's inputs are already tensors."""
        return None

    def text(self, position: int) -> str | None:
        """Unknown: the user's inputs are already tensors."""
        return None

    def fingerprint(self) -> str:
        """A hash of all labels and of the content of 64 samples drawn by address."""
        chosen = generator("fingerprint", len(self)).choice(len(self), min(64, len(self)), replace=False)
        digest = hashlib.blake2b(digest_size=16)
        for position in np.sort(chosen).tolist():
            digest.update(tree_bytes(self.plain[position]))
        return _content_hash(self, digest.hexdigest())
