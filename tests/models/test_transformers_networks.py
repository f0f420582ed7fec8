"""Laws of models of transformers as networks: exact scores, padding without effect, and folders that are refused."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.gradients import Point, time_step
from moso.gradients.fallback import gradients_of_one
from moso.gradients.losses import one_of
from moso.models import Start, build_model
from moso.models.transformers_tokenizer import token_settings
from refusals import refusal
from tests.models.small_language_models import LENGTH, VOCABULARY, rows, written_config, written_tokenizer

SAMPLES = 10


def network(name, task="causal-lm", train="all", outputs=(LENGTH, VOCABULARY)):
    built = build_model(name, (LENGTH,), outputs, 0, vocabulary=VOCABULARY, start=Start(train=train), task=task)
    with torch.no_grad():
        for own, parameter in built.named_parameters():
            if "lora_B" in own:  # zero at the start, where every other gradient of an adapter is zero
                parameter.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return built.eval()


def brute_force(model, loss, batch, scales=None):
    """Both terms of every sample from gradients that autograd gives one sample at a time, in float64."""
    model = model.double()
    point = Point.of(model, loss)
    every = []
    for number in range(len(batch[0])):
        gradients = gradients_of_one(point, one_of(batch, number))[1]
        every.append(torch.cat([gradients[name].flatten() for name in point.trained]))
    rows = torch.stack(every)
    P = torch.ones(rows.shape[1]).double() if scales is None else torch.cat([
        scales[name].double().flatten() for name in point.trained
    ])  # fmt: skip
    return (rows @ (P * rows.mean(0))).numpy(), (rows.square() @ P).numpy()


MODELS = [("gpt2", "all"), ("llama", "all"), ("llama", "lora:2"), ("gpt2", "lora:2"), ("llama", "dora:2")]


@pytest.mark.parametrize(("kind", "train"), MODELS)
@pytest.mark.parametrize("aware", [False, True])
def test_both_terms_are_those_of_brute_force(tmp_path, kind, train, aware):
    model, batch = network(written_config(tmp_path, kind), train=train), rows(SAMPLES)
    point = Point.of(model, moso.next_token_loss)
    generator = torch.Generator().manual_seed(2)
    scales = {name: 10 * torch.rand(value.shape, generator=generator) ** 4 for name, value in point.trained.items()}
    measured = point.measured_by(scales) if aware else point
    half = SAMPLES // 2
    step = time_step(measured, lambda: [one_part(batch, 0, half), one_part(batch, half, SAMPLES)])
    dot, norm = brute_force(model, moso.next_token_loss, batch, scales if aware else None)
    N = SAMPLES
    score, truth = ((N * a - b) / (N - 1) for a, b in ((step.dot[0], step.squared_norm[0]), (dot, norm)))
    assert np.abs(score - truth).max() <= 1e-5 * np.abs(truth).max()
    np.testing.assert_allclose(step.squared_norm[0], norm, rtol=1e-4)


def one_part(batch, start, stop):
    return tuple(one[start:stop] for one in batch)


def test_masked_networks_are_exact_and_do_not_see_padding(tmp_path):
    ids, labels = rows(SAMPLES)
    for kind in ("bert", "roberta"):
        model = network(written_config(tmp_path / kind, kind), "masked-lm")
        found = moso.masked_token_loss(model, (ids, labels))
        longer = nn.functional.pad(ids, (0, 0)), nn.functional.pad(labels, (0, 0))
        alone = [moso.masked_token_loss(model, _cut(ids, labels, one)) for one in range(SAMPLES)]
        assert torch.allclose(found, torch.cat(alone), atol=1e-5), kind
        step = time_step(Point.of(model, moso.masked_token_loss), lambda longer=longer: [longer])
        dot, norm = brute_force(model, moso.masked_token_loss, (ids, labels))
        np.testing.assert_allclose(step.squared_norm[0], norm, rtol=1e-4)
        assert np.abs(step.dot[0] - dot).max() <= 1e-5 * np.abs(dot).max()


def _cut(ids, labels, number):
    """One sample without its padding."""
    length = int((ids[number] >= 0).sum())
    return ids[number : number + 1, :length], labels[number : number + 1, :length]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_the_loss_is_the_models_own_and_does_not_depend_on_padding_or_neighbours(tmp_path, kind):
    model, (ids, labels) = network(written_config(tmp_path, kind)), rows(SAMPLES)
    together = moso.next_token_loss(model, (ids, labels))
    for number in range(SAMPLES):
        own_ids, own_labels = _cut(ids, labels, number)
        own = model.network(input_ids=own_ids, labels=own_labels).loss
        assert torch.allclose(together[number], own, atol=1e-5)


def test_a_classifier_of_texts_is_exact(tmp_path):
    model = network(written_config(tmp_path, "bert"), "classification", outputs=3)
    ids, classes = rows(SAMPLES)[0], torch.arange(SAMPLES) % 3
    step = time_step(Point.of(model, moso.cross_entropy), lambda: [(ids, classes)])
    dot, norm = brute_force(model, moso.cross_entropy, (ids, classes))
    np.testing.assert_allclose(step.squared_norm[0], norm, rtol=1e-4)
    assert np.abs(step.dot[0] - dot).max() <= 1e-5 * np.abs(dot).max()


def test_an_adapter_moves_alone_and_starts_as_the_network_itself(tmp_path):
    name = written_config(tmp_path, "llama")
    whole = build_model(name, (LENGTH,), (LENGTH, VOCABULARY), 0, vocabulary=VOCABULARY, task="causal-lm").eval()
    start = Start(train="lora:2")
    tuned = build_model(name, (LENGTH,), (LENGTH, VOCABULARY), 0, vocabulary=VOCABULARY, start=start, task="causal-lm")
    moving = [own for own, one in tuned.named_parameters() if one.requires_grad]
    assert moving
    assert all("lora_" in own for own in moving)
    ids, _ = rows(3)
    assert torch.allclose(whole(ids), tuned.eval()(ids))


def test_a_base_in_bfloat16_has_adapter_gradients_in_float32_that_rank_alike(tmp_path):
    model, batch = network(written_config(tmp_path, "llama"), train="lora:2"), rows(40)
    exact = time_step(Point.of(model, moso.next_token_loss), lambda: [batch])
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            parameter.data = parameter.data.bfloat16()
    rough = time_step(Point.of(model, moso.next_token_loss), lambda: [batch])
    assert {value.dtype for value in rough.mean_gradient.values()} == {torch.float32}
    assert np.corrcoef(exact.dot[0], rough.dot[0])[0, 1] > 0.99


def test_weights_of_a_folder_are_loaded_and_random_ones_follow_the_seed(tmp_path):
    name = written_config(tmp_path / "config", "gpt2")
    first, again, other = (
        build_model(name, (LENGTH,), (LENGTH, VOCABULARY), seed, vocabulary=VOCABULARY, task="causal-lm")
        for seed in (0, 0, 1)
    )
    ids, _ = rows(2)
    first, again, other = first.eval(), again.eval(), other.eval()
    assert torch.equal(first(ids), again(ids))
    assert not torch.allclose(first(ids), other(ids))
    first.network.save_pretrained(tmp_path / "saved")
    for seed in (0, 1):
        loaded = build_model(
            f"hf:{tmp_path / 'saved'}", (LENGTH,), (LENGTH, VOCABULARY), seed, vocabulary=VOCABULARY, task="causal-lm"
        )
        assert torch.equal(first(ids), loaded.eval()(ids))


def test_folders_that_cannot_be_used_are_refused_in_one_sentence(tmp_path):
    with refusal("file-missing", "config.json"):
        (tmp_path / "empty").mkdir()
        network(f"hf:{tmp_path / 'empty'}")
    with refusal("file-missing", "no-such/model"):
        network("hf:no-such/model")
    with refusal("model-name-invalid"):
        network("hf:")
    with refusal("model-unsuitable", "masked-lm"):  # a BERT that looks ahead
        network(written_config(tmp_path / "bert", "bert"))
    with refusal("model-unsuitable", "AutoModelForCausalLM"):
        folder = tmp_path / "vit"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "t5", "vocab_size": VOCABULARY}))
        network(f"hf:{folder}")
    with refusal("file-unsafe", "auto_map"):
        folder = tmp_path / "own-code"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": {"AutoConfig": "a.B"}}))
        network(f"hf:{folder}")
    with refusal("file-unsafe", "pickle"):
        name = written_config(tmp_path / "pickled", "gpt2")
        (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"\x80")
        network(name)
    with refusal("file-unreadable", "JSON"):
        (tmp_path / "empty" / "config.json").write_text("{")
        network(f"hf:{tmp_path / 'empty'}")


def test_other_vocabularies_and_longer_sequences_are_refused(tmp_path):
    small = written_config(tmp_path / "small", "gpt2", vocab_size=VOCABULARY - 1)
    with refusal("model-unsuitable", VOCABULARY, VOCABULARY - 1):
        network(small)
    short = written_config(tmp_path / "short", "gpt2", n_positions=LENGTH - 1)
    with refusal("model-unsuitable", LENGTH, LENGTH - 1):
        network(short)
    with refusal("model-unsuitable", "vocabulary"):
        ids, labels = rows(2)
        labels[0, 4] = VOCABULARY
        moso.next_token_loss(network(written_config(tmp_path, "gpt2")), (ids, labels))


def test_weights_without_a_tokenizer_are_refused_and_a_config_alone_is_not(tmp_path):
    name = written_config(tmp_path, "gpt2")
    assert token_settings(name, None).coder is None
    network(name).network.save_pretrained(tmp_path)
    with refusal("file-missing", "tokenizer"):
        token_settings(name, None)
    written_tokenizer(tmp_path)
    assert token_settings(name, None).coder.vocabulary == VOCABULARY


def test_the_tokenizer_of_another_model_is_refused(tmp_path):
    name = written_config(tmp_path, "gpt2", vocab_size=8, bos_token_id=1)
    written_tokenizer(tmp_path)
    with refusal("model-unsuitable", "vocab_size"):
        token_settings(name, None)


def test_a_weight_that_the_head_lacks_is_refused(tmp_path):
    model = network(written_config(tmp_path / "base", "llama")).network.model  # without its output layer
    model.save_pretrained(tmp_path / "headless")
    with refusal("weights-mismatch", "lm_head.weight"):
        network(f"hf:{tmp_path / 'headless'}")


def test_a_model_in_the_hubs_cache_is_found_by_name(tmp_path, monkeypatch):
    """The cache is laid out as huggingface_hub does: a reference to a commit, and its snapshot."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    made = network(written_config(tmp_path / "config", "gpt2"))
    place = tmp_path / "hub" / repo_folder_name(repo_id="somebody/tiny", repo_type="model")
    commit = "0123456789abcdef0123456789abcdef01234567"
    made.network.save_pretrained(place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    found = network("hf:somebody/tiny")
    ids, _ = rows(2)
    assert torch.equal(made.eval()(ids), found.eval()(ids))
    with refusal("file-missing", "somebody/other"):
        network("hf:somebody/other")
