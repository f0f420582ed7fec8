"""Laws of per-token scores: they sum to the sample's, and each is the product with its own token's gradient."""

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.gradients import Point
from moso.gradients.fallback import gradients_of_one
from moso.models import Start, build_model
from refusals import refusal
from tests.models.small_language_models import LENGTH, VOCABULARY, rows, written_config

SAMPLES = 8


@pytest.fixture(params=["gpt2", "llama", "lora"])
def tuned(request, tmp_path):
    kind, train = ("llama", "lora:2") if request.param == "lora" else (request.param, "all")
    model = build_model(
        written_config(tmp_path, kind), (LENGTH,), (LENGTH, VOCABULARY), 0, vocabulary=VOCABULARY,
        start=Start(train=train), task="causal-lm",
    ).double()  # fmt: skip
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    data = torch.utils.data.TensorDataset(*rows(SAMPLES))
    model.eval()
    checkpoints = []
    for _ in range(2):
        optimizer.zero_grad()
        moso.next_token_loss(model, data.tensors).mean().backward()
        optimizer.step()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        checkpoints.append((state, 1e-2, moso.optimizer_moments(model, optimizer)))
    return model, data, checkpoints


@pytest.mark.parametrize("aware", [False, True])
def test_token_scores_sum_to_the_score_of_their_sample(tuned, aware):
    model, data, checkpoints = tuned
    whole = moso.score(
        model, data, checkpoints, loss=moso.next_token_loss, total_steps=50, optimizer_aware=aware
    )  # fmt: skip
    found = moso.token_scores(model, data, checkpoints, [5, 0], total_steps=50, optimizer_aware=aware)
    np.testing.assert_allclose([one.scores.sum() for one in found], whole[[5, 0]], rtol=1e-6)


def test_token_products_with_a_target_sum_to_the_product_of_their_sample(tuned):
    model, data, checkpoints = tuned
    risk = moso.SampleRisk.of(data, [1, 2], loss=moso.next_token_loss)
    whole = moso.score(model, data, checkpoints, loss=moso.next_token_loss, risk=risk)
    [found] = moso.token_scores(model, data, checkpoints, [3], risk=risk)
    np.testing.assert_allclose(found.scores.sum(), whole[3], rtol=1e-6)


def test_each_token_is_the_product_with_the_gradient_of_its_own_loss(tuned):
    model, data, checkpoints = tuned
    [found] = moso.token_scores(model, data, checkpoints[-1:], [4])
    point = Point.of(model, moso.next_token_loss)
    every = [gradients_of_one(point, tuple(one[n : n + 1] for one in data.tensors))[1] for n in range(SAMPLES)]
    mean = {name: torch.stack([one[name] for one in every]).mean(0) for name in point.trained}
    ids, labels = (one[4:5] for one in data.tensors)
    expected = []
    for place in found.places:
        leaves = {name: value.clone().requires_grad_() for name, value in point.trained.items()}
        logits = torch.func.functional_call(model, leaves, (ids,))
        loss = nn.functional.cross_entropy(logits[0, place - 1], labels[0, place]) / len(found.places)
        parts = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        own = dict(zip(leaves, parts, strict=True))
        expected.append(sum(float((mean[name] * own[name]).sum()) for name in own if own[name] is not None))
    np.testing.assert_allclose(found.dot[0], expected, rtol=1e-7, atol=1e-12)
    assert found.tokens.tolist() == labels[0, torch.from_numpy(found.places)].tolist()


def test_samples_that_are_not_there_or_predict_nothing_are_refused(tuned):
    model, data, checkpoints = tuned
    with refusal("sample-unknown", 99):
        moso.token_scores(model, data, checkpoints, [99])
    ids, labels = data.tensors
    nothing = torch.utils.data.TensorDataset(ids, torch.where(torch.arange(SAMPLES)[:, None] == 2, -100, labels))
    with refusal("data-empty", "sample 2"):
        moso.token_scores(model, nothing, checkpoints, [2])
