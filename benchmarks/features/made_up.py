"""Made-up features, written in chunks: a class is a direction, a sample is its class plus noise."""

from pathlib import Path

import numpy as np

CHUNK = 20_000
# Length of a class's direction in units of the noise: a linear head gets most test samples right, and not all.
STRENGTH = 0.1


def write_features(folder: Path, rows: int, width: int, classes: int, kind: str, test_rows: int = 0) -> None:
    """Write `train.npy` and `test.npy` with their labels, unless they are there; at most a chunk is in memory.

    Args:
        folder: Folder to write to.
        rows: Number of training samples.
        width: Numbers per sample.
        classes: Number of classes.
        kind: float16 or float32.
        test_rows: Number of test samples; without any, there is no test split.
    """
    folder.mkdir(parents=True, exist_ok=True)
    centres = STRENGTH * np.random.default_rng(0).standard_normal((classes, width), dtype=np.float32)
    for name, count, seed in (("train", rows, 1), ("test", test_rows, 2)):
        file = folder / f"{name}.npy"
        if count == 0 or (file.exists() and np.load(file, mmap_mode="r").shape == (count, width)):
            continue
        labels = np.random.default_rng(seed).integers(0, classes, count)
        np.save(folder / f"{name}_labels.npy", labels)
        inputs = np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=(count, width))
        for start in range(0, count, CHUNK):
            own = labels[start : start + CHUNK]
            noise = np.random.default_rng((seed, start)).standard_normal((len(own), width), dtype=np.float32)
            inputs[start : start + CHUNK] = centres[own] + noise
        inputs.flush()
