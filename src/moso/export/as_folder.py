"""Export as a folder of images: `train/CLASS/IMAGE`, and `val/CLASS/IMAGE` for the test split.

Samples of an image folder keep their path, so their ids stay the same; a sample whose label was changed goes to the
folder of the class that it was trained as. A class whose name is not valid as a folder name gets a safe folder name.
Readers number classes in the order of the folder names: where that is not the order of the classes, all folders get the
index of the class in front, and a class of which nothing is kept gets an empty folder, which readers refuse instead of
shifting the indices of the others. `words.txt` maps folders to class names, `classes.txt` lists all names by index.
Samples without classes lie below `train/` under their own paths. A weighted selection adds `weights.csv` with the path
and the weight of every image.
"""

import csv
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from moso import errors
from moso.data.images import EncodedReader
from moso.export.split import Row, Split
from moso.progress import Progress
from moso.results.originals import Originals

_FOLDERS = {"train": "train", "test": "val"}
_LONGEST = 100
# Names that Windows reserves for devices, with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def write_image_folder(splits: Mapping[str, Split], root: Path, link: bool, progress: Progress) -> None:
    """Write the images of all splits below `root`.

    Args:
        splits: Samples to export, by name of the split; `train` is required.
        root: Target folder.
        link: Make symbolic links to the original files instead of copies.
        progress: Called as work advances.

    Raises:
        MosoError: ``pictures-required``; ``settings-conflict`` for `link` without image files; ``output-invalid``.
    """
    train = splits["train"]
    if not train.has_pictures:
        raise errors.PicturesRequired(
            "the inputs are not pictures, so they cannot become an image folder; export --format parquet-data"
        )
    folders = class_folders(train.samples.classes, train.originals)
    _write_words(root / "words.txt", folders, train.samples.classes)
    if folders:
        names = (" ".join(name.splitlines()) for name in train.samples.classes)
        (root / "classes.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    for folder in folders:
        (root / _FOLDERS["train"] / folder).mkdir(parents=True, exist_ok=True)
    total, done = sum(len(split.positions) for split in splits.values()), 0
    for name, split in splits.items():
        place = root / _FOLDERS[name]
        # Numbers of equal width, so that sorting by name gives the order of the rows.
        width = len(str(pc.max(split.samples.ids).as_py()))
        taken: set[str] = set()
        weights: list[tuple[str, float]] = []
        for rows in split.blocks():
            for row in rows:
                content, suffix = split.image(row.id)
                own = _free(_image_name(row, folders[row.label] if folders else "", suffix, width), taken)
                _write(place, own, content, link)
                if row.weight is not None:
                    weights.append((f"{_FOLDERS[name]}/{own}", row.weight))
            done += len(rows)
            progress("exporting", done, total)
        if weights:
            _write_weights(root / "weights.csv", weights)


def class_folders(classes: Sequence[str], originals: Originals) -> list[str]:
    """Return one folder name per class, in the order of classes when sorted.

    The name is the folder of the class's images in the source, or a safe form of the class name; with the index of the
    class in front if names alone would sort otherwise.
    """
    own: dict[int, str] = {}
    if isinstance(originals.samples.reader, EncodedReader) and pa.types.is_string(originals.samples.ids.type):
        for sample_id, label in zip(originals.samples.ids.to_pylist(), originals.samples.labels.tolist(), strict=True):
            own.setdefault(label, sample_id.partition("/")[0])
    found, taken = [], set[str]()
    for label, name in enumerate(classes):
        folder = safe_name(own.get(label, name))
        # Folder names that differ only in case collide on case-insensitive file systems.
        while folder.casefold() in taken:
            folder = f"{folder}-{label}"
        taken.add(folder.casefold())
        found.append(folder)
    if found != sorted(found):
        width = len(str(len(found) - 1))
        return [f"{label:0{width}}-{folder}" for label, folder in enumerate(found)]
    return found


def safe_name(name: str) -> str:
    """Return a form of a name that is valid for one file or folder on every system: not hidden, and not a path.

    Example:
        >>> safe_name("great white shark"), safe_name("../../x"), safe_name("a/b: c?"), safe_name("..")
        ('great white shark', '_.._x', 'a_b_ c_', '_')
    """
    safe = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", name).strip(" .")
    while len(safe.encode()) > _LONGEST:
        safe = safe[:-1].strip(" .")
    return f"_{safe}" if not safe or _DEVICES.fullmatch(safe) else safe


def _write_words(path: Path, folders: Sequence[str], classes: Sequence[str]) -> None:
    """Write the class names of folders with another name, unless the format of `words.txt` cannot hold the name."""
    lines = [
        f"{folder}\t{name}\n"
        for folder, name in zip(folders, classes, strict=True)
        if folder != name and name == name.split(",")[0].strip() and len(name.splitlines()) == 1
    ]
    if lines:
        path.write_text("".join(lines), encoding="utf-8")


def _write_weights(path: Path, weights: Sequence[tuple[str, float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "weight"])
        writer.writerows(weights)


def _image_name(row: Row, folder: str, suffix: str, width: int) -> str:
    """Return the relative path of an image: its path in the source, or a name made from its id in the class folder."""
    if isinstance(row.id, int):
        return f"{folder}/{row.id:0{width}}{suffix}".lstrip("/")
    if not folder:
        return str(PurePosixPath(row.id).with_suffix(suffix))
    if row.id.startswith(f"{folder}/"):
        return row.id
    flat = str(PurePosixPath(row.id).with_suffix("")).replace("/", "__")
    return f"{folder}/{safe_name(flat)}{suffix}"


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if another sample has it."""
    path, number = PurePosixPath(name), 2
    while name in taken:
        name, number = str(path.with_name(f"{path.stem}-{number}{path.suffix}")), number + 1
    taken.add(name)
    return name


def _write(place: Path, name: str, content: Path | bytes, link: bool) -> None:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise errors.OutputInvalid(f"sample {name!r} would be written outside the target folder")
    target = place / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        if link:
            raise errors.SettingsConflict(
                "--link needs image files to point to, and this data has none; leave it out to get copies"
            )
        target.write_bytes(content)
    elif link:
        target.symlink_to(content.resolve())
    else:
        shutil.copyfile(content, target)
