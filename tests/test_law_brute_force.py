"""The score against the formula itself, one sample at a time in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moso.data.views import as_view
from moso.evidence import PartitionTerms, Trajectory, step_terms
from moso.scores import moso_score


def brute_force(model: nn.Module, inputs, labels, trajectory: Trajectory, form: str = "paper") -> np.ndarray:
    """Proposition 1.1 read aloud: for each z, the mean gradient of the others times its own."""
    model = model.double().eval()
    inputs = inputs.double()
    N, T, K = len(labels), trajectory.total_steps, len(trajectory)
    total = np.zeros(N)
    for point in trajectory:
        model.load_state_dict({name: value.double() for name, value in point.state().items()})
        gradients = []
        for z in range(N):
            loss = F.cross_entropy(model(inputs[z : z + 1]), labels[z : z + 1])
            parts = torch.autograd.grad(loss, list(model.parameters()))
            gradients.append(torch.cat([part.flatten() for part in parts]))
        stacked = torch.stack(gradients)
        for z in range(N):
            others = stacked[torch.arange(N) != z].mean(0)
            value = others @ stacked[z]
            if form == "centred":
                value = value - others @ stacked.mean(0)
            total[z] += point.learning_rate * float(value)
    return total / K * (T / N if form == "paper" else T / (N - 1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10)
    )


def problem(build, steps: int = 3, count: int = 40):
    """Digits-shaped data and a short real training run of `build()`, kept step by step."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(count, 1, 8, 8), torch.randint(0, 10, (count,))
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    states = []
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        states.append(({name: value.clone() for name, value in model.state_dict().items()}, 0.1))
    return model, inputs, labels, Trajectory.from_states(states, total_steps=17)


@pytest.mark.parametrize("build", [mlp, convnet])
@pytest.mark.parametrize("form", ["paper", "centred"])
def test_score_equals_brute_force_in_float64(build, form):
    model, inputs, labels, trajectory = problem(build)
    view = as_view((inputs.numpy(), labels.numpy()))
    steps = [step_terms(model, point, view, np.arange(len(labels)), batch_size=16) for point in trajectory]
    scores = moso_score(PartitionTerms(trajectory.total_steps, steps), form)
    expected = brute_force(build(), inputs, labels, trajectory, form)
    assert np.abs(scores - expected).max() <= 1e-4 * np.abs(expected).max()
