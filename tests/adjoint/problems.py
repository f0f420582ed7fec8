"""Problems small enough to retrain, and a training loop that is nobody's but PyTorch's."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from moso.adjoint import Replay, ReplayRecorder
from moso.data.samples import StoredSamples
from moso.exact.stacked_models import at_precision
from moso.gradients import cross_entropy
from moso.models import build_model
from moso.randomness import hashes, seeded
from moso.tasks.label_noise import add_label_noise
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate
from torch_optimizers import set_rate, torch_optimizer

HARD = {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "clip_norm": 0.5, "schedule": "cosine"}


def digits(count: int, noise: float = 0.1, seed: int = 0) -> TrainingData:
    """Digits with pixels in 0..1 and some wrong labels."""
    loaded = load_digits()
    samples = StoredSamples.from_arrays(loaded.images[:, None].astype(np.float32) / 16, loaded.target)
    samples = samples.take(np.argsort(hashes(samples.keys, seed, "test"))[:count])
    noisy, _ = add_label_noise(samples.labels, samples.keys, 10, noise, seed)
    return TrainingData(samples.relabelled(noisy).evaluation_view(), np.arange(count), samples.keys)


def recipe(**changes) -> TrainingRecipe:
    plain = {"epochs": 3, "batch_size": 1_000, "learning_rate": 0.1, "schedule": "constant", "momentum": 0.0}
    return TrainingRecipe(**{**plain, **changes})


def network(name: str) -> nn.Module:
    if name == "tanh":
        with seeded(0, "test"):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
    if name == "smooth-norm":
        with seeded(0, "test"):
            return nn.Sequential(
                nn.Conv2d(1, 3, 3, stride=2, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 10)
            )
    return build_model(name, (1, 8, 8), classes=10, seed=0)


def recorded(
    name: str | nn.Module, data: TrainingData, how: TrainingRecipe, folder: Path, dtype=torch.float64, **more
) -> Replay:
    """A run of the training loop that can be replayed."""
    start, loss = at_precision(network(name) if isinstance(name, str) else name, cross_entropy, dtype)
    total = how.epochs * data.steps_per_epoch(how.batch_size)
    train(copy.deepcopy(start), StepPlan(data, how, seed=5), loss=loss, callbacks=[ReplayRecorder(folder, total)])
    return Replay(folder, start, data, how, seed=5, total_steps=total, loss=loss, **more)


def trained_with(
    name: str, data: TrainingData, how: TrainingRecipe, weigh: Callable[[np.ndarray], torch.Tensor]
) -> nn.Module:
    """One network in float64, PyTorch's optimiser, the losses of every batch weighed by `weigh(positions)`."""
    model = network(name).double().train()
    optimizer = torch_optimizer(model, how)
    per_epoch, step = data.steps_per_epoch(how.batch_size), 0
    for epoch in range(how.epochs):
        for positions in data.epoch_batches(how.batch_size, epoch, 5):
            step += 1
            set_rate(optimizer, learning_rate(how, step, how.epochs * per_epoch, per_epoch))
            inputs, labels = data.view.batch(positions, epoch)
            losses = F.cross_entropy(model(inputs.double()), labels, reduction="none")
            optimizer.zero_grad()
            (weigh(positions) * losses).sum().backward()
            if how.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), how.clip_norm)
            optimizer.step()
    return model.eval()


def on_the_way_out(position: int, share: float) -> Callable[[np.ndarray], torch.Tensor]:
    """Weights `share` of the way from the mean of a batch to the mean without `position`."""

    def weigh(positions: np.ndarray) -> torch.Tensor:
        count = len(positions)
        whole = torch.full((count,), 1 / count, dtype=torch.float64)
        others = torch.from_numpy((positions != position).astype(np.float64))
        without = others / max(1.0, float(others.sum()))
        return whole + share * (without - whole)

    return weigh


@torch.no_grad()
def risk_of(model: nn.Module, data: TrainingData, positions: np.ndarray) -> float:
    inputs, labels = data.view.batch(positions)
    return F.cross_entropy(model(inputs.double()), labels).item()
