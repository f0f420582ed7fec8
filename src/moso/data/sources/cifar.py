"""`cifar10` and `cifar100`: the official "python version" folders, extracted.

The files are pickles, and are read without executing them (`plain_pickle`). Ids are row numbers in the official order,
batches 1 to 5 in sequence, so that label files made for these data sets fit.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources.plain_pickle import read_plain_pickle
from moso.data.sources.source import Opened, Request, Source
from moso.tasks import Classification


@dataclass(frozen=True)
class _Layout:
    name: str
    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: bytes
    class_names: bytes


_CIFAR10 = _Layout(
    "cifar10",
    "cifar-10-batches-py",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test_batch",
    "batches.meta",
    b"labels",
    b"label_names",
)
_CIFAR100 = _Layout("cifar100", "cifar-100-python", ("train",), "test", "meta", b"fine_labels", b"fine_label_names")


def _find(layout: _Layout, location: str) -> Path:
    """Find the official folder: the path itself or just below it; without a path, below $MOSO_DATA and ./data."""
    if location:
        roots = [Path(location).expanduser()]
        if not roots[0].is_dir():
            raise errors.FileMissing(f"{location} is not a folder; {layout.name} needs the extracted {layout.folder}")
    else:
        roots = [Path(root) for root in (os.environ.get("MOSO_DATA"), "data") if root]
    for root in roots:
        for folder in (root, root / layout.folder):
            if (folder / layout.train[0]).is_file():
                return folder
    where = location or "./data or $MOSO_DATA"
    raise errors.FileMissing(
        f"there is no {layout.folder} folder in {where}; get the python version from "
        f"https://www.cs.toronto.edu/~kriz/cifar.html, extract it, and give {layout.name}:PATH"
    )


def _entry(path: Path, content: object, name: bytes) -> Any:
    # Keys are bytes in the official files, written by Python 2, and text in copies written by Python 3.
    for spelling in (name, name.decode()):
        if isinstance(content, dict) and spelling in content:
            return content[spelling]
    raise errors.FileUnreadable(f"{path} has no {name.decode()!r}; expected the official CIFAR python files")


def _split(layout: _Layout, folder: Path, files: tuple[str, ...], classes: list[str]) -> StoredSamples:
    images, labels = [], []
    for file in files:
        path = folder / file
        content = read_plain_pickle(path)
        pixels = np.asarray(_entry(path, content, b"data"))
        own = list(_entry(path, content, layout.labels))
        if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3072 or len(pixels) != len(own):
            raise errors.FileUnreadable(
                f"{path} holds {pixels.dtype} data of shape {pixels.shape} and {len(own)} labels; "
                "expected uint8 of shape (n, 3072) and n labels"
            )
        images.append(pixels.reshape(-1, 3, 32, 32))
        labels += own
    return StoredSamples.from_arrays(np.concatenate(images), labels, Classification(classes=tuple(classes)))


def _open(layout: _Layout, request: Request) -> Opened:
    folder = _find(layout, request.location)
    meta = folder / layout.meta
    names = _entry(meta, read_plain_pickle(meta), layout.class_names)
    classes = [name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names]
    train = _split(layout, folder, layout.train, classes)
    return train, _split(layout, folder, (layout.test,), classes)


def open_cifar10(request: Request) -> Opened:
    """Open CIFAR-10 from its official folder.

    Raises:
        FileMissing: The folder is not there.
        FileUnreadable: A file is damaged.
    """
    return _open(_CIFAR10, request)


def open_cifar100(request: Request) -> Opened:
    """Open CIFAR-100 from its official folder, with its 100 fine labels.

    Raises:
        FileMissing: The folder is not there.
        FileUnreadable: A file is damaged.
    """
    return _open(_CIFAR100, request)


_WHERE = "official python folder, looked for in ./data and $MOSO_DATA or given as"
CIFAR10 = Source("cifar10", f"CIFAR-10: {_WHERE} cifar10:PATH", open_cifar10)
CIFAR100 = Source("cifar100", f"CIFAR-100: {_WHERE} cifar100:PATH", open_cifar100)
