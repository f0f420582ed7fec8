"""Out-of-sample predictions: class probabilities from networks that never saw the sample, `[samples, classes]`.

Each of the I partitions has a surrogate of its own, so I - 1 networks never saw a given sample; the prediction is the
mean of their softmax. With one partition every network has seen every sample, and out-of-sample predictions do not
exist.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn

from moso import errors
from moso.data.views import View
from moso.evidence.arrays import read, writing
from moso.evidence.outputs import iter_logits
from moso.gradients import Loss

_BLOCK = 65_536


def out_of_sample_path(home: Path) -> Path:
    """Return where the out-of-sample predictions of a seed are."""
    return home / "predictions" / "out-of-sample.npy"


def write_out_of_sample(
    path: Path,
    networks: Iterable[tuple[nn.Module, NDArray[np.int64]]],
    view: View,
    shape: tuple[int, int],
    *,
    loss: Loss,
    loader_workers: int = 0,
) -> None:
    """Write, per sample, the mean prediction of the networks that did not see it.

    Args:
        path: The npy file.
        networks: Each network with the positions that it was trained on.
        view: Samples, as the networks meet them.
        shape: `(samples, classes)`.
        loss: Loss that calls a network on a batch.
        loader_workers: Processes that load batches ahead.

    Raises:
        EvidenceMissing: Every network has seen some sample.

    Example:
        >>> import tempfile
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> view, path = as_view((np.eye(4), [0, 1, 0, 1])), Path(tempfile.mkdtemp()) / "out-of-sample.npy"
        >>> networks = [(nn.Linear(4, 2), np.array([0, 1])), (nn.Linear(4, 2), np.array([2, 3]))]
        >>> write_out_of_sample(path, networks, view, (4, 2), loss=cross_entropy)
        >>> read(path).sum(axis=1).round(5).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    samples, classes = shape
    counts = np.zeros(samples, dtype=np.int64)
    with writing(path, shape, np.float32) as total:
        for model, seen in networks:
            unseen = np.setdiff1d(np.arange(samples), seen)
            for positions, logits in iter_logits(model, loss, view, unseen, classes, loader_workers):
                total[positions] += softmax(logits, axis=1)
            counts[unseen] += 1
        if not counts.all():
            raise errors.EvidenceMissing(
                f"sample {int(np.argmin(counts))} was seen by every network, so no network can predict it out of "
                "sample; "
                "out-of-sample predictions take at least 2 partitions"
            )
        for start in range(0, samples, _BLOCK):
            part = slice(start, start + _BLOCK)
            total[part] /= counts[part, None]


def read_out_of_sample(home: Path) -> NDArray[np.float32]:
    """Return the out-of-sample probabilities of a seed as a memory map, shape `[samples, classes]`.

    Args:
        home: The folder of the seed.

    Raises:
        EvidenceMissing: The run has none.
    """
    path = out_of_sample_path(home)
    if not path.exists():
        raise errors.EvidenceMissing(
            f"there are no out-of-sample predictions in {home}; they come from runs with at least 2 partitions"
        )
    found: NDArray[np.float32] = read(path)
    return found


def class_errors(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of each class that is predicted as another, shape `[classes]`; 0 for a class without samples.

    Args:
        probabilities: Shape `[samples, classes]`.
        labels: Shape `[samples]`.

    Example:
        >>> class_errors(np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], dtype=np.float32), np.array([0, 0, 1]))
        array([0.5, 0. ])
    """
    classes = probabilities.shape[1]
    wrong = np.zeros(classes)
    for start in range(0, len(labels), _BLOCK):
        part = slice(start, start + _BLOCK)
        missed = probabilities[part].argmax(axis=1) != labels[part]
        wrong += np.bincount(labels[part][missed], minlength=classes)
    return np.asarray(wrong / np.maximum(np.bincount(labels, minlength=classes), 1))
