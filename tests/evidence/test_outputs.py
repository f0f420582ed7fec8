"""What a network says, in numbers: each column against its definition, written out sample by sample."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.views import as_view
from moso.evidence.outputs import COLUMNS, capture_outputs, describe, iter_logits
from moso.gradients import cross_entropy
from refusals import refusal


def literal(logits, label, before=None) -> dict[str, float]:
    """Every column of one sample, in plain Python."""
    exponentials = [math.exp(value) for value in logits]
    p = [value / sum(exponentials) for value in exponentials]
    falling = sorted(p, reverse=True)
    others = [value for place, value in enumerate(logits) if place != label]
    change = [one * (math.log(one) - math.log(old)) for one, old in zip(p, before, strict=True)] if before else []
    return {
        "probability": p[label],
        "correct": float(max(range(len(p)), key=lambda place: p[place]) == label),
        "margin": logits[label] - max(others),
        "entropy": -sum(one * math.log(one) for one in p),
        "confidence": falling[0],
        "gap": falling[0] - falling[1],
        "error_norm": math.sqrt(sum((one - (place == label)) ** 2 for place, one in enumerate(p))),
        "kl": sum(change) if before else math.nan,
        "kl_absolute": sum(abs(one) for one in change) if before else math.nan,
    }


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_columns_are_their_definitions(classes):
    draw = np.random.default_rng(classes)
    logits, earlier = draw.normal(size=(2, 20, classes)) * 3
    labels = draw.integers(classes, size=20)
    before = np.exp(earlier) / np.exp(earlier).sum(axis=1, keepdims=True)
    found = describe(logits, labels, COLUMNS, np.log(before))
    alone = describe(logits, labels, COLUMNS)
    for place in range(20):
        expected = literal(logits[place].tolist(), int(labels[place]), before[place].tolist())
        for name, value in expected.items():
            assert found[name][place] == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert math.isnan(alone["kl"][place])


def test_huge_logits_stay_finite():
    found = describe(np.array([[1e4, -1e4, 0.0]]), np.array([1]), set(COLUMNS) - {"kl", "kl_absolute"})
    assert all(np.isfinite(values).all() for values in found.values())
    assert found["error_norm"][0] == pytest.approx(math.sqrt(2))


def test_the_first_call_of_the_right_shape_counts_and_trials_in_another_mode_do_not():
    model = nn.Linear(2, 3)
    first, second = torch.ones(4, 2), torch.zeros(4, 2)
    with capture_outputs(model) as seen:
        model.eval()
        model(second)
        model.train()
        model(torch.ones(2, 2))
        expected = model(first)
        model(second)
        np.testing.assert_allclose(seen.logits(4, 3), expected.detach().numpy(), rtol=1e-6)
        with refusal("model-unsuitable", 4):
            seen.logits(4, 3)
    model(first)
    assert not seen.calls


@pytest.mark.parametrize("wrap", [lambda z: {"logits": z}, lambda z: SimpleNamespace(logits=z), lambda z: (z, None)])
def test_logits_are_found_in_what_other_libraries_return(wrap):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 3)

        def forward(self, inputs):
            return wrap(self.layer(inputs))

    model = Wrapped()
    with capture_outputs(model) as seen:
        model(torch.zeros(4, 2))
        assert seen.logits(4, 3).shape == (4, 3)


def test_numbers_in_place_of_classes_get_one_clear_sentence():
    model = nn.Linear(2, 1)
    with capture_outputs(model) as seen:
        model(torch.zeros(4, 2))
        with refusal("model-unsuitable", "(4, 1)", 4, "(4, 3)"):
            seen.logits(4, 3)


def test_looking_leaves_modes_and_hooks_as_they_were_and_sees_evaluation_mode():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    model[1].eval()
    inputs = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    view = as_view((inputs, np.zeros(600, dtype=int)))
    parts = list(iter_logits(model, cross_entropy, view, np.arange(600)[::-1], 3))
    assert [len(positions) for positions, _ in parts] == [200, 200, 200]
    positions = np.concatenate([one for one, _ in parts])
    logits = np.concatenate([rows for _, rows in parts])
    expected = model[0](torch.from_numpy(inputs[positions])).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    assert model.training
    assert not model[1].training
    assert not model._forward_hooks
