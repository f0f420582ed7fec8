"""Recurrent networks, over sequences of one length and over packed ones."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from benchmarks.zoo.problem import Network
from benchmarks.zoo.routed import class_loss

FEATURES, WIDTH, LENGTH, CLASSES = 16, 64, 12, 5


class Recurrent(nn.Module):
    """Two bidirectional layers, and a classifier of the mean over time."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.layers = kind(FEATURES, WIDTH, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, length, features]` to logits `[batch, classes]`."""
        logits: torch.Tensor = self.head(self.layers(inputs)[0].mean(1))
        return logits


class Packed(nn.Module):
    """An LSTM over sequences of different lengths, classified by its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Padded `[batch, length, features]` and lengths `[batch]` to logits `[batch, classes]`."""
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        logits: torch.Tensor = self.head(self.lstm(packed)[1][0][-1])
        return logits


def packed_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross-entropy `[batch]`."""
    inputs, lengths, labels = batch
    return nn.functional.cross_entropy(model(inputs, lengths), labels, reduction="none")


def padded(items: list[Any]) -> Any:
    """Sequences padded to the longest of the batch, their lengths and labels."""
    inputs, labels = zip(*items, strict=True)
    lengths = torch.tensor([len(one) for one in inputs])
    return pad_sequence(list(inputs), batch_first=True), lengths, torch.stack(labels)


def sequences(count: int) -> list[Any]:
    """Labelled sequences of one length."""
    return list(zip(torch.randn(count, LENGTH, FEATURES), torch.randint(0, CLASSES, (count,)), strict=True))


def ragged_sequences(count: int) -> list[Any]:
    """Labelled sequences of 3 to 12 steps, in no order of length."""
    return [
        (torch.randn(int(torch.randint(3, LENGTH + 1, ())), FEATURES), torch.randint(0, CLASSES, ()))
        for _ in range(count)
    ]


def recurrent(kind: Callable[..., nn.Module]) -> Callable[[], nn.Module]:
    """A maker of a network of this kind of layer."""
    return lambda: Recurrent(kind)


NETWORKS = {
    "lstm": Network("LSTM, bidirectional, two layers", recurrent(nn.LSTM), sequences, class_loss),
    "gru": Network("GRU, bidirectional, two layers", recurrent(nn.GRU), sequences, class_loss),
    "rnn": Network("plain RNN, bidirectional, two layers", recurrent(nn.RNN), sequences, class_loss),
    "packed-lstm": Network("packed LSTM, lengths unsorted", Packed, ragged_sequences, packed_loss, padded),
}
