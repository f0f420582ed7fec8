"""skorch: a callback records the net's fit, and its own criterion scores the samples."""

import numpy as np
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn

import moso
from moso.integrations.skorch import MosoCallback, score

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
X, y = (pixels[:400] / 16).astype(np.float32), labels[:400].astype(np.int64)
# NeuralNetClassifier's default criterion takes the logarithm of probabilities; so do the scores.
module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(dim=1))

callback = MosoCallback("runs/skorch", samples=5, overwrite=True)
net = NeuralNetClassifier(module, callbacks=[callback], max_epochs=3, lr=0.1, batch_size=20, verbose=0)
net.fit(X, y)
scores = score(net, X, y, trajectory=callback.trajectory)
kept = moso.select(scores, ratio=0.3, labels=y)

print(f"recorded steps: {[point.step for point in callback.trajectory]} of {callback.trajectory.total_steps}")
print(f"kept {len(kept)} of {len(X)}")
