"""The samples of one split: stable ids, labels, and the two views of them.

The **training view** is what the network learns from (augmented, addressed by seed and epoch). The
**evaluation view** is the sample itself; scores are always taken through it.

Where the answer is no class but a number or several, `targets` are the answers; there are no `classes` then, and all
`labels` are 0, so that partitions and held-out tests know a single stratum.
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


class Samples(Protocol):
    """One split of a data set, whatever it is made of."""

    @property
    def ids(self) -> pa.Array:
        """One stable id a sample: the row number (int64) or the path (string)."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """One class index a sample; all 0 where there are no classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by index; none where the answer is no class."""

    @property
    def targets(self) -> NDArray[np.float32] | None:
        """The answers where they are numbers, `[n]` or `[n, numbers]`, as the user knows them."""

    @property
    def answers(self) -> NDArray[Any]:
        """What the network is to answer: class indices, or numbers in the units that batches have them in."""

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


def outputs(samples: Samples) -> int:
    """How many numbers a network gives for one sample: one a class, or one a number to predict.

    >>> outputs(StoredSamples.from_arrays(np.zeros((3, 2)), targets=[0.5, 1.5, 2.5]))
    1
    """
    return len(samples.classes) if samples.targets is None else int(np.prod(samples.targets.shape[1:], dtype=np.int64))


def id_keys(ids: pa.Array) -> NDArray[np.uint64]:
    """The samples' keys: a function of the id alone, so of no order.

    >>> id_keys(pa.array([0, 1, 2]))[1] == id_keys(pa.array([1]))[0]
    np.True_
    """
    if pa.types.is_integer(ids.type):
        return hashes(ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64), "id")
    return np.fromiter((key(str(value)) for value in ids.to_pylist()), dtype=np.uint64, count=len(ids))


def check_labels(labels: Any, classes: int | None = None) -> NDArray[np.int64]:
    """Labels as int64, refused where they are missing, fractional or out of range.

    >>> check_labels([0, 1, 1.0])
    array([0, 1, 1])
    >>> check_labels([0, 1.5])
    Traceback (most recent call last):
    ...
    moso.errors.LabelInvalid: label 1.5 of sample 1 is not a whole number
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise errors.ShapeMismatch(f"labels must be one number a sample, not of shape {array.shape}")
    if array.dtype == object or array.dtype.kind not in "iufb":
        raise errors.LabelInvalid(f"labels must be whole numbers, not {array.dtype}; map class names to 0..C-1 first")
    if array.dtype.kind == "f":
        if np.isnan(array).any():
            raise errors.LabelsMissing(f"label of sample {int(np.argmax(np.isnan(array)))} is missing")
        fractional = array != np.floor(array)
        if fractional.any():
            first = int(np.argmax(fractional))
            raise errors.LabelInvalid(f"label {array[first]} of sample {first} is not a whole number")
    whole = array.astype(np.int64, copy=False)
    upper = np.iinfo(np.int64).max if classes is None else classes
    if len(whole) and (whole.min() < 0 or whole.max() >= upper):
        first = int(np.argmax((whole < 0) | (whole >= upper)))
        end = "..." if classes is None else f"{upper - 1}"
        raise errors.LabelInvalid(f"label {whole[first]} of sample {first} is out of range 0..{end}")
    return whole


