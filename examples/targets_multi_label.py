"""Multi-label: which digits are in the picture? Any number of labels applies. Wrong marks are found.

Two real digits side by side, ten marks of yes or no; every sixth picture gets the marks of another one.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import moso

draw = np.random.default_rng(0)
digits, kinds = np.asarray(load_digits().images, dtype=np.float32) / 16, np.asarray(load_digits().target)
pairs = draw.integers(0, len(digits), (600, 2))
rows = np.concatenate([digits[pairs[:, 0]], digits[pairs[:, 1]]], axis=2).reshape(600, -1)
marks = np.zeros((600, 10), dtype=np.int64)
marks[np.arange(600)[:, None], kinds[pairs]] = 1
wrong = np.arange(600) % 6 == 0
marks[wrong] = np.roll(marks[wrong], 1, axis=0)

pruned = moso.prune(
    (rows, marks), ratio=0.2, task="multi-label", model="mlp-w32", recipe="table", epochs=30, batch_size=16,
    surrogate={"weight_decay": 5e-4}, partitions=2, time_steps=4,
)  # fmt: skip
found = roc_auc_score(wrong, -pruned.scores)
print(f"wrong marks: AUROC {found:.2f}, {wrong[pruned.kept].mean():.0%} of what is kept ({wrong.mean():.0%} before)")
assert found > 0.75, "wrong marks should have low scores"
