"""Data sets of experiments: names that mean the same on every machine, found below the user's data folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from moso import errors
from moso.errors import unknown_name
from moso.experiments.made_data import first_classes, first_rows, training_file_alone, training_rows_alone


@dataclass(frozen=True)
class Place:
    """A data set by name: how to find it below a folder, and its size, which is known without opening it.

    Attributes:
        expected: Description of the expected files, for error messages.
        train: Number of training samples.
        test: Number of test samples.
        shape: Shape of an input.
        classes: Number of classes.
        find: Returns the data set's specification below a folder, or None.
        labels: Returns the file of labels that replace the data set's own, or None.
        settings: Settings that every run on this data set has.
        make: Makes the data set from the one that was found, in a folder of the experiments' own.
        split: Name of the split on which accuracies are measured.
    """

    expected: str
    train: int
    test: int
    shape: tuple[int, ...]
    classes: int
    find: Callable[[Path], str | None]
    labels: Callable[[Path], str | None] | None = None
    settings: tuple[tuple[str, float], ...] = ()
    make: Callable[[Path, Path], str] | None = None
    split: str = "test"


@dataclass(frozen=True)
class Found:
    """The data set's specification for a run, and the file of labels that replace its own, if there is one."""

    dataset: str
    labels: str | None = None


def _cifar100(root: Path) -> str | None:
    for name in ("cifar100", "cifar-100-python"):
        if sorted((root / name).glob("train*.parquet")):
            return f"parquet:{root / name}"
        if (root / name / "train").is_file():
            return f"cifar100:{root / name}"
    return None


def _held_out(root: Path) -> str | None:
    path = root / "cifar100" / "train.parquet"
    return f"parquet:{path}" if path.is_file() else None


def _human_labels(root: Path) -> str | None:
    path = root / "cifar100n" / "cifar100n_train_labels.npz"
    return f"{path}:noisy_label" if path.is_file() else None


def _folder(*names: str) -> Callable[[Path], str | None]:
    def find(root: Path) -> str | None:
        return next((f"folder:{root / name}" for name in names if (root / name / "train").is_dir()), None)

    return find


def _features(name: str) -> Callable[[Path], str | None]:
    def find(root: Path) -> str | None:
        return f"features:{root / name}" if (root / name / "train.npy").is_file() else None

    return find


_CIFAR = "cifar100/ with train.parquet and test.parquet, or the official cifar-100-python/"
_FEATURES = "cifar100-features/ with train.npy, test.npy and their labels"
PLACES = {
    "digits": Place("nothing: digits come with scikit-learn", 1438, 359, (1, 8, 8), 10, lambda root: "digits"),
    "cifar100": Place(_CIFAR, 50_000, 10_000, (3, 32, 32), 100, _cifar100),
    "cifar100-held-out": Place(
        "cifar100/train.parquet, of which a tenth is held out",
        *(45_000, 5_000, (3, 32, 32), 100, _held_out),
        settings=(("test_share", 0.1),),
        make=training_file_alone,
        split="held-out",
    ),
    "cifar100-20-classes": Place(
        f"{_CIFAR}, of which the first 20 classes are taken",
        *(10_000, 2_000, (3, 32, 32), 20, _cifar100),
        make=first_classes(20),
    ),
    "cifar100-10k": Place(
        f"{_CIFAR}, of which the first 10,000 training images are taken",
        *(10_000, 10_000, (3, 32, 32), 100, _cifar100),
        make=first_rows(10_000),
    ),
    "cifar100-features-20k": Place(
        f"{_FEATURES}, of whose training rows the first 20,000 are taken",
        *(20_000, 10_000, (256,), 100, _features("cifar100-features")),
        make=first_rows(20_000),
    ),
    "cifar100-features-10k": Place(
        f"{_FEATURES}, of whose training rows the first 10,000 are taken",
        *(10_000, 10_000, (256,), 100, _features("cifar100-features")),
        make=first_rows(10_000),
    ),
    "cifar100-features": Place(_FEATURES, 50_000, 10_000, (256,), 100, _features("cifar100-features")),
    "cifar100-features-held-out": Place(
        f"{_FEATURES}, of whose training rows a tenth is held out",
        *(45_000, 5_000, (256,), 100, _features("cifar100-features")),
        settings=(("test_share", 0.1),),
        make=training_rows_alone,
        split="held-out",
    ),
    "cifar100n-features": Place(
        f"{_FEATURES}, and cifar100n/cifar100n_train_labels.npz",
        *(50_000, 10_000, (256,), 100, _features("cifar100-features"), _human_labels),
    ),
    "cifar100n": Place(
        f"{_CIFAR}, and cifar100n/cifar100n_train_labels.npz",
        *(50_000, 10_000, (3, 32, 32), 100, _cifar100, _human_labels),
    ),
    "tiny-imagenet-subset": Place(
        "tiny-imagenet-subset/ with train/ and val/, 50 classes of Tiny-ImageNet",
        *(10_000, 2_500, (3, 64, 64), 50, _folder("tiny-imagenet-subset")),
    ),
    "tiny-imagenet-features": Place(
        "tiny-imagenet-features/ with train.npy, test.npy and their labels, which `moso embed` writes from "
        "tiny-imagenet-subset/ (docs/reproduce.md)",
        *(10_000, 2_500, (1280,), 50, _features("tiny-imagenet-features")),
    ),
    "tiny-imagenet": Place(
        "tiny-imagenet-200/ as it is published",
        *(100_000, 10_000, (3, 64, 64), 200, _folder("tiny-imagenet-200", "tiny-imagenet")),
    ),
    "imagenet": Place(
        "imagenet/ with train/ and val/", 1_281_167, 50_000, (3, 224, 224), 1000, _folder("imagenet", "imagenet-1k")
    ),
}


def place_of(data: str) -> Place:
    """Return the description of a data set by name.

    Raises:
        UnknownName: No data set has this name.

    Example:
        >>> place_of("cifar100").train
        50000
    """
    if data not in PLACES:
        raise unknown_name("data of an experiment", data, PLACES)
    return PLACES[data]


def find_data(data: str, root: Path, out: Path | None = None) -> Found:
    """Find a data set below a folder.

    Args:
        data: Name of the data set.
        root: The user's data folder.
        out: Folder for data sets that are made from those found; None returns what they are made from.

    Raises:
        UnknownName: No data set has this name.
        FileMissing: The data is not below `root`; the message says what is expected there.

    Example:
        >>> find_data("digits", Path("nowhere")).dataset
        'digits'
    """
    place, root = place_of(data), root.resolve()
    dataset = place.find(root)
    labels = None if place.labels is None else place.labels(root)
    if dataset is None or (place.labels is not None and labels is None):
        raise errors.FileMissing(
            f"{data} is not in {root}; it should hold {place.expected} (give the folder with --data)"
        )
    if place.make is not None and out is not None:
        dataset = place.make(Path(dataset.partition(":")[2]), out.absolute() / "data" / data)
    return Found(dataset, labels)
