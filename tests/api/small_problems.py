"""Data of a few dozen samples, and settings under which pruning it takes a second."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FAST: dict[str, Any] = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 1, "batch_size": 16}
NAMES = ("cat", "dog", "owl")


def table(count: int = 60, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows of four numbers in three classes."""
    draw = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    rows = draw.normal(size=(count, 4)).astype(np.float32)
    rows[:, 0] += 2 * labels
    return rows, labels


def pictures(count: int = 40) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Small colour pictures in two classes."""
    draw = np.random.default_rng(0)
    labels = np.arange(count) % 2
    return (draw.integers(0, 128, (count, 3, 8, 8)) + 127 * labels[:, None, None, None]).astype(np.uint8), labels
