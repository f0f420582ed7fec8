"""MLflow: scores and verdict in a run, logged into local files."""

import os
from pathlib import Path

import mlflow
import numpy as np
from sklearn.datasets import load_digits

import moso
from moso.integrations.mlflow import log

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
X, y = pixels.astype(np.float32), labels
train, test = (X[:400], y[:400]), (X[400:600], y[400:600])

pruned = moso.prune(train, test_set=test, ratio=0.3, epochs=3, time_steps=4, partitions=1, progress=False)
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a server needs neither of these two lines
mlflow.set_tracking_uri(Path("runs/mlflow").resolve().as_uri())
with mlflow.start_run():
    log(pruned)

print(pruned.verdict)
print(f"kept {len(pruned.kept)} of {len(train[0])}")
