"""Features: what a trained network's classifier is given for every sample, `[samples, width]`.

They come from one network over all of the data; those of different surrogates live in different spaces and are never
compared. A hook before the classifier sees them, so nothing has to be added to the network. On disk `NAME.npy`,
float32 in data set order, with `NAME.json` beside it that says whose features they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View
from moso.evidence.arrays import read, writing
from moso.evidence.outputs import forward_all
from moso.files import write_json
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
    **made_by: Any,
) -> None:
    """Write the features of all samples as the network has them in evaluation mode, and a note about them.

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
    write_json(
        path.with_suffix(".json"),
        {"format": 1, "samples": samples, "width": rows.shape[1], "layer": layer, **made_by},
    )


def read_features(path: Path) -> NDArray[np.float32]:
    """Features as a memory map, `[samples, width]`; complete when the note beside them is there."""
    if not is_written(path):
        raise errors.StageIncomplete(
            f"there are no features in {path}; `moso score` writes them for a selector that needs them"
        )
    features: NDArray[np.float32] = read(path)
    return features


def is_written(path: Path) -> bool:
    """Whether features are there, all of them."""
    return path.exists() and path.with_suffix(".json").exists()


@contextmanager
def before_classifier(head: nn.Module) -> Iterator[list[torch.Tensor]]:
    """What the classifier is given in each of its calls while this lasts; whoever reads it clears the list."""
    seen: list[torch.Tensor] = []

    def keep(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments and isinstance(arguments[0], torch.Tensor):
            seen.append(arguments[0].detach())

    handle = head.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


def _rows(seen: list[torch.Tensor], count: int, layer: str) -> NDArray[np.float32]:
    """One row a sample; where the classifier works on several positions of a sample, their mean."""
    calls = [tensor for tensor in seen if tensor.ndim >= 2 and len(tensor) == count]
    seen.clear()
    if len(calls) != 1:
        raise errors.ModelUnsuitable(
            f"the classifier {layer!r} was given {len(calls)} inputs for a batch of {count} samples where one was "
            "expected, so the network has no features of its own to compare samples by"
        )
    rows = calls[0].float()
    if rows.ndim == 4:  # images before a classifier of 1 x 1 filters: channels come first
        rows = rows.mean((2, 3))
    elif rows.ndim == 3:
        rows = rows.mean(1)
    found: NDArray[np.float32] = rows.cpu().numpy()
    if not np.isfinite(found).all():
        raise errors.ValuesNotFinite(
            "the features of some samples are not finite numbers; training may have gone astray"
        )
    return found
