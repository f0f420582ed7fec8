"""Make the data set `demo`: some classes of CIFAR-100 as few, small numbers per picture.

    python -m benchmarks.demo_features --features cifar100-features --classes cifar100/classes.txt

`--features` is the folder of a pretrained network's features of CIFAR-100 (`moso embed`, or any other program; the
layout of `features:DIR`), with components in the order of their variance. Classes are the first in the order of the
label file, samples the first of each class: nothing is chosen by what it shows. Components are scaled to int8 one by
one. The result is the same bytes each time.
"""

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.data.sources.demo import FILE

CLASSES, PER_CLASS, COMPONENTS = 20, 300, 128


def first_of_each_class(labels: NDArray[np.int64], count: int | None) -> NDArray[np.int64]:
    """Return the positions of the first `count` samples (or all) of each of the first classes, ascending."""
    chosen = [np.flatnonzero(labels == label)[:count] for label in range(CLASSES)]
    return np.sort(np.concatenate(chosen))


def smaller(folder: Path, names: list[str]) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of the demo by name."""
    found: dict[str, NDArray[np.generic]] = {"classes": np.array(names[:CLASSES])}
    rows: dict[str, NDArray[np.float32]] = {}
    for split, count in (("train", PER_CLASS), ("test", None)):
        labels = np.load(folder / f"{split}_labels.npy", allow_pickle=False)
        positions = first_of_each_class(labels, count)
        rows[split] = np.load(folder / f"{split}.npy", allow_pickle=False)[positions, :COMPONENTS].astype(np.float32)
        found[f"{split}_ids"] = positions.astype(np.int32)
        found[f"{split}_labels"] = labels[positions].astype(np.uint8)
    scale = np.abs(rows["train"]).max(axis=0) / 127
    found["scale"] = scale.astype(np.float32)
    for split, values in rows.items():
        found[split] = np.clip(np.rint(values / scale), -127, 127).astype(np.int8)
    return found


def write(arrays: dict[str, NDArray[np.generic]], file: Path) -> None:
    """Write an npz file without the time of day in it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in sorted(arrays.items()):
            raw = io.BytesIO()
            np.save(raw, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), raw.getvalue(), zipfile.ZIP_DEFLATED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--classes", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    write(smaller(given.features, given.classes.read_text().split()), given.out)
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
