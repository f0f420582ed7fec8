"""The samples of one split: stable ids, answers, and the two views of them.

The **training view** is what the network learns from (augmented, addressed by seed and epoch). The **evaluation view**
is the sample itself; scores are always computed on it.

The task defines what an answer is. If samples belong to no classes, all `labels` are 0, so that partitions and held-out
splits see a single stratum.
"""

import hashlib
from collections.abc import Mapping, Sequence
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
from moso.columns import Array, take
from moso.data.augment import Augmentation
from moso.data.bank_view import with_bank
from moso.data.pair_view import PairView, network_inputs
from moso.data.readers import MemoryReader, Reader, check_finite
from moso.data.sequences import SequenceReader
from moso.data.tokenizer import TextReader, Tokenizer
from moso.data.views import Collate, ItemView, Normalisation, StoredView, TurnView, View, tree_bytes
from moso.randomness import generator, hashes, key
from moso.tasks import Classification, Task
from moso.tasks.task import Answers


class Samples(Protocol):
    """One split of a data set, whatever its storage."""

    @property
    def ids(self) -> pa.Array:
        """One stable id per sample: the row number (int64) or the path (string)."""

    @property
    def task(self) -> Task:
        """The task that is learned; the same for all splits of a data set."""

    @property
    def targets(self) -> Answers:
        """One answer per sample, `[n, ...]`, in the user's units; `[n, 0]` if answers were not read."""

    @property
    def answers(self) -> Answers:
        """The targets in the units that batches hold them in, `[n, ...]`."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """One class index per sample; all 0 if there are no classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the task's classes, by index."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key per sample, a hash of its id, which addresses its random draws."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""

    @property
    def vocabulary(self) -> int | None:
        """Number of token ids, if inputs are token ids."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """Return the view that the network learns from."""

    def evaluation_view(self) -> View:
        """Return the view of the samples themselves."""

    def picture(self, position: int) -> Image.Image | None:
        """Return a sample as a picture, or None if it is not one."""

    def text(self, position: int) -> str | None:
        """Return a sample as a text, or None if it is not one."""

    def fingerprint(self) -> str:
        """Return a hash of ids, labels and content, which detects another data set under the same name."""


def id_keys(ids: pa.Array) -> NDArray[np.uint64]:
    """Return the samples' keys: a function of the id alone, independent of the order.

    Example:
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
    """Properties that follow from ids, answers and task; `groups` are classes that the user gave beside the answers."""

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
        """One class index per sample; all 0 if there are no classes."""
        return self.task.labels(self.targets) if self.groups is None else self.groups

    @cached_property
    def keys(self: Samples) -> NDArray[np.uint64]:
        """One key per sample."""
        return id_keys(self.ids)


