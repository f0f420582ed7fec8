"""Labels of a flat test folder: `val/*.JPEG` and one file with the class of each image.

The file is looked for in the test folder and beside it, with `val` standing for the folder's name:

- `val_annotations.txt`, `val_labels.txt`, `val_labels.csv`, `val.txt`, `LOC_val_solution.csv`: lines of a file name
  (its suffix may be missing) and a class, separated by tab, comma or space; the rest of the line is ignored. A class is
  the name of a training folder or a number.
- `*ground_truth*.txt`: one number per line, for the images in the order of their names.

A number is a position in the sorted training folders, counted from 0, or from 1 if 0 never occurs and the number of
classes does. The exception is ImageNet's own `ILSVRC2012_validation_ground_truth.txt`, whose numbers do not follow the
order of names: it needs the `meta.mat` of the same development kit beside it.
"""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from moso import errors
from moso.data.user_files import read_text


def read_flat_labels(root: Path, name: str, ids: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Return the class folder of each image of the test folder `root/name`.

    Args:
        root: Folder of the data set.
        name: Name of the test folder.
        ids: Paths of the images below the test folder.
        folders: Class folders of the training split, sorted.

    Raises:
        LabelsMissing: There is no label file, or it lacks an image.
        FileUnreadable: A line cannot be read.
        LengthMismatch: The number of labels is not the number of images.
        ClassesMismatch: A label is not a class of the training split.
    """
    by_name = [f"{name}_annotations.txt", f"{name}_labels.txt", f"{name}_labels.csv", f"{name}.txt"]
    by_name.append(f"LOC_{name}_solution.csv")
    for folder in (root / name, root):
        for file in (folder / candidate for candidate in by_name):
            if file.is_file():
                return _by_file_name(file, ids, folders)
        for file in sorted(folder.glob("*ground_truth*.txt")):
            return _in_order(file, ids, folders)
    raise errors.LabelsMissing(
        f"{root / name} holds images without class folders and there is no label file; put {by_name[1]} with lines "
        "'FILE CLASS' into it, or sort the images into class folders"
    )


def _lines(file: Path) -> list[str]:
    return [line for line in read_text(file).splitlines() if line.strip()]


def _by_file_name(file: Path, ids: Sequence[str], folders: Sequence[str]) -> list[str]:
    written: dict[str, str] = {}
    known = set(folders)
    for line in _lines(file):
        image, label = _two_fields(line, known, file)
        written[image] = label
    labels = []
    for path in ids:
        spellings = (path, PurePosixPath(path).name, PurePosixPath(path).stem)
        spelling = next((name for name in spellings if name in written), None)
        if spelling is None:
            raise errors.LabelsMissing(f"label file {file} has no label for {path}")
        labels.append(written[spelling])
    return _as_folders(labels, folders, file)


def _two_fields(line: str, known: set[str], file: Path) -> tuple[str, str]:
    separator = next((mark for mark in ("\t", ",") if mark in line), None)
    fields = [field.strip() for field in line.split(separator)]
    if len(fields) < 2:
        raise errors.FileUnreadable(f"label file {file} has a line {line!r}; expected a file name and a class")
    label = fields[1]
    # ImageNet's CSV has boxes after the class, in the same field.
    return fields[0], label if label in known else (label.split() or [""])[0]


def _in_order(file: Path, ids: Sequence[str], folders: Sequence[str]) -> list[str]:
    labels = [line.strip() for line in _lines(file)]
    if len(labels) != len(ids):
        raise errors.LengthMismatch(f"label file {file} has {len(labels)} labels but there are {len(ids)} images")
    if file.name == "ILSVRC2012_validation_ground_truth.txt":
        table = _ilsvrc_folders(file)
        return _as_folders([table.get(label, label) for label in labels], folders, file)
    return _as_folders(labels, folders, file)


def _ilsvrc_folders(file: Path) -> dict[str, str]:
    """Return the folder of each ILSVRC2012 number."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    meta = file.with_name("meta.mat")
    if not meta.is_file():
        raise errors.FileMissing(
            f"the numbers in {file} follow ImageNet's own table, not the order of the folders; put meta.mat of the "
            "development kit beside it"
        )
    try:
        synsets = loadmat(meta, squeeze_me=True)["synsets"]
        return {str(int(row["ILSVRC2012_ID"])): str(row["WNID"]) for row in synsets}
    except (MatReadError, LookupError, ValueError, TypeError, NotImplementedError) as problem:
        raise errors.FileUnreadable(f"{meta} is not the table of ImageNet's development kit ({problem})") from problem


def _as_folders(labels: Sequence[str], folders: Sequence[str], file: Path) -> list[str]:
    known = set(folders)
    if known.issuperset(labels):
        return list(labels)
    if not all(re.fullmatch(r"\d+", label) for label in labels):
        stranger = next(label for label in labels if label not in known)
        raise errors.ClassesMismatch(f"label file {file} has a class {stranger!r} that is no training folder")
    numbers = [int(label) for label in labels]
    first = 1 if min(numbers) >= 1 and max(numbers) == len(folders) else 0
    if max(numbers) - first >= len(folders):
        raise errors.ClassesMismatch(
            f"label file {file} has a class {max(numbers)}, but there are {len(folders)} training folders"
        )
    return [folders[number - first] for number in numbers]
