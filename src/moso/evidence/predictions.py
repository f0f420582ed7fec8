"""Out-of-sample predictions: what networks that never saw a sample say about it, `[samples, classes]`.

Each of the I partitions has a surrogate of its own, so every sample was unseen by I - 1 networks; the prediction is
the mean of their softmax. With one partition every network has seen everything, and there is no such thing.
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
    """Where the out-of-sample predictions of a seed are."""
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
    """Write the mean prediction of the networks that did not see a sample; `shape` is (samples, classes).

    Each network comes with the positions that it learned from.

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
                f"sample {int(np.argmin(counts))} was seen by every network, so nobody can predict it unseen; "
                "out-of-sample predictions take at least 2 partitions"
            )
        for start in range(0, samples, _BLOCK):
            part = slice(start, start + _BLOCK)
            total[part] /= counts[part, None]


def read_out_of_sample(home: Path) -> NDArray[np.float32]:
    """The out-of-sample probabilities below a seed's folder, `[samples, classes]`, as a memory map."""
    path = out_of_sample_path(home)
    if not path.exists():
        raise errors.EvidenceMissing(
            f"there are no out-of-sample predictions in {home}; they come from runs with at least 2 partitions"
        )
    found: NDArray[np.float32] = read(path)
    return found


def class_errors(probabilities: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of each class that is predicted as another, `[classes]`; 0 for a class without samples.

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
