"""The most memory that a piece of work holds at one time, beyond what was there when it began.

On the CPU every allocation and release of a tensor is an event of PyTorch's profiler; the peak of their running sum is
exact, repeats, and does not depend on what other processes do. Scratch space that a compiled kernel takes from the
system by itself is not in it, nor are NumPy arrays. On CUDA the allocator counts.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

# The profiler's own log: a line at every start and stop. It is read at the first start.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

Result = TypeVar("Result")


def peak_memory(work: Callable[[], Result], device: torch.device | None = None) -> tuple[Result, int]:
    """What the work gives, and its peak in bytes.

    >>> peak_memory(lambda: [torch.empty(1000).sum() for _ in range(10)])[1]  # one at a time, and the sums
    4040
    """
    if device is not None and device.type == "cuda":
        return _peak_on_cuda(work, device)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        result = work()
    assert trace.profiler is not None
    events = [event for event in trace.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return result, peak


def _peak_on_cuda(work: Callable[[], Result], device: torch.device) -> tuple[Result, int]:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = work()
    torch.cuda.synchronize(device)
    return result, torch.cuda.max_memory_allocated(device) - before
