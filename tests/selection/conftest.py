"""What tests of selectors share: evidence of every kind for a handful of samples."""

import numpy as np
import pytest


def evidence(count: int, classes: int = 3, seed: int = 0, dimension: int = 4) -> dict[str, object]:
    """All that any selector may ask for, with clusters in feature space."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, count)
    return {
        "labels": labels,
        "features": (draw.normal(size=(count, dimension)) + 3 * labels[:, None]).astype(np.float32),
        "probability": draw.uniform(size=count),
        "class_error": draw.uniform(0.05, 0.5, size=int(labels.max()) + 1),
        "hard": "low",
        "influences": draw.normal(size=(count, dimension)).astype(np.float32),
        "evidence": {"probabilities": draw.dirichlet(np.ones(classes), count).astype(np.float32)},
    }


@pytest.fixture
def make_evidence():
    return evidence
