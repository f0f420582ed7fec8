"""Networks of graphs, bags and sets: samples of different sizes lie one behind the other in a batch."""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.zoo.problem import Network

FEATURES, WIDTH, CLASSES, WORDS = 16, 128, 4, 500


@dataclass(frozen=True)
class GraphBatch:
    """Several graphs as one, as PyTorch Geometric collates them; it can be neither sliced nor counted by its length.

    Args:
        x: Features of all nodes, `[nodes, features]`.
        edge_index: From which node to which an edge goes, `[2, edges]`.
        batch: The graph of each node, `[nodes]`.
        y: The label of each graph, `[graphs]`.
    """

    x: torch.Tensor
    edge_index: torch.Tensor
    batch: torch.Tensor
    y: torch.Tensor

    def to(self, device: torch.device) -> "GraphBatch":
        """The same on a device, as PyTorch Geometric's batches have it."""
        parts = {name: getattr(self, name).to(device) for name in ("x", "edge_index", "batch", "y")}
        return replace(self, **parts)


class GraphNetwork(nn.Module):
    """Two rounds of messages, summed over neighbours, and the mean over a graph's nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.neighbours = nn.ModuleList([nn.Linear(FEATURES, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, graphs: GraphBatch) -> torch.Tensor:
        """Logits `[graphs, classes]`."""
        hidden, (source, target) = graphs.x, graphs.edge_index
        for own, neighbours in zip(self.own, self.neighbours, strict=True):
            messages = neighbours(hidden)[source]
            received = torch.zeros(len(hidden), WIDTH, dtype=hidden.dtype).index_add(0, target, messages)
            hidden = torch.tanh(own(hidden) + received)
        sums = torch.zeros(len(graphs.y), WIDTH, dtype=hidden.dtype).index_add(0, graphs.batch, hidden)
        logits: torch.Tensor = self.head(sums / torch.bincount(graphs.batch, minlength=len(graphs.y))[:, None])
        return logits


def graph_loss(model: nn.Module, graphs: GraphBatch) -> torch.Tensor:
    """Cross-entropy `[graphs]`."""
    return F.cross_entropy(model(graphs), graphs.y, reduction="none")


def graphs(count: int) -> list[Any]:
    """Random graphs of 4 to 9 nodes with a few edges per node, as dictionaries."""
    items = []
    for _ in range(count):
        nodes = int(torch.randint(4, 10, ()))
        edges = torch.randint(0, nodes, (2, 3 * nodes))
        items.append({"x": torch.randn(nodes, FEATURES), "edge_index": edges, "y": torch.randint(0, CLASSES, ())})
    return items


def as_one_graph(items: list[Any]) -> GraphBatch:
    """Graphs one behind the other, edges counted on."""
    sizes = torch.tensor([len(item["x"]) for item in items])
    starts = (sizes.cumsum(0) - sizes).tolist()
    return GraphBatch(
        torch.cat([item["x"] for item in items]),
        torch.cat([item["edge_index"] + start for item, start in zip(items, starts, strict=True)], dim=1),
        torch.repeat_interleave(torch.arange(len(items)), sizes),
        torch.stack([item["y"] for item in items]),
    )


class Bags(nn.Module):
    """The mean of a fixed number of words, or the sum of any number of them, classified."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, WIDTH, mode=mode)
        self.hidden, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """Words `[batch, length]`, or all in a row with `offsets: [batch]`, to logits `[batch, classes]`."""
        logits: torch.Tensor = self.head(torch.tanh(self.hidden(self.bag(words, offsets))))
        return logits


def bag_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy `[batch]`; the last part of a batch is its labels."""
    return F.cross_entropy(model(*batch[:-1]), batch[-1], reduction="none")


def fixed_bags(count: int) -> list[Any]:
    """Labelled bags of 7 words."""
    return list(zip(torch.randint(0, WORDS, (count, 7)), torch.randint(0, CLASSES, (count,)), strict=True))


def ragged_bags(count: int) -> list[Any]:
    """Labelled bags of 2 to 9 words."""
    return [
        (torch.randint(0, WORDS, (int(torch.randint(2, 10, ())),)), torch.randint(0, CLASSES, ())) for _ in range(count)
    ]


def in_a_row(items: list[Any]) -> Any:
    """All bags in a row, where each begins, and labels."""
    bags, labels = zip(*items, strict=True)
    sizes = torch.tensor([len(bag) for bag in bags])
    return torch.cat(bags), sizes.cumsum(0) - sizes, torch.stack(labels)


class DeepSets(nn.Module):
    """Members of sets, all in a row, one by one; the sum of a set's members; a classifier of the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.member = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, members: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """Members `[all, features]` and sizes `[batch]` to logits `[batch, classes]`."""
        owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        hidden = self.member(members)
        sums = torch.zeros(len(sizes), WIDTH, dtype=hidden.dtype).index_add(0, owner, hidden)
        logits: torch.Tensor = self.head(sums)
        return logits


def ragged_sets(count: int) -> list[Any]:
    """Labelled sets of 2 to 9 members."""
    return [(torch.randn(int(torch.randint(2, 10, ())), FEATURES), torch.randint(0, CLASSES, ())) for _ in range(count)]


def with_sizes(items: list[Any]) -> Any:
    """All members in a row, the size of each set, and labels."""
    members, labels = zip(*items, strict=True)
    return torch.cat(members), torch.tensor([len(one) for one in members]), torch.stack(labels)


NETWORKS = {
    "graph": Network("graph network, PyG-style batches", GraphNetwork, graphs, graph_loss, as_one_graph),
    "embedding-bag": Network("EmbeddingBag, mean, bags of one size", lambda: Bags("mean"), fixed_bags, bag_loss),
    "embedding-bag-offsets": Network(
        "EmbeddingBag, sum, offsets", lambda: Bags("sum"), ragged_bags, bag_loss, in_a_row
    ),
    "deep-sets": Network("DeepSets, ragged", DeepSets, ragged_sets, bag_loss, with_sizes),
}
