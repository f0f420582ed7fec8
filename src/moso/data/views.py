"""Views: a view maps positions to a batch.

A view is also a map-style dataset: `view[i]` is one sample of its first epoch.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate

from moso import errors
from moso.batch import Batch, Item
from moso.columns import Array
from moso.data.augment import Augmentation, pad_crop, resized_crop, resized_crop_draws
from moso.data.mapped import MappedReader, expecting
from moso.data.readers import Reader
from moso.randomness import generator, reseed, seeded
from moso.tasks import Loss
from moso.tasks.task import Answers

Collate = Callable[[list[Item]], Batch]


class View(Protocol):
    """Samples as the network meets them."""

    @property
    def streamed(self) -> bool:
        """Whether reading is slow enough for loader workers to be worthwhile."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, position: int) -> Item:
        """Return one sample, `(input, label)` unless it comes from the user's own dataset."""

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> Batch:
        """Return a batch in the order of `positions`, as it is in this epoch."""


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation per channel, in units of the stored numbers; empty means no normalisation."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @classmethod
    def measure(cls, reader: Reader, limit: int = 50_000, *, one_scale: bool = False) -> "Normalisation":
        """Measure mean and standard deviation per channel.

        Args:
            reader: Inputs of the training split.
            limit: Most inputs to use, drawn by address; at most 2,000 if inputs are decoded when read.
            one_scale: Give all channels one deviation, the root of the mean of their variances.

        Example:
            >>> from moso.data.readers import MemoryReader
            >>> images = np.full((3, 1, 2, 2), 10, dtype=np.uint8); images[0] = 40
            >>> Normalisation.measure(MemoryReader(images)).mean
            (20.0,)
        """
        count = len(reader)
        limit = min(limit, 2_000) if reader.streamed else limit
        chosen = np.arange(count)
        if count > limit:
            chosen = np.sort(generator("normalisation", count).choice(count, limit, replace=False))
        channels = reader.shape[0] if len(reader.shape) == 3 else int(np.prod(reader.shape))
        total, squares, seen = np.zeros(channels), np.zeros(channels), 0
        for block in np.array_split(chosen, -(-len(chosen) // 1_000)):
            values = reader.read(block).astype(np.float64).reshape(len(block), channels, -1)
            total += values.sum(axis=(0, 2))
            squares += np.square(values).sum(axis=(0, 2))
            seen += values.shape[0] * values.shape[2]
        mean = total / seen
        std = np.sqrt(np.maximum(squares / seen - np.square(mean), 0.0))
        if one_scale:
            std[:] = np.sqrt(np.square(std).mean())
        std[std < 1e-6] = 1.0  # a constant channel would only amplify rounding noise when divided by its deviation
        return cls(tuple(mean.tolist()), tuple(std.tolist()))

    def apply(self, inputs: Array) -> torch.Tensor:
        """Return float32 inputs, normalised per channel (images) or per feature (others); token ids stay as they are.

        May work in place on float32 inputs.
        """
        if inputs.dtype == np.int64:
            return torch.from_numpy(inputs)
        tensor = torch.from_numpy(np.ascontiguousarray(inputs)).to(torch.float32)
        if not self.mean:
            return tensor
        shape = (1, -1, 1, 1) if inputs.ndim == 4 else (1, *inputs.shape[1:])
        mean, std = self._tensors
        return tensor.sub_(mean.view(shape)).div_(std.view(shape))

    @cached_property
    def _tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        # Made once: for a thousand features, making them per batch takes half as long as a step of a linear network.
        return torch.tensor(self.mean), torch.tensor(self.std)


@dataclass(frozen=True)
class StoredView:
    """A view of stored samples, augmented if asked; batches are `(inputs, answers)`.

    Inputs are float32, or int64 token ids; answers have the type that the task gives them.
    """

    reader: Reader
    answers: Answers
    keys: NDArray[np.uint64]
    normalisation: Normalisation
    augmentation: Augmentation = "none"
    seed: int = 0

    @property
    def streamed(self) -> bool:
        """Whether inputs are decoded when read, so that loader workers are worthwhile."""
        return self.reader.streamed

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, Any]:
        if not -len(self) <= position < len(self):
            raise IndexError(position)
        inputs, answers = self.batch(np.array([position % len(self)]))
        return inputs[0], answers[0].item() if answers.ndim == 1 else answers[0]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and answers at these positions.

        Raises:
            PicturesRequired: The augmentation needs pictures and inputs are not.
        """
        keys = self.keys[positions]
        if self.augmentation == "resized-crop-flip":
            draws = resized_crop_draws(keys, epoch, self.seed)
            rows = []
            for position, own in zip(positions.tolist(), draws, strict=True):
                picture = self.reader.picture(position)
                if picture is None:
                    raise errors.PicturesRequired(
                        "augmentation 'resized-crop-flip' needs pictures; other inputs take augmentation 'none'"
                    )
                rows.append(resized_crop(picture, self.reader.shape, own))
            inputs = np.stack(rows)
        else:
            inputs = self.reader.read(positions)
            if self.augmentation != "none":
                if inputs.ndim != 4:
                    raise errors.PicturesRequired(
                        f"augmentation {self.augmentation!r} needs pictures; other inputs take augmentation 'none'"
                    )
                inputs = pad_crop(inputs, keys, epoch, self.seed, flip=self.augmentation == "crop-flip")
        return self.normalisation.apply(inputs), torch.from_numpy(self.answers[positions])


@dataclass(frozen=True)
class TurnView:
    """Fixed views of the same samples that take turns: epoch e is seen through view e modulo their number."""

    views: tuple[StoredView, ...]

    @property
    def streamed(self) -> bool:
        """Whether inputs are decoded when read, so that loader workers are worthwhile."""
        return self.views[0].streamed

    def __len__(self) -> int:
        return len(self.views[0])

    def __getitem__(self, position: int) -> tuple[torch.Tensor, Any]:
        return self.views[0][position]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and answers at these positions, as the view of this epoch has them."""
        return self.views[epoch % len(self.views)].batch(positions)


@dataclass(frozen=True)
class ItemView:
    """A view of the user's dataset; with a seed, its random draws are addressed by epoch and sample."""

    dataset: Any
    keys: NDArray[np.uint64] | None = None
    seed: int | None = None
    collate: Collate = default_collate
    streamed = True

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Item:
        return self.dataset[position]

    def batch(self, positions: NDArray[np.int64], epoch: int = 0) -> Batch:
        """Return the collated items at these positions."""
        if self.seed is None or self.keys is None:
            return self.collate([self.dataset[int(position)] for position in positions])
        items = []
        with seeded(self.seed, "items"):
            for position in positions.tolist():
                reseed(self.seed, "item", epoch, int(self.keys[position]))
                items.append(self.dataset[position])
        return self.collate(items)


def is_array_pair(data: Any) -> bool:
    """Return whether data is a pair of columns, inputs and labels.

    Example:
        >>> is_array_pair((np.zeros((3, 2)), [0, 1, 0])), is_array_pair([0, 1, 2])
        (True, False)
    """
    return isinstance(data, tuple | list) and len(data) == 2 and all(hasattr(part, "__len__") for part in data)


def as_view(data: Any, collate: Collate | None = None, own_loss: Loss | None = None) -> View:
    """Return any data as a view of what a network was trained on.

    Args:
        data: A view, or data of any kind that `moso.data.given` knows.
        collate: Makes a batch of a dataset's items.
        own_loss: The user's loss; with it, batches are what the data and `collate` make them. Without it they are
            `(inputs, labels)`.

    Raises:
        WrongType: The data is of no known kind, or holds pictures or texts that no network takes as they are.

    Example:
        >>> view = as_view((np.zeros((3, 2), dtype=np.float32), [0, 1, 0]))
        >>> view.batch(np.array([1, 2]))[1].tolist()
        [1, 0]
    """
    if hasattr(data, "batch") and hasattr(data, "streamed"):
        view: View = data
        return view
    # Imported here, because data of all kinds are read through the views of this file.
    from moso.data.given.trained_view import trained_view

    return trained_view(data, collate, own_loss)


def tree_bytes(item: Item) -> bytes:
    """Return the content of a sample of any structure as bytes, to hash or compare."""
    if isinstance(item, torch.Tensor):
        # Through bytes, because numpy lacks some of torch's types.
        content = item.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return repr((str(item.dtype), tuple(item.shape))).encode() + content
    if isinstance(item, Image.Image):
        return repr((item.mode, item.size)).encode() + item.tobytes()
    if isinstance(item, np.ndarray):
        return repr((item.dtype.str, item.shape)).encode() + np.ascontiguousarray(item).tobytes()
    if isinstance(item, Mapping):
        return b"".join(repr(name).encode() + tree_bytes(item[name]) for name in sorted(item))
    if isinstance(item, tuple | list):
        return b"(" + b",".join(tree_bytes(part) for part in item) + b")"
    return repr(item).encode()


def check_repeatable(view: View, what: str = "the data set", probes: int = 8) -> None:
    """Refuse a dataset that returns different content for the same sample.

    Scores through random crops would compare the gradients of different pictures. Every probe is fetched four times: a
    dataset that only mirrors half of its pictures would pass a single comparison once in 256 times.

    Args:
        view: Evaluation view.
        what: Name of the dataset in errors.
        probes: Number of samples to fetch.

    Raises:
        DataEmpty: The dataset is empty.
        DatasetRandom: A sample differs between two fetches.
    """
    count = len(view)
    if count == 0:
        raise errors.DataEmpty(f"{what} is empty")
    chosen = generator("repeatable", count).choice(count, min(probes, count), replace=False).tolist()
    first = [tree_bytes(view[position]) for position in chosen]
    for position, before in list(zip(chosen, first, strict=True)) * 3:
        if tree_bytes(view[position]) != before:
            raise errors.DatasetRandom(
                f"{what} is random: sample {position} differs between two fetches. Scores need the samples "
                "themselves; give the same samples without augmentation as score_set="
            )


class _Batches(Dataset[Batch]):
    def __init__(self, view: View, plan: Sequence[NDArray[np.int64]], epoch: int) -> None:
        self.view, self.plan, self.epoch = view, plan, epoch

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, number: int) -> Batch:
        return self.view.batch(self.plan[number], self.epoch)


def load(view: View, plan: Sequence[NDArray[np.int64]], epoch: int = 0, workers: int = 0) -> Iterator[Batch]:
    """Return an iterator over the batches of a plan, in order; `workers` processes read streamed views ahead."""
    if workers == 0 or not view.streamed:
        reader = view.reader if isinstance(view, StoredView) else None
        wanted = expecting(reader, plan) if isinstance(reader, MappedReader) else plan
        return (view.batch(positions, epoch) for positions in wanted)
    batches = _Batches(view, plan, epoch)
    # A DataLoader without a generator draws its seed from the global one, which would change the user's next draw. The
    # default start method in a spawned process is spawn, which would import everything again for every epoch.
    method = "fork" if sys.platform == "linux" else None
    return iter(
        DataLoader(
            batches,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=4,
            generator=torch.Generator(),
            multiprocessing_context=method,
        )
    )


def split_evenly(positions: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Split positions into the fewest batches of at most `batch_size`, equal in size to within one.

    Batch-norm cannot train on a last batch of one sample, and dropping that batch would leave samples out.

    Example:
        >>> [len(batch) for batch in split_evenly(np.arange(10), 4)]
        [4, 3, 3]
    """
    return np.array_split(positions, max(1, -(-len(positions) // batch_size)))
