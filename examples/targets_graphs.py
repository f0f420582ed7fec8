"""Ragged samples: a digit as its set of inked pixels, a different number of them in each. Wrong labels are found.

The collate function puts all nodes of a batch in one tensor, beside the number of the sample that each belongs to, as
graph libraries do. Every sixth digit gets another label.
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn

import moso

Graph = tuple[torch.Tensor, int]
Graphs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
data = load_digits()
labels = np.asarray(data.target[:400]).copy()
wrong = np.arange(400) % 6 == 0
labels[wrong] = (labels[wrong] + 1 + np.arange(wrong.sum()) % 9) % 10
graphs: list[Graph] = []
for picture, label in zip(np.asarray(data.images[:400]), labels.tolist(), strict=True):
    places = np.argwhere(picture > 4)
    one_hot = np.eye(64, dtype=np.float32)[places[:, 0] * 8 + places[:, 1]]
    graphs.append((torch.from_numpy(one_hot * (picture[picture > 4] / 16)[:, None]).float(), label))


def collate(items: list[Graph]) -> Graphs:
    """All nodes, the sample of each, and the labels."""
    owner = torch.cat([torch.full((len(nodes),), number) for number, (nodes, _) in enumerate(items)])
    return torch.cat([nodes for nodes, _ in items]), owner, torch.tensor([label for _, label in items])


class SetNetwork(nn.Module):
    """A layer per node, a sum per sample, a layer per sample."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes, self.sample = nn.Linear(64, 32, bias=False), nn.Linear(32, 10)

    def forward(self, nodes: torch.Tensor, owner: torch.Tensor, count: int) -> torch.Tensor:
        """Return logits ``[count, 10]``."""
        summed = torch.zeros(count, 32, dtype=nodes.dtype).index_add(0, owner, self.nodes(nodes))
        logits: torch.Tensor = self.sample(torch.relu(summed))
        return logits


def loss(model: nn.Module, batch: Graphs) -> torch.Tensor:
    """One number per sample."""
    nodes, owner, answers = batch
    return F.cross_entropy(model(nodes, owner, len(answers)), answers, reduction="none")


pruned = moso.prune(
    graphs, ratio=0.2, loss=loss, model=SetNetwork, collate=collate, recipe="table", epochs=20, learning_rate=0.05,
    partitions=2, time_steps=4,
)  # fmt: skip
found = roc_auc_score(wrong, -pruned.scores)
print(f"wrong labels: AUROC {found:.2f}, {wrong[pruned.kept].mean():.0%} of what is kept ({wrong.mean():.0%} before)")
assert found > 0.8, "wrong labels should have low scores"
