"""What docs/noise.md states is what simulations and brute force say."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.noise import simulation
from benchmarks.noise.formulas import Gaussian, keeps_order, late_gap, pair, symmetric

SMALL = Gaussian(classes=10, width=40, length=2.0, spread=1.0)


def gradient(model: nn.Module, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    loss = -(targets * F.log_softmax(model(rows), dim=1)).sum(1).mean()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8, 1.0])
def test_symmetric_noise_leaves_one_minus_rate_of_the_gradient_and_a_part_without_labels(rate):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    rows, labels = torch.randn(30, 5).double(), torch.arange(30) % 4
    clean = F.one_hot(labels, 4).double()
    # The expectation over the draw of labels, label by label.
    expected = sum(
        gradient(model, rows, F.one_hot(torch.full((30,), label), 4).double()) * rate / 4 for label in range(4)
    ) + (1 - rate) * gradient(model, rows, clean)
    found = (1 - rate) * gradient(model, rows, clean) + rate * gradient(model, rows, torch.full((30, 4), 0.25).double())
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    # The second part is the gradient towards equal predictions; it is zero where they are equal.
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    assert float(gradient(model, rows, torch.full((30, 4), 0.25).double()).abs().max()) < 1e-15


def test_a_score_is_the_rise_of_the_labels_logit_less_the_mean_predicted_rise():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    rows, labels = torch.randn(9, 3).double(), torch.arange(9) % 4
    mean = gradient(model, rows, F.one_hot(labels, 4).double())
    parameters = dict(model.named_parameters())
    parts = dict(zip(parameters, mean.split([one.numel() for one in parameters.values()]), strict=True))
    direction = {name: -parts[name].view_as(value) for name, value in parameters.items()}
    logits, rise = torch.func.jvp(
        lambda given: torch.func.functional_call(model, given, (rows,)), (parameters,), (direction,)
    )
    expected = [mean @ gradient(model, rows[[one]], F.one_hot(labels[[one]], 4).double()) for one in range(len(rows))]
    found = rise[range(9), labels] - (torch.softmax(logits, 1) * rise).sum(1)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kind", "rate"), [(symmetric, 0.2), (symmetric, 0.8), (pair, 0.2), (pair, 0.4), (pair, 0.6)])
def test_gap_and_spread_of_early_scores_are_those_of_simulations(kind, rate):
    transition, samples, label = kind(rate, 10), 4_000, 3
    other = 2  # the class that pair noise takes for class 3
    right, wrong, spreads = [], [], []
    for seed in range(6):
        rows, classes, labels = simulation.drawn(SMALL, transition, samples, seed)
        scores = simulation.early_scores(rows, labels)
        some = labels.argmax(1) == label
        right.append(scores[some & (classes == label)].mean())
        wrong.append(scores[some & (classes == other)].mean())
        spreads.append(scores[some & (classes == label)].var())
    gap, variance = SMALL.early_gap(transition, label, other), sum(SMALL.early_variance(transition, label, samples))
    # Means of a few hundred normal numbers over six draws.
    error = np.sqrt(variance * (1 / 1_000 + 1 / 150))
    assert abs(np.mean(right) - np.mean(wrong) - gap) < 4 * error
    assert abs(np.mean(spreads) / variance - 1) < 0.15


@pytest.mark.parametrize(
    ("kind", "rate", "samples"),
    [(symmetric, 0.2, 1_000), (symmetric, 0.5, 1_000), (symmetric, 0.8, 1_000), (symmetric, 0.8, 8_000),
     (pair, 0.2, 2_000), (pair, 0.4, 2_000), (pair, 0.6, 2_000)],
)  # fmt: skip
def test_early_order_is_that_of_simulations(kind, rate, samples):
    transition = kind(rate, 10)
    found = np.mean([simulation.early_auroc(SMALL, transition, samples, seed) for seed in range(4)])
    assert abs(found - SMALL.early_auroc(transition, 3, samples)) < 0.03


@pytest.mark.parametrize(
    ("transition", "expected"),
    [(symmetric(0.99, 10), True), (symmetric(1.0, 10), False), (pair(0.49, 10), True), (pair(0.51, 10), False)],
)
def test_order_survives_as_long_as_the_right_label_is_the_most_likely_one(transition, expected):
    assert keeps_order(transition) is expected
    assert (min(SMALL.early_gap(transition, 3, other) for other in range(10) if other != 3) > 1e-12) is expected


@pytest.mark.parametrize("transition", [symmetric(0.2, 10), symmetric(0.8, 10), pair(0.4, 10) * 0.99 + 0.001])
def test_late_gap_is_that_of_the_fitted_optimum_and_its_mean_gradient_is_minus_the_decay(transition):
    decay = 1e-6
    logits = simulation.fitted_logits(transition, decay)
    for label in range(10):
        for other in (2, 4, 9):
            if label != other:
                assert abs(logits[label, label] - logits[label, other] - late_gap(transition, label, other)) < 0.02
    predicted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(predicted - transition, -decay * logits, atol=1e-9)
