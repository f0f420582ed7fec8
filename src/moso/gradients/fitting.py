"""Batches that fit in memory: how many samples to take at a time, and what to do when memory still runs out.

The batch size follows from the memory that one backward pass needs per sample, not from timings, so that the same
network on the same kind of device always uses the same batches.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from moso import errors
from moso.batch import Batch
from moso.gradients.fallback import warn_once
from moso.gradients.losses import batch_length, part_of
from moso.gradients.point import Point, evaluation_mode

# Bytes that a batch may save for its backward pass on a CPU; beyond this, the processor's caches help less and less.
KEPT_BYTES = 256 * 2**20
# The same on a GPU, as a share of its memory.
KEPT_SHARE = 0.2
LARGEST = 1024

Result = TypeVar("Result")


def batch_size_for(point: Point, some: Batch) -> int:
    """Return the number of samples to take at a time, a power of two.

    Args:
        point: The network.
        some: A batch; what autograd saves for its backward pass is measured.

    Example:
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
    """A piece of a batch did not fit in memory; a smaller one may."""


class Fitting:
    """Halves the size of pieces whenever memory runs out."""

    def __init__(self) -> None:
        self.most: int | None = None

    def pieces(self, batch: Batch, work: Callable[[Batch], Result]) -> Iterator[Result]:
        """Yield `work` of each piece of the batch, in pieces of the size that fits; retry a piece that did not fit.

        Args:
            batch: The samples.
            work: Called with each piece.

        Raises:
            OutOfMemory: One sample alone does not fit.
        """
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

    def parts(self, batch: Batch) -> Iterator[Any]:
        """Yield the batch in pieces of the size that fits."""
        count = batch_length(batch)
        for start in range(0, count, self.most or count):
            yield part_of(batch, start, min(count, start + (self.most or count)))

    @contextmanager
    def refusing(self, piece: Batch) -> Iterator[None]:
        """Context manager: out of memory becomes `TooLargeError`, and pieces half as large, logged once.

        Raises:
            TooLargeError: Memory ran out; smaller pieces may fit.
            OutOfMemory: The piece is a single sample.
        """
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
        # Outside of the handler, where the traceback no longer holds the tensors.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.most = count // 2
        warn_once(f"memory ran out with {count} samples at a time; going on with {self.most}")
        raise TooLargeError


def is_out_of_memory(problem: Exception) -> bool:
    """Return whether an error is an out-of-memory error; the CPU's has no class of its own."""
    words = str(problem)
    return isinstance(problem, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in words
