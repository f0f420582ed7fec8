"""Layers that people write themselves: bare matrix products, einsum, bilinear forms, parametrizations, Fourier."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from benchmarks.zoo.problem import Network
from benchmarks.zoo.routed import class_loss

FEATURES, WIDTH, CLASSES, LENGTH, HEADS = 64, 192, 5, 16, 4
WORDS = 300


def weight(*shape: int) -> nn.Parameter:
    """Random weights of a size that keeps activations at theirs."""
    return nn.Parameter(torch.randn(shape) / math.sqrt(shape[0]))


class BareMatrices(nn.Module):
    """A network without layers: `x @ W`, `torch.matmul`, `torch.addmm` and einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_bias = weight(FEATURES, WIDTH), weight(WIDTH)
        self.second, self.third, self.third_bias = weight(WIDTH, WIDTH), weight(WIDTH, WIDTH), weight(WIDTH)
        self.head = weight(CLASSES, WIDTH)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, features]` to logits `[batch, classes]`."""
        hidden = torch.tanh(inputs @ self.first + self.first_bias)
        hidden = torch.tanh(torch.matmul(hidden, self.second))
        hidden = torch.tanh(torch.addmm(self.third_bias, hidden, self.third))
        return torch.einsum("bi,ci->bc", hidden, self.head)


class EinsumAttention(nn.Module):
    """Attention in the notation of its papers: one weight for all heads, `[width, heads, each]`."""

    def __init__(self) -> None:
        super().__init__()
        each = WIDTH // HEADS
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.query, self.key, self.value = (weight(WIDTH, HEADS, each) for _ in range(3))
        self.out = nn.Parameter(torch.randn(HEADS, each, WIDTH) / math.sqrt(WIDTH))
        self.head = weight(WIDTH, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, length, features]` to logits `[batch, classes]`."""
        hidden = self.embed(inputs)
        query, key, value = (torch.einsum("bld,dhk->bhlk", hidden, each) for each in (self.query, self.key, self.value))
        shares = torch.einsum("bhlk,bhmk->bhlm", query, key).div(math.sqrt(WIDTH // HEADS)).softmax(-1)
        mixed = torch.einsum("bhlm,bhmk->bhlk", shares, value)
        hidden = hidden + torch.einsum("bhlk,hkd->bld", mixed, self.out)
        return torch.einsum("bd,dc->bc", hidden.mean(1), self.head)


class Bilinear(nn.Module):
    """Two views of a sample meet in `nn.Bilinear`."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(FEATURES, 16), nn.Linear(FEATURES, 12)
        self.both, self.head = nn.Bilinear(16, 12, 48), nn.Linear(48, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, features]` to logits `[batch, classes]`."""
        met = self.both(torch.tanh(self.left(inputs)), torch.tanh(self.right(inputs)))
        logits: torch.Tensor = self.head(torch.tanh(met))
        return logits


def parametrized(kind: Callable[[nn.Module], nn.Module], width: int = WIDTH) -> Callable[[], nn.Module]:
    """A maker of two layers whose weights are functions of other parameters."""
    return lambda: nn.Sequential(
        kind(nn.Linear(FEATURES, width)),
        nn.Tanh(),
        kind(nn.Linear(width, width)),
        nn.Tanh(),
        nn.Linear(width, CLASSES),
    )


class TiedAutoencoder(nn.Module):
    """The decoder's weight is the encoder's, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(FEATURES, WIDTH)
        self.bias = nn.Parameter(torch.zeros(FEATURES))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, features]` to the same."""
        return F.linear(torch.tanh(self.encoder(inputs)), self.encoder.weight.t(), self.bias)


def reconstruction_loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Mean squared error of a sample, `[batch]`."""
    outputs: torch.Tensor = model(batch)
    return (outputs - batch).square().mean(1)


class TiedDecoder(nn.Module):
    """Predicts each next word by the embedding that it reads words with, after `LENGTH` learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.mix, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """`[batch, length]` to logits `[batch, length, words]`."""
        hidden = self.words(words) + self.positions(torch.arange(words.shape[1]))
        so_far = hidden.cumsum(1) / torch.arange(1, words.shape[1] + 1)[:, None].to(hidden)
        return F.linear(self.norm(torch.tanh(self.mix(so_far))), self.words.weight)


def next_word_loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of all next words of a sample, averaged, `[batch]`."""
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="none").mean(1)


class FourierLayer(nn.Module):
    """Multiplies the lowest frequencies of a signal by complex weights `[inputs, outputs, modes]`."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width)
        self.local = nn.Conv1d(width, width, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, width, points]` to the same."""
        spectrum = torch.fft.rfft(inputs)
        low = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        padded = F.pad(low, (0, spectrum.shape[-1] - self.modes))
        outputs: torch.Tensor = torch.fft.irfft(padded, n=inputs.shape[-1]) + self.local(inputs)
        return outputs


class FourierOperator(nn.Module):
    """A one-dimensional Fourier neural operator: from one function to another."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.project = nn.Conv1d(1, 32, 1), nn.Conv1d(32, 1, 1)
        self.layers = nn.ModuleList(FourierLayer(32, 12) for _ in range(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, 1, points]` to the same."""
        hidden = self.lift(inputs)
        for layer in self.layers:
            hidden = F.gelu(layer(hidden))
        outputs: torch.Tensor = self.project(hidden)
        return outputs


def operator_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Mean squared error over a function's points, `[batch]`."""
    inputs, targets = batch
    return F.mse_loss(model(inputs), targets, reduction="none").mean((1, 2))


def functions(count: int) -> list[Any]:
    """Random signals of 64 points and what smoothing makes of them."""
    signals = torch.randn(count, 1, 64)
    return list(zip(signals, F.avg_pool1d(signals, 5, 1, 2), strict=True))


def vectors(count: int) -> list[Any]:
    """Labelled vectors."""
    return list(zip(torch.randn(count, FEATURES), torch.randint(0, CLASSES, (count,)), strict=True))


def sequences(count: int) -> list[Any]:
    """Labelled sequences of vectors."""
    return list(zip(torch.randn(count, LENGTH, FEATURES), torch.randint(0, CLASSES, (count,)), strict=True))


NETWORKS = {
    "bare-matrices": Network("x @ W, matmul, addmm, einsum", BareMatrices, vectors, class_loss),
    "einsum-attention": Network("attention by einsum", EinsumAttention, sequences, class_loss),
    "bilinear": Network("F.bilinear", Bilinear, vectors, class_loss),
    "weight-norm": Network("weight norm", parametrized(parametrizations.weight_norm), vectors, class_loss),
    "spectral-norm": Network("spectral norm", parametrized(parametrizations.spectral_norm), vectors, class_loss),
    "orthogonal": Network("orthogonal weights", parametrized(parametrizations.orthogonal, 64), vectors, class_loss),
    "tied-autoencoder": Network(
        "decoder of the encoder's weight, transposed",
        TiedAutoencoder,
        lambda count: list(torch.randn(count, FEATURES)),
        reconstruction_loss,
    ),
    "tied-decoder": Network(
        "language model with tied embeddings",
        TiedDecoder,
        lambda count: list(torch.randint(0, WORDS, (count, LENGTH + 1))),
        next_word_loss,
    ),
    "fourier": Network("Fourier neural operator, complex weights", FourierOperator, functions, operator_loss),
}
