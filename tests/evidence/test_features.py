"""Features and out-of-sample predictions: the network's own, in evaluation mode, in data set order."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.views import ItemView, as_view
from moso.evidence import class_errors, read_features, read_out_of_sample, write_features, write_out_of_sample
from moso.evidence.predictions import out_of_sample_path
from moso.files import read_record
from moso.gradients import cross_entropy
from moso.models import build_model
from refusals import refusal

COUNT = 300
INPUTS = np.random.default_rng(0).normal(size=(COUNT, 4)).astype(np.float32)
LABELS = np.arange(COUNT) % 3


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))


def test_features_are_what_the_classifier_is_given(tmp_path):
    model, path = network(), tmp_path / "features" / "reference-00.npy"
    write_features(path, model, as_view((INPUTS, LABELS)), COUNT, loss=cross_entropy, network="mine")
    expected = model[1](model[0](torch.from_numpy(INPUTS))).detach().numpy()
    np.testing.assert_allclose(read_features(path), expected, rtol=1e-5, atol=1e-6)
    note = read_record(path.with_suffix(".json"))
    assert note == {"format": 1, "samples": COUNT, "width": 6, "layer": "3", "network": "mine"}
    assert not model[3]._forward_pre_hooks
    assert isinstance(read_features(path), np.memmap)


def test_batches_of_any_structure_work(tmp_path):
    model, path = network(), tmp_path / "features.npy"
    view = ItemView([{"x": torch.from_numpy(row), "y": int(label)} for row, label in zip(INPUTS, LABELS, strict=True)])

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="none")

    write_features(path, model, view, COUNT, loss=loss)
    write_features(tmp_path / "plain.npy", model, as_view((INPUTS, LABELS)), COUNT, loss=cross_entropy)
    np.testing.assert_array_equal(read_features(path), read_features(tmp_path / "plain.npy"))


@pytest.mark.parametrize(
    ("name", "width"), [("convnet-w4", None), ("resnet8-w4", None), ("timm:vit_tiny_patch16_224", 192)]
)
def test_features_of_real_networks(tmp_path, name, width):
    if name.startswith("timm:") and importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    size = 224 if "224" in name else 16
    model = build_model(name, (3, size, size), 3, seed=0)
    images = np.random.default_rng(0).normal(size=(3, 3, size, size)).astype(np.float32)
    path = tmp_path / "features.npy"
    write_features(path, model, as_view((images, [0, 1, 2])), 3, loss=cross_entropy)
    head = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    logits = read_features(path) @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    model.eval()
    np.testing.assert_allclose(logits, model(torch.from_numpy(images)).detach().numpy(), rtol=1e-3, atol=1e-4)
    assert width in (None, read_features(path).shape[1])


def test_a_network_without_features_gets_one_clear_sentence(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, inputs):
            return self.layer(inputs) + self.layer(-inputs)

    with refusal("model-unsuitable", "layer", 2, 150):
        write_features(tmp_path / "f.npy", Twice(), as_view((INPUTS, LABELS)), COUNT, loss=cross_entropy)
    with refusal("stage-incomplete", "f.npy"):
        read_features(tmp_path / "f.npy")


def test_out_of_sample_predictions_are_the_mean_of_those_who_did_not_see_the_sample(tmp_path):
    models = [network(seed) for seed in range(3)]
    parts = [np.arange(part, COUNT, 3) for part in range(3)]
    path = out_of_sample_path(tmp_path)
    view = as_view((INPUTS, LABELS))
    write_out_of_sample(path, zip(models, parts, strict=True), view, (COUNT, 3), loss=cross_entropy)
    found = read_out_of_sample(tmp_path)
    assert found.dtype == np.float32
    for sample in range(0, COUNT, 17):
        expected = np.zeros(3)
        for model, part in zip(models, parts, strict=True):
            if sample not in part:
                model.eval()
                expected += torch.softmax(model(torch.from_numpy(INPUTS[sample])), 0).detach().numpy() / 2
        np.testing.assert_allclose(found[sample], expected, rtol=1e-5, atol=1e-6)


def test_a_single_network_that_saw_everything_predicts_nothing_and_leaves_nothing(tmp_path):
    path = out_of_sample_path(tmp_path)
    with refusal("evidence-missing", 2):
        write_out_of_sample(
            path, [(network(), np.arange(COUNT))], as_view((INPUTS, LABELS)), (COUNT, 3), loss=cross_entropy
        )
    assert not list(path.parent.iterdir())
    with refusal("evidence-missing"):
        read_out_of_sample(tmp_path)


def test_class_errors_are_one_minus_recall():
    draw = np.random.default_rng(1)
    probabilities = draw.dirichlet(np.ones(4), size=500).astype(np.float32)
    labels = draw.integers(3, size=500)  # nobody is of class 3
    errors = class_errors(probabilities, labels)
    for label in range(3):
        own = probabilities[labels == label].argmax(axis=1)
        assert errors[label] == pytest.approx(np.mean(own != label))
    assert errors[3] == 0
