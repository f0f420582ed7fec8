"""Regression of vectors: the lower half of a digit from its upper half. Wrong halves are found.

Targets are rows of 32 numbers; every sixth digit gets the lower half of another one.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import moso

pixels = np.asarray(load_digits().data[:600], dtype=np.float32) / 16
upper, lower = pixels[:, :32], pixels[:, 32:].copy()
wrong = np.arange(600) % 6 == 0
lower[wrong] = np.roll(lower[wrong], 1, axis=0)

pruned = moso.prune(
    (upper, lower), ratio=0.2, task="regression", model="mlp-w32", recipe="table", epochs=30, batch_size=16,
    surrogate={"weight_decay": 5e-4}, partitions=2, time_steps=4,
)  # fmt: skip
found = roc_auc_score(wrong, -pruned.scores)
print(f"wrong vectors: AUROC {found:.2f}, {wrong[pruned.kept].mean():.0%} of what is kept ({wrong.mean():.0%} before)")
assert found > 0.7, "wrong vectors should have low scores"
