"""Embeddings for `ssp` that are not trained here: the user's file, or the features of a pretrained network.

An `.npy` file has one row per sample, in dataset order. A `.parquet` file has a column of lists, or one column per
number; rows are matched by a column `id` if there is one, otherwise they are in dataset order.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.columns import Array
from moso.data.user_files import read_npy
from moso.data.views import View
from moso.models.compat import import_timm
from moso.training.self_supervised import features_of, without_classifier
from moso.training.two_views import inputs_of


def read_embedding(path: Path | str, ids: pa.Array) -> Array:
    """Read the features in a user's file.

    Args:
        path: An npy or Parquet file.
        ids: One id per sample, in dataset order.

    Returns:
        Features in the order of `ids`, shape ``[samples, width]``; those of an npy file are memory-mapped.

    Raises:
        MosoError: ``file-missing``, ``file-unreadable``, ``shape-mismatch``, ``length-mismatch``, ``sample-unknown``,
            ``column-missing``.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.parquet"
        >>> pq.write_table(pa.table({"id": [7, 5], "x": [1.0, 2.0], "y": [3.0, 4.0]}), path)
        >>> read_embedding(path, pa.array([5, 7]))
        array([[2., 4.],
               [1., 3.]], dtype=float32)
    """
    path = Path(path)
    if path.suffix not in (".npy", ".parquet"):
        raise errors.FileUnreadable(f"{path} is neither .npy nor .parquet; features are read from those")
    if not path.exists():
        raise errors.FileMissing(f"there is no file {path} with features")
    try:
        found = read_npy(path, "features") if path.suffix == ".npy" else _table(path, ids)
    except (ValueError, OSError, pa.ArrowInvalid) as problem:
        raise errors.FileUnreadable(f"{path} holds no features that can be read: {problem}") from problem
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        raise errors.ShapeMismatch(
            f"{path} holds {found.dtype} of shape {found.shape}; features are one row of numbers per sample"
        )
    if len(found) != len(ids):
        raise errors.LengthMismatch(f"{path} has the features of {len(found)} samples, but the data has {len(ids)}")
    return found


def pretrained_features(
    network: nn.Module | str,
    view: View,
    positions: NDArray[np.int64],
    *,
    side: int | None = None,
    loader_workers: int = 0,
) -> NDArray[np.float32]:
    """Compute the features of samples in a pretrained network: the inputs of its classifier.

    Images stay normalised by the mean and standard deviation of the data.

    Args:
        network: A module, or `timm:NAME`, whose weights timm downloads.
        view: The samples.
        positions: Positions of the samples in `view`.
        side: Pixels to which images are scaled; None keeps their size, or for timm scales to the network's own size.
        loader_workers: Number of processes that load data; 0 loads in this process.

    Returns:
        Features, shape ``[positions, width]``.

    Raises:
        MosoError: ``unknown-name``, ``pictures-required``, ``download-failed``, ``package-missing``.

    Example:
        >>> from moso.data.views import as_view
        >>> view = as_view((np.zeros((3, 1, 8, 8), dtype=np.uint8), [0, 1, 0]))
        >>> network = nn.Sequential(nn.Conv2d(1, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 2))
        >>> pretrained_features(network, view, np.arange(3), side=16).shape
        (3, 5)
    """
    if isinstance(network, str):
        encoder, own = _from_timm(network, view)
        side = side or own
    else:
        encoder = without_classifier(network, view, seed=0)
    return features_of(
        encoder if side is None else nn.Sequential(_Scaled(side), encoder), view, positions, loader_workers
    )


class _Scaled(nn.Module):
    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return F.interpolate(
            pictures, size=(self.side, self.side), mode="bilinear", align_corners=False, antialias=True
        )


def _from_timm(name: str, view: View) -> tuple[nn.Module, int]:
    timm = import_timm()
    plain = name.removeprefix("timm:")
    if plain == name or not timm.is_model(plain):
        raise errors.UnknownName(
            f"{name!r} is no pretrained network; the form is timm:NAME, and timm.list_pretrained() lists them"
        )
    shape = inputs_of(view.batch(np.arange(1))).shape
    if len(shape) != 4:
        raise errors.PicturesRequired(
            f"{name} takes pictures, but inputs are of shape {tuple(shape[1:])}; give features of your own"
        )
    try:
        model: nn.Module = timm.create_model(plain, pretrained=True, num_classes=0, in_chans=shape[1])
    except (RuntimeError, OSError, ValueError) as problem:
        raise errors.DownloadFailed(
            f"the weights of {name} cannot be had: {str(problem).splitlines()[0]}; "
            "fetch them once where there is a network connection, or give features of your own"
        ) from problem
    return model, int(model.pretrained_cfg["input_size"][-1])  # type: ignore[index]


def _table(path: Path, ids: pa.Array) -> Array:
    table = pq.read_table(path)
    if "id" in table.column_names:
        column = table["id"].combine_chunks()
        if column.type != ids.type:
            column, ids = column.cast(pa.string()), ids.cast(pa.string())
        where = pc.index_in(ids, value_set=column)
        if where.null_count:
            first = ids[int(np.argmax(where.is_null().to_numpy(zero_copy_only=False)))]
            raise errors.SampleUnknown(
                f"{path} has no features for sample {first} ({where.null_count} are missing in all)"
            )
        table = table.take(where).drop_columns("id")
    columns = [column.combine_chunks() for column in table.columns]
    if len(columns) == 1 and (pa.types.is_list(columns[0].type) or pa.types.is_fixed_size_list(columns[0].type)):
        return np.stack([np.asarray(row, dtype=np.float32) for row in columns[0].to_numpy(zero_copy_only=False)])
    if not columns:
        raise errors.ColumnMissing(f"{path} has no column of features beside its ids")
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns]).astype(np.float32)
