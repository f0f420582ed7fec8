"""TensorBoard: scores and verdict beside the curves of a training."""

import numpy as np
from sklearn.datasets import load_digits
from torch.utils.tensorboard import SummaryWriter

import moso
from moso.integrations.tensorboard import log

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
X, y = pixels.astype(np.float32), labels
train, test = (X[:400], y[:400]), (X[400:600], y[400:600])

pruned = moso.prune(train, test_set=test, ratio=0.3, epochs=3, time_steps=4, partitions=1, progress=False)
with SummaryWriter("runs/board") as writer:
    log(pruned, writer)

print(pruned.verdict)
print(f"kept {len(pruned.kept)} of {len(train[0])}")
