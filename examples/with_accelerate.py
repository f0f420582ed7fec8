"""accelerate: one line after `prepare`; batches that only accumulate gradients do not count as updates."""

import numpy as np
import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import moso
from moso.integrations.accelerate import record

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
dataset = TensorDataset(
    torch.tensor(pixels[:400] / 16, dtype=torch.float32), torch.tensor(labels[:400], dtype=torch.long)
)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(dataset, batch_size=20, shuffle=True))

recording = record(accelerator, model, optimizer, folder="runs/accelerate", total_steps=30, samples=5, overwrite=True)
for _ in range(3):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
scores = moso.score(accelerator.unwrap_model(model), dataset, recording.trajectory)
kept = moso.select(scores, ratio=0.3, labels=labels[:400])

print(f"recorded steps: {[point.step for point in recording.trajectory]} of {recording.trajectory.total_steps}")
print(f"kept {len(kept)} of {len(dataset)}")
