"""peft: only the adapter is recorded and scored; the checkpoints that peft writes are scored as well."""

# ruff: noqa: I001 - moso comes first: with it, peft imports even beside a torchvision made for another torch
import moso
from moso.integrations.peft import adapter_trajectory, record

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
import numpy as np
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
dataset = TensorDataset(
    torch.tensor(pixels[:400] / 16, dtype=torch.float32), torch.tensor(labels[:400], dtype=torch.long)
)
base: nn.Module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
model = get_peft_model(base, LoraConfig(target_modules=["0"], modules_to_save=["2"], r=4))
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=0.01)
loader = DataLoader(dataset, batch_size=20, shuffle=True)

recording = record(model, optimizer, folder="runs/peft", total_steps=3 * len(loader), samples=5, overwrite=True)
for epoch in range(1, 4):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        torch.autograd.backward(loss)
        optimizer.step()
    model.save_pretrained(f"runs/peft-saved/checkpoint-{epoch * len(loader)}")
scores = moso.score(model, dataset, recording.trajectory)
kept = moso.select(scores, ratio=0.3, labels=labels[:400])

saved = adapter_trajectory(model, dict.fromkeys(sorted(Path("runs/peft-saved").iterdir()), 0.01))
scores_of_saved = moso.score(model, dataset, saved)
whole = sum(parameter.numel() for parameter in model.parameters())
written = sum(value.numel() for value in recording.trajectory[0].state().values())
print(f"written per step: {written:,} of {whole:,} parameters")
print(f"saved checkpoints: {[point.step for point in saved]}")
print(f"kept {len(kept)} of {len(dataset)}")
