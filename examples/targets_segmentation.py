"""Segmentation: a mask per picture, the loss of a pixel averaged per picture. Wrong masks are found.

Real digits on a larger canvas; the mask is where the digit is. Every sixth picture gets the mask of another one.
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import moso

draw = np.random.default_rng(0)
digits = np.asarray(load_digits().images[:300], dtype=np.float32) / 16
pictures = draw.random((300, 1, 14, 14), dtype=np.float32) * 0.3
masks = np.zeros((300, 14, 14), dtype=np.int64)
for number, (top, left) in enumerate(draw.integers(0, 7, (300, 2))):
    pictures[number, 0, top : top + 8, left : left + 8] += digits[number]
    masks[number, top : top + 8, left : left + 8] = digits[number] > 0.4
wrong = np.arange(300) % 6 == 0
masks[wrong] = np.roll(masks[wrong], 1, axis=0)


def network() -> nn.Module:
    """Two classes per pixel."""
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 3, padding=1))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """One number per picture: the mean over its pixels."""
    images, answers = batch
    return F.cross_entropy(model(images), answers, reduction="none").flatten(1).mean(1)


samples = list(zip(torch.from_numpy(pictures), torch.from_numpy(masks), strict=True))
pruned = moso.prune(
    samples, ratio=0.2, loss=loss, model=network, recipe="table", epochs=20, learning_rate=0.1,
    partitions=2, time_steps=4, augmentation="none",
)  # fmt: skip
found = roc_auc_score(wrong, -pruned.scores)
print(f"wrong masks: AUROC {found:.2f}, {wrong[pruned.kept].mean():.0%} of what is kept ({wrong.mean():.0%} before)")
assert found > 0.9, "wrong masks should have low scores"