@dataclass(frozen=True)
class StoredSamples(_Answered):
    """Samples of arrays, images or texts: a reader, one id and one answer per sample, and their normalisation.

    Attributes:
        ids: One stable id per sample.
        task: The task that is learned.
        targets: One answer per sample, `[n, ...]`.
        reader: Reader of the raw inputs.
        normalisation: Normalisation of the inputs.
        target_normalisation: Normalisation of the answers.
        groups: Class indices that the user gave beside the answers, `[n]`.
        one_scale: Whether all numbers of an input are divided by one common deviation and not each by its own. The
            axes of a network's features differ in length because they differ in what they say.
        augmented: Fixed augmented views of the inputs by name of the augmentation, where inputs are the outputs of a
            frozen trunk; training takes one after the other, epoch by epoch.
        answer_tokenizer: Makes token ids of answers that are texts.

    Example:
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
    one_scale: bool = False
    augmented: Mapping[str, tuple[Reader, ...]] = field(default_factory=dict)
    answer_tokenizer: Tokenizer | None = None

    @classmethod
    def from_arrays(
        cls, inputs: object, answers: object, task: Task | None = None, ids: Sequence[object] | None = None
    ) -> "StoredSamples":
        """Build samples in memory.

        Args:
            inputs: uint8 `[n, channels, height, width]` images, or numbers of shape `[n, ...]`.
            answers: Answers as the task reads them, `[n, ...]`.
            task: The task; by default classification, with class indices as answers.
            ids: Unique ids; by default row numbers.

        Raises:
            WrongType: Inputs are not numbers.
            LengthMismatch: The numbers of inputs, answers and ids differ.
            DataEmpty: There are no samples.
            IdsNotUnique: Two samples have the same id.
            ValuesNotFinite: An input is NaN or infinite.
        """
        task = Classification() if task is None else task
        array, given = _plain_array(inputs), _plain_array(answers)
        if not (array.dtype == np.uint8 and array.ndim == 4):
            if array.dtype.kind not in "iufb":
                raise errors.WrongType(f"inputs must be numbers, not {array.dtype}")
            # The caller may write to its own array. One that nobody can write to (columns of Arrow, a file mapped for
            # reading) is taken as it is, so that it is neither held twice nor read into memory.
            array = array.astype(np.float32, copy=array.flags.writeable)
        if len(array) != len(given):
            raise errors.LengthMismatch(f"there are {len(array)} inputs but {len(given)} {task.column}s")
        if len(array) == 0:
            raise errors.DataEmpty("the data set is empty")
        task, targets = task.read(given)
        targets = targets.copy() if targets is given else targets  # the caller may write to its own array
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
        """Number of token ids, if inputs are texts."""
        return self.reader.vocabulary if isinstance(self.reader, TextReader | SequenceReader) else None

    @cached_property
    def answers(self) -> Answers:
        """The answers, normalised or tokenised as the network meets them."""
        if self.answer_tokenizer is not None:
            return self.answer_tokenizer.encode(self.targets.tolist())
        if not self.target_normalisation.mean:
            return self.targets
        return self.target_normalisation.apply(self.targets.copy()).numpy()  # a copy, because `apply` works in place

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """Return the view of augmented inputs and their answers.

        Raises:
            SettingsConflict: The augmentation moves pictures, and the task's answers would have to move with them.
        """
        if augmentation != "none" and not self.task.answers_survive_crops:
            raise errors.SettingsConflict(
                f"augmentation {augmentation!r} moves pictures and not the answers of task {self.task.name!r}; "
                "use augmentation 'none', or augment both in a dataset of your own"
            )
        fixed = self.augmented.get(augmentation)
        if fixed:
            return TurnView(tuple(StoredView(one, self.answers, self.keys, self.normalisation) for one in fixed))
        view = StoredView(self.reader, self.answers, self.keys, self.normalisation, augmentation, seed)
        return with_bank(view, self.task, self.keys)

    def evaluation_view(self) -> View:
        """Return the view of inputs without augmentation, and their answers."""
        view = StoredView(self.reader, self.answers, self.keys, self.normalisation)
        return with_bank(view, self.task, self.keys)

    def picture(self, position: int) -> Image.Image | None:
        """Return a sample as a picture, or None if it is not one."""
        return self.reader.picture(position)

    def text(self, position: int) -> str | None:
        """Return a sample as a text, or None if it is not one."""
        return self.reader.text(position) if isinstance(self.reader, TextReader | SequenceReader) else None

    def fingerprint(self) -> str:
        """Return a hash of ids, answers and content."""
        return _content_hash(self, self.reader.fingerprint())

    def take(self, positions: NDArray[np.int64]) -> "StoredSamples":
        """Return a subset, in the order given; samples keep their ids."""
        return replace(
            self,
            ids=_taken_ids(self.ids, positions),
            targets=take(self.targets, positions),
            reader=self.reader.take(positions),
            augmented={name: tuple(one.take(positions) for one in fixed) for name, fixed in self.augmented.items()},
            groups=None if self.groups is None else take(self.groups, positions),
        )

    def relabelled(self, targets: Answers) -> "StoredSamples":
        """Return the same samples with other answers."""
        return replace(self, targets=self.task.read(targets)[1])

    def normalised(self, normalisation: Normalisation) -> "StoredSamples":
        """Return the same samples with this normalisation of inputs."""
        return replace(self, normalisation=normalisation)


def _taken_ids(ids: pa.Array, positions: NDArray[np.int64]) -> pa.Array:
    if pa.types.is_integer(ids.type):
        return pa.array(take(ids.to_numpy(zero_copy_only=False), positions))
    return ids.take(pa.array(positions))


def _plain_array(part: object) -> Array:
    return np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)


@dataclass(frozen=True)
class UserSamples(_Answered):
    """The user's own map-style dataset: `dataset[i]` is whatever their loss takes.

    Attributes:
        dataset: Training view.
        plain: Evaluation view: the same samples without random augmentation.
        task: The task that is learned.
        targets: One answer per sample, `[n, ...]`.
        groups: Class indices that the user gave beside the answers, `[n]`.
        collate: Makes a batch of a list of items.
        answers_beside: Whether batches are `(inputs, answers)` with the answers of `targets`, because items are
            mappings, or hold other answers or names; otherwise batches are what `collate` makes.
        answer_key: Name of the answer in items that are mappings, if it is not one of the usual names.
    """

    dataset: Any
    plain: Any
    task: Task
    targets: Answers
    groups: NDArray[np.int64] | None = None
    collate: Collate = default_collate
    answers_beside: bool = False
    answer_key: str | None = None
    vocabulary = None

    @property
    def answers(self) -> Answers:
        """The answers as the user's dataset has them."""
        return self.targets

    @property
    def ids(self) -> pa.Array:
        """The positions in the user's dataset."""
        return pa.array(np.arange(len(self)))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        first = self.plain[0]
        if isinstance(first, Mapping) and self.answers_beside:
            inputs = network_inputs(self.collate([first]), self.answer_key)
            return () if isinstance(inputs, Mapping) else tuple(inputs.shape[1:])
        inputs = first[0] if isinstance(first, tuple | list) else first
        return tuple(getattr(inputs, "shape", ()))

    def training_view(self, augmentation: Augmentation, seed: int) -> View:
        """Return the user's dataset, its own randomness seeded by seed, epoch and sample."""
        return self._paired(ItemView(self.dataset, self.keys, seed, self.collate))

    def evaluation_view(self) -> View:
        """Return the user's evaluation view."""
        return self._paired(ItemView(self.plain, self.keys, collate=self.collate))

    def _paired(self, items: ItemView) -> View:
        view: View = PairView(items, self.targets, self.answer_key) if self.answers_beside else items
        return with_bank(view, self.task, self.keys)

    def picture(self, position: int) -> Image.Image | None:
        """Return None: the user's inputs are already tensors."""
        return None

    def text(self, position: int) -> str | None:
        """Return None: the user's inputs are already tensors."""
        return None

    def fingerprint(self) -> str:
        """Return a hash of all labels and of the content of 64 samples drawn by address."""
        chosen = generator("fingerprint", len(self)).choice(len(self), min(64, len(self)), replace=False)
        digest = hashlib.blake2b(digest_size=16)
        for position in np.sort(chosen).tolist():
            digest.update(tree_bytes(self.plain[position]))
        return _content_hash(self, digest.hexdigest())
