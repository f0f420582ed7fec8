"""datasets: scores as a column, and the kept rows as a dataset without a list of indices."""

import numpy as np
from datasets import Dataset
from sklearn.datasets import load_digits

import moso
from moso.integrations.datasets import kept_rows, with_scores

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
dataset = Dataset.from_dict({"pixels": pixels[:400].astype(np.float32), "label": labels[:400]})

pruned = moso.prune(
    (pixels[:400].astype(np.float32), labels[:400]), ratio=0.3, epochs=3, time_steps=4, partitions=1, progress=False
)
dataset = with_scores(dataset, pruned.scores)
kept = kept_rows(dataset, pruned.kept)

print(f"columns: {kept.column_names}")
print(f"kept {len(kept)} of {len(dataset)}")
