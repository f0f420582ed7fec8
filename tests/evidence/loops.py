"""One small training problem, and the plain loop that every other loop is held against."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler

import moso

EPOCHS, BATCH = 2, 4
INPUTS = torch.randn(24, 3, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(24) % 2
DATA = torch.utils.data.TensorDataset(INPUTS, LABELS)
ITEMS = [{"inputs": one, "labels": int(label)} for one, label in zip(INPUTS, LABELS, strict=True)]

# The frameworks sum losses and batches in their own order.
TOLERANCE = 1e-6
# Before training, or in the framework's own hook that comes after the scheduler.
WAYS = ["attach", "step"]

# From the optimiser and the number of updates to a scheduler; the last is stepped once per epoch.
SCHEDULES = {
    "warm-up": lambda optimizer, updates: lr_scheduler.LambdaLR(optimizer, lambda n: n / 3 if n < 3 else 1 / n),
    "one-cycle": lambda optimizer, updates: lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=updates + 1),
    "per-epoch": lambda optimizer, updates: lr_scheduler.StepLR(optimizer, 1, gamma=0.5),
}


class Network(nn.Module):
    """Two layers and batch-norm; given labels, the loss comes too, as `transformers.Trainer` wants it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh())
        self.head = nn.Linear(4, 2)

    def forward(self, inputs, labels=None):
        outputs = self.head(self.body(inputs))
        if labels is None:
            return outputs
        return {"loss": nn.functional.cross_entropy(outputs, labels), "logits": outputs}


@dataclass(frozen=True)
class Setting:
    """How a loop trains."""

    schedule: str = "warm-up"
    accumulate: int = 1
    groups: bool = False
    bfloat16: bool = False

    @property
    def updates(self) -> int:
        return EPOCHS * len(DATA) // BATCH // self.accumulate

    @property
    def per_epoch(self) -> bool:
        return self.schedule == "per-epoch"

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        if not self.groups:
            return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        groups = [{"params": model.body.parameters(), "lr": 0.05}, {"params": model.head.parameters()}]
        return torch.optim.AdamW(groups, lr=0.02)

    def scheduler(self, optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
        return SCHEDULES[self.schedule](optimizer, self.updates)


SETTINGS = [
    Setting(),
    Setting("one-cycle", groups=True),
    Setting("per-epoch", accumulate=2),
    Setting("warm-up", accumulate=3, groups=True, bfloat16=True),
]


@dataclass(frozen=True)
class Update:
    """What an update left, and the rate of each parameter."""

    rates: dict[str, float]
    state: dict[str, torch.Tensor]


def rates_now(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(one)]: float(group["lr"]) for group in optimizer.param_groups for one in group["params"]}


def state_now(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def plain_loop(
    setting: Setting,
    *,
    before: Callable[[nn.Module, torch.optim.Optimizer], object] = lambda model, optimizer: None,
    after_scheduler: Callable[[nn.Module, torch.optim.Optimizer], object] = lambda model, optimizer: None,
) -> list[Update]:
    """Train, and note the rates before each update and the state after it."""
    model = Network()
    optimizer = setting.optimizer(model)
    scheduler = setting.scheduler(optimizer)
    before(model, optimizer)
    updates = []
    for _ in range(EPOCHS):
        for number, (inputs, labels) in enumerate(batches(), 1):
            with torch.autocast("cpu", torch.bfloat16, enabled=setting.bfloat16):
                loss = nn.functional.cross_entropy(model(inputs), labels)
            (loss / setting.accumulate).backward()
            if number % setting.accumulate:
                continue
            rates = rates_now(model, optimizer)
            optimizer.step()
            updates.append(Update(rates, state_now(model)))
            if not setting.per_epoch:
                scheduler.step()
            after_scheduler(model, optimizer)
            optimizer.zero_grad()
        if setting.per_epoch:
            scheduler.step()
    return updates


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield from zip(INPUTS.split(BATCH), LABELS.split(BATCH), strict=True)


def rates_of(point) -> dict[str, float]:
    pairs = zip(point.learning_rates, point.groups, strict=True)
    return {name: rate for rate, names in pairs for name in names}


def check_same(trajectory: moso.Trajectory, updates: list[Update], *, prefix: str = "", tolerance: float = 0) -> None:
    """Every update was recorded, with its own rates and with the state it left."""
    assert [point.step for point in trajectory] == list(range(1, len(updates) + 1))
    for point, update in zip(trajectory, updates, strict=True):
        assert rates_of(point) == {prefix + name: rate for name, rate in update.rates.items()}
        state = point.state()
        assert state.keys() == {prefix + name for name in update.state}
        for name, value in update.state.items():
            torch.testing.assert_close(state[prefix + name], value, rtol=tolerance, atol=tolerance)


def every_step(folder, updates: int, **options) -> moso.Recorder:
    return moso.Recorder(folder, total_steps=updates, samples=updates, **options)


def brute_force(model: nn.Module, points, inputs: torch.Tensor, labels: torch.Tensor, total_steps: int) -> np.ndarray:
    """Proposition 1.1 by plain autograd, batches of one; `points` are `(state, rate per parameter name)`."""
    scores = torch.zeros(len(inputs), dtype=torch.float64)
    before, count = state_now(model), len(inputs)
    model.eval()
    for state, rates in points:
        model.load_state_dict(state)
        chosen = [parameter for name, parameter in model.named_parameters() if name in rates]
        each = [
            torch.autograd.grad(nn.functional.cross_entropy(model(inputs[i : i + 1]), labels[i : i + 1]), chosen)
            for i in range(count)
        ]
        for number, name in enumerate(name for name, _ in model.named_parameters() if name in rates):
            gradients = torch.stack([one[number].flatten() for one in each])
            agreement = count * gradients @ gradients.mean(0) - gradients.square().sum(1)
            scores += rates[name] * agreement / (count - 1)
    model.load_state_dict(before)
    return (scores * total_steps / count / len(points)).numpy()