def check_targets(targets: Any) -> NDArray[np.float32]:
    """Numbers to predict as float32, `[n]` or `[n, numbers]`, refused where one is missing or infinite.

    >>> check_targets([1, 2.5])
    array([1. , 2.5], dtype=float32)
    """
    array = np.asarray(targets)
    if array.ndim not in (1, 2) or 0 in array.shape[1:]:
        raise errors.ShapeMismatch(f"targets must be one number a sample or a row of them, not of shape {array.shape}")
    if array.dtype.kind not in "iufb":
        raise errors.LabelInvalid(f"targets must be numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    bad = ~np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if bad.any():
        raise errors.ValuesNotFinite(
            f"target of sample {int(np.argmax(bad))} is missing or infinite ({int(bad.sum())} are in all)"
        )
    return numbers


def _content_hash(samples: Samples, content: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(samples.keys.data)
    digest.update(np.ascontiguousarray(samples.labels).data)
    digest.update("\0".join(samples.classes).encode())
    digest.update(content.encode())
    if samples.targets is not None:
        digest.update(np.ascontiguousarray(samples.targets).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class StoredSamples:
    """Samples of arrays, images and texts: a reader, an id and an answer for each, and how inputs are normalised.

    Numbers to predict reach the network through a normalisation of their own.

    >>> samples = StoredSamples.from_arrays(np.zeros((4, 1, 8, 8), dtype=np.uint8), [0, 1, 0, 1])
    >>> len(samples), samples.classes, samples.ids.to_pylist()
    (4, ('0', '1'), [0, 1, 2, 3])
    """

    ids: pa.Array
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    reader: Reader
    normalisation: Normalisation = field(default_factory=Normalisation)
    targets: NDArray[np.float32] | None = None
    target_normalisation: Normalisation = field(default_factory=Normalisation)

    @classmethod
    def from_arrays(
        cls,
        inputs: Any,
        labels: Any = None,
        classes: Sequence[str] | None = None,
        ids: Sequence[Any] | None = None,
        targets: Any = None,
    ) -> "StoredSamples":
        """Samples in memory: uint8 `[n, channels, height, width]` images, or numbers of any shape.

        The answers are `labels`, one class a sample, or `targets`, numbers `[n]` or `[n, numbers]`.
        """
        assert (labels is None) != (targets is None), "answers are labels or targets"
        array, answers = _plain_array(inputs), _plain_array(labels if targets is None else targets)
        if not (array.dtype == np.uint8 and array.ndim == 4):
            if array.dtype.kind not in "iufb":
                raise errors.WrongType(f"inputs must be numbers, not {array.dtype}")
            array = array.astype(np.float32)
        if len(array) != len(answers):
            what = "labels" if targets is None else "targets"
            raise errors.LengthMismatch(f"there are {len(array)} inputs but {len(answers)} {what}")
        if len(array) == 0:
            raise errors.DataEmpty("the data set is empty")
        numbers, checked, names = None, np.zeros(len(array), dtype=np.int64), tuple(classes or ())
        if targets is not None:
            numbers = check_targets(answers)
        else:
            checked = check_labels(answers, len(classes) if classes is not None else None)
            checked = checked.copy() if checked is answers else checked  # somebody else's, who may write to it
            names = names or tuple(str(c) for c in range(int(checked.max()) + 1))
        column = pa.array(np.arange(len(array)) if ids is None else ids)
        if len(column) != len(array):
            raise errors.LengthMismatch(f"there are {len(array)} inputs but {len(column)} ids")
        if ids is not None and pc.count_distinct(column).as_py() != len(column):
            raise errors.IdsNotUnique("ids are not unique; scores are bound to ids, so each sample needs its own")
        check_finite(array, column)
        return cls(column, checked, names, MemoryReader(array), targets=numbers)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """One key a sample."""
        return id_keys(self.ids)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.reader.shape

    @property
    def vocabulary(self) -> int | None:
        """How many token ids there are, where inputs are texts."""
        return self.reader.vocabulary if isinstance(self.reader, TextReader) else None

    @cached_property
    def answers(self) -> NDArray[Any]:
        """What the network is to answer: class indices, or numbers normalised as it meets them."""
        if self.targets is None:
            return self.labels
        return self.target_normalisation.apply(self.targets.copy()).numpy()  # it works in place

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """Augmented inputs and answers."""
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
            labels=take(self.labels, positions),
            reader=self.reader.take(positions),
            targets=None if self.targets is None else self.targets[positions],
        )

    def relabelled(self, labels: NDArray[np.int64]) -> "StoredSamples":
        """The same samples under other labels."""
        return replace(self, labels=check_labels(labels, len(self.classes)))

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
class UserSamples:
    """Somebody's own map-style dataset: `dataset[i]` is whatever their loss takes.

    `plain` is its evaluation view: the same samples, without random augmentation. `collate` makes a batch of items.
    """

    dataset: Any
    plain: Any
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    targets: NDArray[np.float32] | None = None
    collate: Collate = default_collate
    vocabulary = None

    @property
    def answers(self) -> NDArray[Any]:
        """The classes or the numbers as the user's dataset has them."""
        return self.labels if self.targets is None else self.targets

    @property
    def ids(self) -> pa.Array:
        """The position in the user's dataset."""
        return pa.array(np.arange(len(self.labels)))

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """One key a sample."""
        return id_keys(self.ids)

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
