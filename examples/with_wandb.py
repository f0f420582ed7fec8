"""Weights & Biases: scores and verdict in a run; offline, so nothing is sent."""

import numpy as np
import wandb
from sklearn.datasets import load_digits

import moso
from moso.integrations.wandb import log

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
X, y = pixels.astype(np.float32), labels
train, test = (X[:400], y[:400]), (X[400:600], y[400:600])

pruned = moso.prune(train, test_set=test, ratio=0.3, epochs=3, time_steps=4, partitions=1, progress=False)
with wandb.init(project="pruning", mode="offline", dir="runs"):
    log(pruned)

print(pruned.verdict)
print(f"kept {len(pruned.kept)} of {len(train[0])}")
