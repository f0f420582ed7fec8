"""Factored gradients are those of autograd; what cannot be a network's outputs is refused."""

import numpy as np
import pytest
import torch
from last_layer import given, outputs, written_out

import moso
from moso.selection import Features, Problem
from moso.selection.selectors.by_gradient import factored_gradients
from moso.selection.selectors.by_gradient.factored_gradients import gradients_of
from refusals import refusal

SELECTORS = ["craig", "gradmatch", "glister"]


def problem(labels, features, probabilities):
    rows = {"features": Features(features), "probabilities": Features(probabilities)}
    return Problem(np.zeros(len(labels)), 1, labels, rows)


def test_inner_products_are_those_of_autograds_gradients():
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(7, 4)).astype(np.float32), draw.integers(0, 3, 7)
    layer = torch.nn.Linear(4, 3, bias=False).double()
    rows = []
    for z in range(7):
        layer.zero_grad()
        inputs = torch.from_numpy(features[z : z + 1]).double()
        torch.nn.functional.cross_entropy(layer(inputs), torch.tensor(labels[z : z + 1])).backward()
        rows.append(layer.weight.grad.numpy().ravel().copy())
    with torch.no_grad():
        probabilities = torch.softmax(layer(torch.from_numpy(features).double()), 1).numpy().astype(np.float32)
    found = gradients_of(problem(labels, features, probabilities), "craig")
    rows = np.array(rows)
    assert found.gram() == pytest.approx(rows @ rows.T, rel=1e-5, abs=1e-6)
    assert found.squared_norms == pytest.approx(np.square(rows).sum(axis=1), rel=1e-5)
    far = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert found.distances() == pytest.approx(far, rel=1e-4, abs=1e-6)


def test_an_error_near_zero_keeps_its_precision():
    # float32 rounds 1 - 3e-9 to 1, and p - 1 to nothing.
    probabilities = np.array([[1.0, 1e-9, 2e-9]], dtype=np.float32)
    found = gradients_of(problem(np.array([0]), np.ones((1, 1)), probabilities), "craig")
    assert found.errors[0] == pytest.approx([-3e-9, 1e-9, 2e-9], rel=1e-6)


def test_predicted_labels_are_the_largest_probability():
    labels, features, probabilities = outputs(20)
    found = gradients_of(problem(labels, features, probabilities), "badge", "predicted")
    rows = written_out(probabilities.argmax(axis=1), features, probabilities)
    assert found.gram() == pytest.approx(rows @ rows.T, rel=1e-4, abs=1e-5)


def test_distances_in_chunks_are_distances(monkeypatch):
    one = gradients_of(problem(*outputs(50)), "craig")
    whole = one.distances()
    monkeypatch.setattr(factored_gradients, "CHUNK", 7)
    assert one.distances() == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("selector", SELECTORS)
def test_labels_find_their_columns_by_number_or_by_name(selector):
    labels, features, probabilities = outputs(40)
    kept = moso.select_weighted(None, ratio=0.5, selector=selector, **given(labels, features, probabilities))
    names = np.array(["ant", "bee", "cat"])[labels]
    named = moso.select_weighted(None, ratio=0.5, selector=selector, **given(names, features, probabilities))
    # A class without samples shifts nothing: its column stays its column.
    gap = np.insert(probabilities, 1, 0, axis=1)
    with_gap = moso.select_weighted(
        None, ratio=0.5, selector=selector, **given(np.array([0, 2, 3])[labels], features, gap)
    )
    for other in (named, with_gap):
        assert other.positions.tolist() == kept.positions.tolist()
        assert other.weights == pytest.approx(kept.weights)


@pytest.mark.parametrize("selector", SELECTORS)
def test_what_is_no_network_output_is_refused(selector):
    labels, features, probabilities = outputs(20)
    broken = probabilities.copy()
    broken[7, 1] = np.nan
    with refusal("values-not-finite", "probabilities", 7):
        moso.select(None, ratio=0.5, selector=selector, **given(labels, features, broken))
    logits = np.log(probabilities)
    with refusal("setting-invalid", "no distribution"):
        moso.select(None, ratio=0.5, selector=selector, **given(labels, features, logits))
    with refusal("classes-mismatch", 2, 3):
        moso.select(None, ratio=0.5, selector=selector, **given(labels, features, np.full((20, 2), 0.5)))
    with refusal("values-not-finite", "features", 0):
        moso.select(None, ratio=0.5, selector=selector, **given(labels, np.full((20, 2), np.inf), probabilities))
