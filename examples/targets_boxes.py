"""Detection: any number of boxes per picture, the loss is a sum over them. Wrong boxes are found.

One to three real digits on a canvas of 3 x 3 cells; a box is (row, column, digit). Targets are ragged, so the collate
function pads them. Every sixth picture gets the boxes of another one.
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import moso

draw = np.random.default_rng(0)
digits, kinds = np.asarray(load_digits().images, dtype=np.float32) / 16, np.asarray(load_digits().target)
Sample = tuple[torch.Tensor, torch.Tensor]
canvases: list[torch.Tensor] = []
boxes: list[torch.Tensor] = []
for _ in range(400):
    canvas, own = np.zeros((1, 24, 24), dtype=np.float32), []
    for cell in draw.choice(9, draw.integers(1, 4), replace=False).tolist():
        chosen = int(draw.integers(len(digits)))
        row, column = divmod(cell, 3)
        canvas[0, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = digits[chosen]
        own.append((row, column, int(kinds[chosen])))
    canvases.append(torch.from_numpy(canvas))
    boxes.append(torch.tensor(own))
wrong = np.arange(400) % 6 == 0
shifted = [boxes[number] for number in np.roll(np.flatnonzero(wrong), 1).tolist()]
for number, other in zip(np.flatnonzero(wrong).tolist(), shifted, strict=True):
    boxes[number] = other


def collate(items: list[Sample]) -> Sample:
    """Pad boxes to the longest list; -1 is no box."""
    longest = max(len(own) for _, own in items)
    padded = [F.pad(own, (0, 0, 0, longest - len(own)), value=-1) for _, own in items]
    return torch.stack([canvas for canvas, _ in items]), torch.stack(padded)


def network() -> nn.Module:
    """Eleven numbers per cell: the digits, and how likely there is one."""
    return nn.Sequential(nn.Conv2d(1, 32, 8, stride=8), nn.ReLU(), nn.Conv2d(32, 11, 1))


def loss(model: nn.Module, batch: Sample) -> torch.Tensor:
    """One number per picture: a sum over its boxes, and one over its cells."""
    images, answers = batch
    logits = model(images)
    there, label = answers[..., 2] >= 0, answers[..., 2].clamp(min=0)
    place = answers[..., 0].clamp(min=0) * 3 + answers[..., 1].clamp(min=0)
    in_boxes = logits.flatten(2).transpose(1, 2).gather(1, place[..., None].expand(-1, -1, 11))
    kind = F.cross_entropy(in_boxes[..., :10].transpose(1, 2), label, reduction="none") * there
    full = torch.zeros(len(images), 9).scatter_add(1, place, there.float()).clamp(max=1)
    cells = F.binary_cross_entropy_with_logits(logits[:, 10].flatten(1), full, reduction="none")
    return kind.sum(1) + cells.sum(1)


samples = list(zip(canvases, boxes, strict=True))
pruned = moso.prune(
    samples, ratio=0.2, loss=loss, model=network, collate=collate, recipe="table", epochs=20, learning_rate=0.05,
    partitions=2, time_steps=4,
)  # fmt: skip
found = roc_auc_score(wrong, -pruned.scores)
print(f"wrong boxes: AUROC {found:.2f}, {wrong[pruned.kept].mean():.0%} of what is kept ({wrong.mean():.0%} before)")
assert found > 0.7, "wrong boxes should have low scores"
