"""Evidence from early in training, over several initialisations: error norms and gradient norms per sample.

On disk: `early-errors.npz` with `error_norm: [samples]` and `early-norms.npz` with `squared_norm: [samples]`, in data
set order; both also hold the epoch after which the network was measured.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.checksums import damaged
from moso.columns import Array
from moso.data.views import View, load, split_evenly
from moso.evidence.outputs import describe, iter_logits
from moso.files import read_arrays, write_arrays
from moso.gradients import PROBES, Loss, Point, batch_size_for, squared_norms, to_device


def error_norms(
    model: nn.Module, loss: Loss, view: View, labels: NDArray[np.int64], classes: int, loader_workers: int = 0
) -> NDArray[np.float32]:
    """Return |p - onehot|_2 per sample, shape `[samples]`, from one forward pass in evaluation mode.

    Args:
        model: The network.
        loss: Loss that calls the network on a batch.
        view: Samples to measure.
        labels: Label per sample, shape `[samples]`.
        classes: Number of classes.
        loader_workers: Processes that load batches ahead.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> view, labels = as_view((np.eye(2, dtype=np.float32), [0, 1])), np.array([0, 1])
        >>> error_norms(nn.Linear(2, 2), cross_entropy, view, labels, classes=2).shape
        (2,)
    """
    found = np.empty(len(labels), dtype=np.float32)
    for positions, logits in iter_logits(model, loss, view, np.arange(len(labels)), classes, loader_workers):
        found[positions] = describe(logits, labels[positions], ("error_norm",))["error_norm"]
    return found


def gradient_norms(
    model: nn.Module,
    loss: Loss,
    view: View,
    samples: int,
    batch_size: int | None = None,
    loader_workers: int = 0,
) -> NDArray[np.float64]:
    """Return |g|_2^2 per sample with respect to all trainable parameters, shape `[samples]`, in one sweep.

    Args:
        model: The network.
        loss: One loss per sample of a batch, shape `[batch]`.
        view: Samples to measure.
        samples: Number of samples.
        batch_size: Samples per batch; by default a size that suits network and device.
        loader_workers: Processes that load batches ahead.

    Raises:
        LossInvalid: The loss does not give one value per sample.
        ValuesNotFinite: A gradient is not finite.

    Example:
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> gradient_norms(nn.Linear(2, 2), cross_entropy, as_view((np.eye(2, dtype=np.float32), [0, 1])), 2).shape
        (2,)
    """
    point, everything = Point.of(model, loss), np.arange(samples)
    size = batch_size or batch_size_for(point, to_device(view.batch(everything[:PROBES], 0), point.device))

    def batches() -> Iterable[Batch]:
        return load(view, split_evenly(everything, size), 0, loader_workers)

    found: NDArray[np.float64] = squared_norms(point, batches)[0]
    if len(found) != samples:
        raise errors.LossInvalid(
            f"the loss gave {len(found)} values for {samples} samples; it must give one per sample"
        )
    if not np.isfinite(found).all():
        bad = int(np.argmin(np.isfinite(found)))
        raise errors.ValuesNotFinite(
            f"the gradient of sample {bad} early in training is not finite; look at its input and loss"
        )
    return found


def write_early(path: Path, name: str, values: Array, epoch: int) -> None:
    """Write one number per sample, measured on a network after `epoch` epochs, atomically."""
    write_arrays(path, **{name: values, "epoch": np.array(epoch)})


def read_early(path: Path, name: str) -> Array:
    """Read the numbers of one network, shape `[samples]`.

    Args:
        path: File that `write_early` wrote.
        name: `error_norm` or `squared_norm`.

    Raises:
        StageIncomplete: The file does not exist.
        FileDamaged: The file is not what was written.
    """
    if not path.exists():
        raise errors.StageIncomplete(
            f"{path} is missing: the networks of early epochs were not looked at; run `moso score` first"
        )
    found = read_arrays(path)
    if name not in found:
        raise damaged(path, f"it does not hold numbers of early epochs ({name})")
    return found[name]
