"""Networks in which samples take different ways: experts, tasks, masks."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.zoo.problem import Network

WIDTH, LENGTH, CLASSES, EXPERTS = 96, 10, 5, 4
MASKED = -100


class SequenceFirstHead(nn.Module):
    """A tagger whose head sees its tokens position by position: rows of all samples are interleaved."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, length, width]` to logits `[batch, length, classes]`."""
        hidden = torch.tanh(self.body(inputs))
        rows: torch.Tensor = self.head(hidden.transpose(0, 1).reshape(-1, WIDTH))
        return rows.view(inputs.shape[1], inputs.shape[0], CLASSES).transpose(0, 1)


def mean_of_unmasked(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over a sample's unmasked tokens, `[batch]`; zero where all are masked."""
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=MASKED)
    return losses.sum(1) / (targets != MASKED).sum(1).clamp(min=1)


def tagging_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy over unmasked tokens, `[batch]`."""
    return mean_of_unmasked(model(batch[0]), batch[1])


def tagged(count: int) -> list[Any]:
    """Sequences and their tags; a third of the tags is masked, and those of the first three samples all are."""
    inputs, tags = torch.randn(count, LENGTH, WIDTH), torch.randint(0, CLASSES, (count, LENGTH))
    tags[torch.rand(count, LENGTH) < 0.3] = MASKED
    tags[:3] = MASKED
    return list(zip(inputs, tags, strict=True))


class TwoTasks(nn.Module):
    """One body, a classifier of whole sequences and a sequence-first tagger; a sample belongs to one task."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        self.classifier, self.tagger = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits `[batch, classes]` of the one task, `[batch, length, classes]` of the other."""
        hidden = torch.tanh(self.body(inputs))
        rows = self.tagger(hidden.transpose(0, 1).reshape(-1, WIDTH))
        tags = rows.view(inputs.shape[1], inputs.shape[0], CLASSES).transpose(0, 1)
        return self.classifier(hidden.mean(1)), tags


def two_task_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Each sample's loss in its own task, `[batch]`."""
    inputs, task, labels, tags = batch
    whole, tokens = model(inputs)
    return torch.where(task == 0, F.cross_entropy(whole, labels, reduction="none"), mean_of_unmasked(tokens, tags))


def sorted_by_task(count: int) -> list[Any]:
    """Samples of two tasks, all of the first before all of the second."""
    inputs, task = torch.randn(count, LENGTH, WIDTH), (torch.arange(count) >= count // 2).long()
    labels, tags = torch.randint(0, CLASSES, (count,)), torch.randint(0, CLASSES, (count, LENGTH))
    return list(zip(inputs, task, labels, tags, strict=True))


class MixtureOfExperts(nn.Module):
    """Tokens go to their best `top` experts, whose answers are added in place, weighted by the router."""

    def __init__(self, top: int) -> None:
        super().__init__()
        self.top = top
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )
        self.head = nn.Linear(WIDTH, CLASSES)
        with torch.no_grad():  # the first features of a token say where it goes
            self.router.weight.copy_(3 * torch.eye(EXPERTS, WIDTH))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, length, width]` to logits `[batch, classes]`."""
        tokens = inputs.reshape(-1, WIDTH)
        shares, chosen = self.router(tokens).softmax(-1).topk(self.top, dim=-1)
        mixed = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            if len(rows):  # as in transformers: an expert that no token chose is not called
                mixed = mixed.index_add(0, rows, expert(tokens[rows]) * shares[rows, place, None])
        logits: torch.Tensor = self.head((tokens + mixed).view_as(inputs).mean(1))
        return logits


def class_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy `[batch]` of `(inputs, labels)`."""
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def routed_tokens(routes: torch.Tensor) -> list[Any]:
    """Labelled sequences whose tokens prefer the experts `routes: [samples, length]`."""
    count = len(routes)
    inputs = 0.5 * torch.randn(count, LENGTH, WIDTH)
    inputs[..., :EXPERTS] += 2 * F.one_hot(routes, EXPERTS)
    return list(zip(inputs, torch.randint(0, CLASSES, (count,)), strict=True))


def routed(count: int) -> list[Any]:
    """Sequences of tokens for all experts, the first three samples' all for one."""
    routes = torch.randint(0, EXPERTS, (count, LENGTH))
    routes[:3] = 0
    return routed_tokens(routes)


NETWORKS = {
    "masked-tagger": Network("sequence-first head, targets masked with -100", SequenceFirstHead, tagged, tagging_loss),
    "two-tasks": Network("two heads, samples sorted by task", TwoTasks, sorted_by_task, two_task_loss),
    "experts-top1": Network("mixture of experts, top 1", lambda: MixtureOfExperts(1), routed, class_loss),
    "experts-top2": Network("mixture of experts, top 2", lambda: MixtureOfExperts(2), routed, class_loss),
}
