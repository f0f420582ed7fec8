"""`folder:PATH`: image files, one folder per class.

- `train/` and `val/` (or `validation/`, or `test/`), each with class folders; or class folders directly, of which a
  test split is held out.
- Tiny-ImageNet as it is distributed: `train/CLASS/images/`, `val/images/` with `val/val_annotations.txt`.
- ImageNet-1K with class folders in `val/`, or a flat `val/` with a label file (see `flat_labels`).

Classes are the folder names of the training split in sorted order; a `words.txt` (`n01443537<TAB>goldfish, ...`) in
PATH gives them their names. Ids are paths below the split's folder, with forward slashes, sorted.

As unlabelled data, all images below `train/`, if there is such a folder, or else below PATH are samples, in whatever
folders they lie; ids are paths below that folder.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from moso import errors
from moso.data.images import EncodedReader, Names, Paths
from moso.data.samples import StoredSamples
from moso.data.sources.flat_labels import read_flat_labels
from moso.data.sources.source import Opened, Request, Source
from moso.data.user_files import Walk, read_text, subfolders
from moso.tasks import Classification, Unlabelled
from moso.tasks.task import unread

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TEST_FOLDERS = ("val", "validation", "test")


def open_folder(request: Request) -> Opened:
    """Open the training and test split of a folder of images.

    Raises:
        FileMissing: The location is not a folder.
        DataEmpty: There are no class folders, or one of them is empty.
        ClassesMismatch: The test split has a class that the training split lacks.
        LabelsMissing: A flat test folder has no label file.
    """
    root = Path(request.location).expanduser()
    if not request.location or not root.is_dir():
        raise errors.FileMissing(
            f"data set 'folder' needs a folder of images: {request.location or 'nothing'!r} is none"
        )
    if request.task == Unlabelled.name:
        return _all_images(root, request), None
    # A class may be called "train" (CIFAR-100 has one); a split's folder holds folders, a class's folder holds images.
    has_splits = bool(subfolders(root / "train"))
    train_root = root / "train" if has_splits else root
    folders = subfolders(train_root)
    if not folders:
        raise errors.DataEmpty(
            f"{root} holds no class folders; expected train/CLASS/IMAGE and val/CLASS/IMAGE, or CLASS/IMAGE; for "
            "images without classes give --unlabelled"
        )
    ids = _images_by_class(train_root, folders)
    classes = _class_names(root, folders)
    train = _samples(train_root, ids, _first_folders(ids), folders, classes, request)
    if not has_splits:
        return train, None
    for name in _TEST_FOLDERS:
        if (root / name).is_dir():
            ids, own_folders = _test_images(root, name, folders)
            return train, _samples(root / name, ids, own_folders, folders, classes, request)
    return train, None


def _all_images(root: Path, request: Request) -> StoredSamples:
    """Return the images below a folder, or below its `train/`, without classes."""
    root = root / "train" if (root / "train").is_dir() else root
    ids = pa.array(sorted(images_below(root, ".")), pa.string())
    if not len(ids):
        raise errors.DataEmpty(f"{root} holds no images ({', '.join(IMAGE_SUFFIXES)})")
    return StoredSamples(ids, Unlabelled(), unread(len(ids)), _reader(root, ids, request))


def _reader(root: Path, ids: pa.Array, request: Request) -> EncodedReader:
    return EncodedReader.measured(Paths(root, ids), Names(ids, f"{root}/"), len(ids), request.resize)


def images_below(root: Path, folder: str) -> list[str]:
    """Return the paths of all images below `root/folder`, relative to `root`."""
    return Walk(root).files(folder, IMAGE_SUFFIXES)


def _is_image(file: str) -> bool:
    # Files such as "._cat.jpg" are metadata that macOS leaves beside images.
    return file.lower().endswith(IMAGE_SUFFIXES) and not file.startswith(".")


def _first_folders(ids: Sequence[str]) -> list[str]:
    return [path.partition("/")[0] for path in ids]


def _images_by_class(root: Path, folders: Sequence[str]) -> list[str]:
    ids, walk = [], Walk(root)
    for folder in folders:
        own = walk.files(folder, IMAGE_SUFFIXES)
        if not own:
            raise errors.DataEmpty(f"class folder {root / folder} holds no images; remove it or fill it")
        ids += own
    return sorted(ids)


def _test_images(root: Path, name: str, folders: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the test images, and the class folder of each."""
    test_root = root / name
    with os.scandir(test_root) as entries:
        flat = any(not entry.is_dir() and _is_image(entry.name) for entry in entries)
    own = subfolders(test_root)
    if flat or (own == ["images"] and "images" not in folders):
        ids = sorted(images_below(test_root, "images" if not flat else "."))
        if not ids:
            raise errors.DataEmpty(f"{test_root} holds no images")
        return ids, read_flat_labels(root, name, ids, folders)
    if not own:
        raise errors.DataEmpty(f"{test_root} holds no images")
    strangers = sorted(set(own) - set(folders))
    if strangers:
        raise errors.ClassesMismatch(
            f"{test_root} has a class folder {strangers[0]!r} that the training folder does not have "
            f"({len(strangers)} such folders)"
        )
    ids = _images_by_class(test_root, own)
    return ids, _first_folders(ids)


def _class_names(root: Path, folders: Sequence[str]) -> tuple[str, ...]:
    """Return the first name that `words.txt` gives each folder; the folder is added to names that occur twice."""
    words = root / "words.txt"
    if not words.is_file():
        return tuple(folders)
    lines = (line.partition("\t") for line in read_text(words).splitlines())
    known = {folder: name.split(",")[0].strip() for folder, _, name in lines}
    names = [known.get(folder) or folder for folder in folders]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)
    )


def _samples(
    root: Path,
    ids: Sequence[str],
    own_folders: Sequence[str],
    folders: Sequence[str],
    classes: tuple[str, ...],
    request: Request,
) -> StoredSamples:
    numbers = {folder: number for number, folder in enumerate(folders)}
    labels = np.array([numbers[folder] for folder in own_folders], dtype=np.int64)
    column = pa.array(ids)
    return StoredSamples(column, Classification(classes=classes), labels, _reader(root, column, request))


SOURCE = Source(
    "folder:PATH",
    "image files in class folders: train/ and val/, class folders alone, Tiny-ImageNet's own layout, or "
    "ImageNet-1K with a flat val/ and a label file",
    open_folder,
    unlabelled=True,
)
