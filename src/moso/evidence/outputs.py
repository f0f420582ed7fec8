"""Per-sample statistics of a network's outputs, captured while training or a loss calls the network.

A forward hook captures the outputs of calls that are made anyway. The user's network, loss and batch structure stay
unchanged. With z the logits `[classes]` of a sample, p their softmax, y its label:

    probability   p_y                              margin       z_y - max of the other z        (AUM's)
    correct       1 where y is the largest         entropy      - sum p log p
    confidence    the largest p                    gap          the largest p minus the second largest
    error_norm    |p - onehot(y)|_2  (EL2N's)      kl           sum p (log p - log q), q the epoch before (TDDS's)
                                                   kl_absolute  sum |p (log p - log q)|, as in TDDS's code
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.gradients import Loss, evaluation_mode, to_device

# Samples per batch of a forward pass without gradients.
BATCH_SIZE = 256
CHANGES = frozenset({"kl", "kl_absolute"})  # need the probabilities of the epoch before
COLUMNS: dict[str, type[np.generic]] = {
    "probability": np.float32,
    "correct": np.uint8,
    "margin": np.float32,
    "entropy": np.float32,
    "confidence": np.float32,
    "gap": np.float32,
    "error_norm": np.float32,
    "kl": np.float32,
    "kl_absolute": np.float32,
}
Columns = dict[str, NDArray[np.float64]]


def log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-softmax, shape `[batch, classes]`.

    Example:
        >>> np.exp(log_probabilities(np.array([[1000.0, 1000.0]])))
        array([[0.5, 0.5]])
    """
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def describe(
    logits: NDArray[np.float64],
    labels: NDArray[np.int64],
    names: Collection[str],
    log_before: NDArray[np.float64] | None = None,
) -> Columns:
    """Compute the named columns, shape `[batch]` each, from logits.

    Args:
        logits: Shape `[batch, classes]`.
        labels: Shape `[batch]`.
        names: Columns to compute, out of `COLUMNS`.
        log_before: Log-probabilities of the epoch before, shape `[batch, classes]`; without them `kl` and `kl_absolute`
            are NaN.

    Raises:
        UnknownName: There is no column of one of the names.

    Example:
        >>> logits = np.log([[0.5, 0.3, 0.2]])
        >>> found = describe(logits, np.array([0]), ("probability", "correct", "gap"))
        >>> {name: round(float(values[0]), 6) for name, values in found.items()}
        {'probability': 0.5, 'correct': 1.0, 'gap': 0.2}
    """
    log_p = log_probabilities(logits)
    p, rows = np.exp(log_p), np.arange(len(labels))
    found: Columns = {}
    for name in names:
        match name:
            case "probability":
                found[name] = p[rows, labels]
            case "correct":
                found[name] = (logits.argmax(axis=1) == labels).astype(np.float64)
            case "margin":
                others = logits.copy()
                others[rows, labels] = -np.inf
                found[name] = logits[rows, labels] - others.max(axis=1)
            case "entropy":
                found[name] = -(p * log_p).sum(axis=1)
            case "confidence":
                found[name] = p.max(axis=1)
            case "gap":
                two = np.partition(p, -2, axis=1)[:, -2:]
                found[name] = two[:, 1] - two[:, 0]
            case "error_norm":
                error = p.copy()
                error[rows, labels] -= 1
                found[name] = np.linalg.norm(error, axis=1)
            case "kl" | "kl_absolute":
                change = np.full_like(p, np.nan) if log_before is None else p * (log_p - log_before)
                found[name] = (change if name == "kl" else np.abs(change)).sum(axis=1)
            case _:
                raise errors.UnknownName(f"there is no column {name!r} of dynamics; there are: {', '.join(COLUMNS)}")
    return found


class CapturedOutputs:
    """The outputs of a network's calls since they were last read."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def logits(self, count: int, classes: int) -> NDArray[np.float64]:
        """Return the logits `[count, classes]` of the first captured call that has them, and forget all calls.

        Raises:
            ModelUnsuitable: No call gave logits of this shape.
        """
        calls, self.calls = self.calls, []
        shapes = []
        for output in calls:
            logits = _logits(output)
            if logits is not None and tuple(logits.shape) == (count, classes):
                return np.asarray(logits.detach().to("cpu", torch.float64).numpy())
            shapes.append(type(output).__name__ if logits is None else str(tuple(logits.shape)))
        found = " and ".join(dict.fromkeys(shapes)) or "nothing"
        raise errors.ModelUnsuitable(
            f"the network gave {found} for {count} samples where {(count, classes)} was expected, one logit per class; "
            "scores of predictions cannot be computed from its outputs"
        )


@contextmanager
def capture_outputs(model: nn.Module) -> Iterator[CapturedOutputs]:
    """Capture the outputs of calls in the model's present mode; calls in the other mode are probes and are ignored.

    Example:
        >>> model = nn.Linear(2, 3)
        >>> with capture_outputs(model) as seen:
        ...     _ = model(torch.zeros(4, 2))
        ...     seen.logits(4, classes=3).shape
        (4, 3)
    """
    seen, mode = CapturedOutputs(), model.training

    def keep(module: nn.Module, arguments: object, output: object) -> None:
        if module.training == mode:
            seen.calls.append(output)

    handle = model.register_forward_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()
def forward_all(
    model: nn.Module, loss: Loss, view: View, positions: NDArray[np.int64], loader_workers: int = 0
) -> Iterator[NDArray[np.int64]]:
    """Let the loss call the network on all samples in evaluation mode; yield each batch's positions after its call.

    Batches of any structure work, because only the loss has to know how the network is called.
    """
    device = next(model.parameters()).device
    plan = split_evenly(positions, BATCH_SIZE)
    with evaluation_mode(model):
        for chosen, batch in zip(plan, load(view, plan, 0, loader_workers), strict=True):
            loss(model, to_device(batch, device))
            yield chosen


def iter_logits(
    model: nn.Module,
    loss: Loss,
    view: View,
    positions: NDArray[np.int64],
    classes: int,
    loader_workers: int = 0,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the positions and the logits `[batch, classes]` of every batch, in evaluation mode.

    Args:
        model: The network.
        loss: Loss that calls the network on a batch.
        view: Samples, as the network meets them.
        positions: Positions of the samples.
        classes: Number of classes.
        loader_workers: Processes that load batches ahead.

    Raises:
        ModelUnsuitable: The network gives no logits of this shape.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> view = as_view((np.zeros((5, 2), dtype=np.float32), [0, 1, 2, 0, 1]))
        >>> [logits.shape for _, logits in iter_logits(nn.Linear(2, 3), cross_entropy, view, np.arange(5), classes=3)]
        [(5, 3)]
    """
    with evaluation_mode(model), capture_outputs(model) as seen:
        for chosen in forward_all(model, loss, view, positions, loader_workers):
            yield chosen, seen.logits(len(chosen), classes)


def _logits(output: object) -> torch.Tensor | None:
    """Return the tensor of logits in a network's output: the output itself, its `logits`, or its first element."""
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif not isinstance(output, torch.Tensor) and hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, tuple | list) and output:
        output = output[0]
    return output if isinstance(output, torch.Tensor) else None
