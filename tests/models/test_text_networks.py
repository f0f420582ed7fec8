"""Networks for texts: padding counts for nothing, and whoever brings other inputs is told so."""

import sys

import pytest
import torch

from moso.errors import MosoError
from moso.models import build_model, models
from moso.models.compat import import_transformers

NAMES = ["bag-w8", "bert:1x32"]
# The second text has padding, and more of it in a longer batch.
TOKENS = torch.tensor([[2, 5, 9, 4], [2, 7, 0, 0]])


def network(name: str, seed: int = 0, **more) -> torch.nn.Module:
    return build_model(name, (6,), classes=3, seed=seed, **{"vocabulary": 20, **more}).eval()


@pytest.mark.parametrize("name", NAMES)
def test_outputs_do_not_depend_on_padding(name):
    model = network(name).double()
    longer = torch.cat([TOKENS, torch.zeros(2, 2, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(model(TOKENS), model(longer), rtol=0, atol=1e-12)
    torch.testing.assert_close(model(TOKENS)[1:], model(TOKENS[1:, :2]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_initialisation_is_a_function_of_the_seed_alone(name):
    def weights(seed: int) -> torch.Tensor:
        return torch.cat([value.flatten() for value in network(name, seed).state_dict().values()])

    first = weights(3)
    torch.rand(5)
    assert torch.equal(first, weights(3))
    assert not torch.equal(first, weights(4))


def test_sizes_are_those_of_the_name():
    model = network("bert:3x64")
    assert len(model.network.bert.encoder.layer) == 3
    assert model.network.config.hidden_size == 64
    assert network("bag-w8").words.weight.shape == (20, 8)
    assert {"bag", "bert"} <= {name for name, _ in models()}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mlp", "model 'mlp' takes numbers, but inputs are texts; 'bag' and 'bert' take those"),
        ("convnet", "model 'convnet' takes images, but inputs are texts"),
        ("resnet18", "model 'resnet18' takes images, but inputs are texts"),
        ("bert:big", "not of the form bert:LAYERSxWIDTH"),
        ("bert:2x48", "a width above 32 must be a multiple of it"),
        ("torch.nn:Flatten", r"gives \(2, 6\) for a batch of 2 where \(2, 3\) was expected"),
    ],
)
def test_names_that_do_not_fit_texts_get_a_sentence(name, sentence):
    with pytest.raises(MosoError, match=sentence):
        network(name)


@pytest.mark.parametrize("name", NAMES)
def test_networks_for_texts_refuse_other_inputs(name):
    with pytest.raises(MosoError, match=r"takes texts, but inputs are of shape \(6,\)"):
        network(name, vocabulary=None)


def test_a_factory_may_ask_for_the_vocabulary(tmp_path, monkeypatch):
    (tmp_path / "own_texts.py").write_text(
        "from torch import nn\n"
        "def make(num_classes, vocabulary):\n"
        "    return nn.Sequential(nn.EmbeddingBag(vocabulary, 4), nn.Linear(4, num_classes))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert network("own_texts:make")[0].num_embeddings == 20


def test_without_transformers_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MosoError, match=r'transformers is not installed; pip install "moso-prune\[text\]"'):
        import_transformers()
