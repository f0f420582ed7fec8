"""Streams: `IterableDataset`, WebDataset, Hugging Face's iterable datasets. One pass writes the samples to memory."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import IterableDataset

from moso import errors
from moso.data.given.given import Given, Positions
from moso.data.given.given_items import from_items
from moso.data.readers import MEMORY_LIMIT_BYTES
from moso.data.views import tree_bytes
from moso.progress import Progress, silent

_PROBES = 4


def is_stream(data: Any) -> bool:
    """Return whether data can be passed over again and again, but not asked for a sample by its position."""
    # PyTorch's IterableDataset inherits a __getitem__ that only raises.
    if isinstance(data, IterableDataset):
        return True
    return hasattr(data, "__iter__") and not hasattr(data, "__getitem__") and not hasattr(data, "__next__")


class KeptSamples(IterableDataset[Any]):
    """A stream with some of its samples only, by their position in the stream.

    Attributes:
        stream: The whole stream.
        kept: Sorted positions of the samples that are passed on.

    Example:
        >>> list(KeptSamples({"a": 1, "b": 2, "c": 3}.keys(), np.array([0, 2])))
        ['a', 'c']
    """

    def __init__(self, stream: Iterable[Any], kept: Positions) -> None:
        self.stream, self.kept = stream, kept

    def __iter__(self) -> Iterator[Any]:
        kept = set(self.kept.tolist())
        return (item for position, item in enumerate(self.stream) if position in kept)

    def __len__(self) -> int:
        return len(self.kept)


def from_stream(
    stream: Any,
    *,
    progress: Progress = silent,
    label: str | None = None,
    limit: int = MEMORY_LIMIT_BYTES,
    read_answers: bool = True,
) -> Given:
    """Return a stream, read into memory in one pass.

    Args:
        stream: The stream; every pass must give the same samples in the same order.
        progress: Called while samples are read.
        label: Name of the answer in an item that is a mapping.
        limit: Most bytes of samples in memory.
        read_answers: Whether to look for the answers.

    Raises:
        DataEmpty: The stream is empty.
        DatasetRandom: A second pass begins with other samples.
        OutOfMemory: The samples take more than `limit` bytes.
    """
    items, size = [], 0
    for item in stream:
        items.append(item)
        size += _bytes(item)
        if size > limit:
            raise errors.OutOfMemory(
                f"the first {len(items)} samples of the stream take more than {limit / 2**30:g} GiB of memory; write "
                "the stream to disk once and give a dataset with __len__ and __getitem__"
            )
        if len(items) % 1000 == 0:
            progress("reading the stream", len(items), len(items) + 1)
    progress("reading the stream", len(items), len(items))
    for position, again in enumerate(islice(iter(stream), _PROBES)):
        if position >= len(items) or tree_bytes(again) != tree_bytes(items[position]):
            raise errors.DatasetRandom(
                f"the stream gives another sample {position} at its second pass; positions need one order: leave out "
                "shuffling and augmentation"
            )

    def take(kept: Positions) -> Any:
        if type(stream).__module__.startswith("datasets."):
            chosen = set(kept.tolist())
            return stream.filter(lambda _, position: position in chosen, with_indices=True)
        return KeptSamples(stream, kept)

    given = from_items(items, label=label, read_answers=read_answers)
    return replace(given, kind=f"a stream of type {type(stream).__name__}", take=take)


def _bytes(item: Any) -> int:
    if isinstance(item, torch.Tensor):
        return item.nbytes
    if isinstance(item, np.ndarray):
        return item.nbytes
    if isinstance(item, Image.Image):
        return item.width * item.height * len(item.getbands())
    if isinstance(item, dict):
        return sum(map(_bytes, item.values()))
    if isinstance(item, tuple | list):
        return sum(map(_bytes, item))
    return len(item) if isinstance(item, str | bytes) else 8
