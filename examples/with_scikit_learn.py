"""scikit-learn and imbalanced-learn: pruning as a step of a pipeline."""

import numpy as np
from imblearn.pipeline import make_pipeline
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from moso import MosoSelector

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
X_train, X_test, y_train, y_test = train_test_split(pixels[:600], labels[:600], random_state=0)

selector = MosoSelector(ratio=0.3, epochs=5, time_steps=4, random_state=0)
pipeline = make_pipeline(StandardScaler(), selector, LogisticRegression(max_iter=1000))
pipeline.fit(X_train, y_train)

rows = pipeline.named_steps["mososelector"].sample_indices_
print(f"accuracy on {len(rows)} of {len(X_train)} rows: {pipeline.score(X_test, y_test):.3f}")
print(f"kept {len(rows)} of {len(X_train)}")
