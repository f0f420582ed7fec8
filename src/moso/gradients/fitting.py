"""Batches that fit: how many samples to take at a time, and what to do when memory runs out all the same.

The size is found from what one backward pass keeps of a sample, not by the clock, so that the same network on the same
kind of device always takes the same batches.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from moso import errors
from moso.gradients.fallback import warn_once
from moso.gradients.losses import batch_length, part_of
from moso.gradients.point import Point, evaluation_mode

# What a batch may keep for its backward pass: on a CPU beyond this, caches serve it worse and worse.
KEPT_BYTES = 256 * 2**20
# On other devices, the share of their memory.
KEPT_SHARE = 0.2
LARGEST = 1024

Result = TypeVar("Result")


def batch_size_for(point: Point, some: Any) -> int:
    """How many samples to take at a time, from what a backward pass keeps of `some` of them: a power of two.

    >>> from moso.tasks import cross_entropy
    >>> point = Point.of(torch.nn.Linear(2, 2), cross_entropy)
    >>> batch_size_for(point, (torch.eye(2), torch.tensor([0, 1])))
    1024
    """
    kept: dict[int, int] = {}
    own = {value.data_ptr() for value in (*point.trained.values(), *point.fixed.values())}

    def count(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    leaves = {name: value.detach().requires_grad_() for name, value in point.trained.items()}
    own |= {value.data_ptr() for value in leaves.values()}
    with evaluation_mode(point.model), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        point.losses(leaves, some)
    each = max(1, sum(kept.values()) // batch_length(some))
    allowed = KEPT_BYTES
    if point.device.type == "cuda":
        allowed = int(KEPT_SHARE * torch.cuda.get_device_properties(point.device).total_memory)
    return int(min(LARGEST, 1 << max(0, (allowed // each).bit_length() - 1)))


class TooLargeError(Exception):
    """A piece did not fit in memory; smaller ones may."""


class Fitting:
    """Takes batches in smaller and smaller pieces where they do not fit in memory."""

    def __init__(self) -> None:
        self.most: int | None = None

    def pieces(self, batch: Any, work: Callable[[Any], Result]) -> Iterator[Result]:
        """`work` of the batch, in as many pieces as have been found to fit; what did not fit is tried again."""
        count, start = batch_length(batch), 0
        while start < count:
            stop = count if self.most is None else min(count, start + self.most)
            piece = part_of(batch, start, stop)
            try:
                with self.refusing(piece):
                    result = work(piece)
            except TooLargeError:
                continue
            yield result
            start = stop

    def parts(self, batch: Any) -> Iterator[Any]:
        """The batch in pieces of the size that has been found to fit."""
        count = batch_length(batch)
        for start in range(0, count, self.most or count):
            yield part_of(batch, start, min(count, start + (self.most or count)))

    @contextmanager
    def refusing(self, piece: Any) -> Iterator[None]:
        """While this lasts, missing memory means that pieces must be smaller, and is announced once."""
        try:
            yield
            return
        except (RuntimeError, MemoryError) as problem:
            if not is_out_of_memory(problem):
                raise
            count = batch_length(piece)
            if count == 1:
                raise errors.OutOfMemory(
                    "the gradients of one sample alone do not fit in memory; score with a smaller network or input"
                ) from problem
        # Outside of the handler, where nothing holds on to what was computed.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.most = count // 2
        warn_once(f"memory ran out with {count} samples at a time; going on with {self.most}")
        raise TooLargeError


def is_out_of_memory(problem: Exception) -> bool:
    """Whether an error is a device's or the system's refusal of memory; the CPU's has no type of its own."""
    words = str(problem)
    return isinstance(problem, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in words
