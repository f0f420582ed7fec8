"""What tests of gradient selectors share: made-up features and probabilities, and gradients written out."""

import numpy as np
from scipy.special import softmax


def outputs(count, classes=3, width=4, seed=0):
    """Labels, features and probabilities of a network that is mostly right."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, count)
    features = np.abs(draw.normal(size=(count, width)) + labels[:, None]).astype(np.float32)
    logits = draw.normal(size=(count, classes)) + 2 * np.eye(classes)[labels]
    return labels, features, softmax(logits, axis=1).astype(np.float32)


def written_out(labels, features, probabilities):
    """The last layer's gradients as long rows, one outer product per sample."""
    errors = probabilities.astype(np.float64) - np.eye(probabilities.shape[1])[labels]
    return np.einsum("nc,nd->ncd", errors, features.astype(np.float64)).reshape(len(labels), -1)


def given(labels, features, probabilities):
    """The arguments of `moso.select`."""
    return {"labels": labels, "features": features, "evidence": {"probabilities": probabilities}}
