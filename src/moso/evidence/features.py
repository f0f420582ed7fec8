"""Features: the input of a trained network's classifier for every sample, `[samples, width]`.

All features come from one network over the whole data set; features of different surrogates live in different spaces
and are never compared. A forward pre-hook on the classifier captures them, so the network needs no change. On disk:
`NAME.npy`, float32 in data set order, and `NAME.json` beside it, which says which network they come from.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View
from moso.evidence.arrays import read, writing
from moso.evidence.outputs import forward_all
from moso.files import write_record
from moso.gradients import Loss
from moso.models import classifier_head


def write_features(
    path: Path,
    model: nn.Module,
    view: View,
    samples: int,
    *,
    loss: Loss,
    loader_workers: int = 0,
    **made_by: object,
) -> None:
    """Write the features of all samples in evaluation mode, and a JSON note about them.

    Args:
        path: The npy file; the note gets the suffix `.json`.
        model: The network.
        view: Samples, as the network meets them.
        samples: Number of samples.
        loss: Loss that calls the network on a batch.
        loader_workers: Processes that load batches ahead.
        **made_by: Further entries of the note.

    Raises:
        ModelUnsuitable: The classifier is not called exactly once per batch.
        ValuesNotFinite: A feature is not finite.

    Example:
        >>> import tempfile
        >>> from moso.data.views import as_view
        >>> from moso.gradients import cross_entropy
        >>> path = Path(tempfile.mkdtemp()) / "reference-00.npy"
        >>> model = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3))
        >>> write_features(path, model, as_view((np.eye(2), [0, 1])), 2, loss=cross_entropy)
        >>> read_features(path).shape
        (2, 5)
    """
    layer, head = classifier_head(model)
    with before_classifier(head) as seen:
        batches = forward_all(model, loss, view, np.arange(samples), loader_workers)
        first = next(batches)
        rows = _rows(seen, len(first), layer)
        with writing(path, (samples, rows.shape[1]), np.float32) as features:
            features[first] = rows
            for positions in batches:
                features[positions] = _rows(seen, len(positions), layer)
    write_record(
        path.with_suffix(".json"),
        {"format": 1, "samples": samples, "width": rows.shape[1], "layer": layer, **made_by},
    )


def read_features(path: Path) -> NDArray[np.float32]:
    """Return features as a memory map, shape `[samples, width]`.

    Raises:
        StageIncomplete: The array or its note is missing.
    """
    if not is_written(path):
        raise errors.StageIncomplete(
            f"there are no features in {path}; `moso score` writes them for a selector that needs them"
        )
    features: NDArray[np.float32] = read(path)
    return features


def is_written(path: Path) -> bool:
    """Return whether the features and their note are both there; the note is written last."""
    return path.exists() and path.with_suffix(".json").exists()


@contextmanager
def before_classifier(head: nn.Module) -> Iterator[list[torch.Tensor]]:
    """Capture the input of every call of the classifier inside this context; the reader clears the list."""
    seen: list[torch.Tensor] = []

    def keep(module: nn.Module, arguments: tuple[object, ...]) -> None:
        if arguments and isinstance(arguments[0], torch.Tensor):
            seen.append(arguments[0].detach())

    handle = head.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


def _rows(seen: list[torch.Tensor], count: int, layer: str) -> NDArray[np.float32]:
    """Return one row per sample: the captured input, averaged over the positions of a sample if there are several."""
    calls = [tensor for tensor in seen if tensor.ndim >= 2 and len(tensor) == count]
    seen.clear()
    if len(calls) != 1:
        raise errors.ModelUnsuitable(
            f"the classifier {layer!r} was given {len(calls)} inputs for a batch of {count} samples where one was "
            "expected, so the network has no features of its own to compare samples by"
        )
    rows = calls[0].float()
    if rows.ndim == 4:  # feature maps before a classifier of 1 x 1 filters: channels come first
        rows = rows.mean((2, 3))
    elif rows.ndim == 3:
        rows = rows.mean(1)
    found: NDArray[np.float32] = rows.cpu().numpy()
    if not np.isfinite(found).all():
        raise errors.ValuesNotFinite("the features of some samples are not finite numbers; training may have diverged")
    return found
