"""Texts through a model of transformers: features against one text at a time, and folders that are refused."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer
from typer.testing import CliRunner

from moso.cli.main import app
from moso.data.dataset import open_dataset
from moso.embedding import Embedding, embed_samples, find_embedder
from moso.models import Start
from moso.report.page.sample_preview import SamplePreview
from moso.results.reading import Run
from tests.models.small_language_models import written_config, written_tokenizer
from tests.refusals import refusal

TEXTS = ("who was he ?", "where is it", "it", "who is it ? where was he ? who was who ? where is he")


@pytest.fixture
def questions(tmp_path):
    lines = "".join(f"{TEXTS[number % 4]}\t{number % 2}\n" for number in range(12))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + lines)
    return open_dataset(f"text:{tmp_path / 'train.tsv'}")


def saved(folder, kind, **changes):
    """Write a tiny model without a head, and its tokenizer; return its name."""
    name = written_config(folder, kind, **changes)
    written_tokenizer(folder)
    torch.manual_seed(1)
    AutoModel.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return name


def alone(folder, text, first=False, longest=12):
    """Return the features of one text by transformers alone: no padding, no batch."""
    network, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer(text)["input_ids"][:longest]])
    with torch.no_grad():
        states = network(input_ids=ids).last_hidden_state[0]
    return (states[0] if first else states.mean(0)).numpy()


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama"])
def test_features_are_the_mean_hidden_state_of_the_text_alone(kind, questions, tmp_path):
    name = saved(tmp_path / kind, kind)
    embedder = find_embedder(name, questions.train)
    rows = embed_samples(tmp_path / "rows.npy", questions.train, embedder, Embedding("float32", 5))
    expected = [alone(tmp_path / kind, questions.train.text(one)) for one in range(len(questions.train))]
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)


def test_a_folder_may_ask_for_the_first_token_and_a_shorter_length(questions, tmp_path):
    name = saved(tmp_path / "bert", "bert")
    (tmp_path / "bert/1_Pooling").mkdir()
    asked = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "bert/1_Pooling/config.json").write_text(json.dumps(asked))
    (tmp_path / "bert/sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))
    found = find_embedder(name, questions.train).rows(list(TEXTS))
    expected = [alone(tmp_path / "bert", text, first=True, longest=3) for text in TEXTS]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_folders_that_give_no_features_are_refused(questions, tmp_path):
    bare = written_config(tmp_path / "bare", "bert")
    with refusal("file-missing", "no weights"):
        find_embedder(bare, questions.train)
    name = saved(tmp_path / "bert", "bert")
    (tmp_path / "bert/1_Pooling").mkdir()
    (tmp_path / "bert/1_Pooling/config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with refusal("model-unsuitable", "pooling_mode_max_tokens"):
        find_embedder(name, questions.train)
    (tmp_path / "bert/1_Pooling/config.json").write_text("{")
    with refusal("file-unreadable", "1_Pooling"):
        find_embedder(name, questions.train)
    (tmp_path / "bert/1_Pooling/config.json").unlink()
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bert" / file).unlink()
    with refusal("file-missing", "tokenizer"):
        find_embedder(name, questions.train)


def test_weights_of_another_place_are_refused_beside_a_folder(questions, tmp_path):
    with refusal("settings-conflict", "own weights"):
        find_embedder(saved(tmp_path / "bert", "bert"), questions.train, Start(True, ""))


def test_one_command_prunes_texts_by_their_embeddings(questions, tmp_path):
    name = saved(tmp_path / "bert", "bert")
    lines = "".join(f"{TEXTS[number % 4]} {'it' if number % 3 else 'he'}\t{number % 2}\n" for number in range(60))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + lines)
    done = CliRunner().invoke(
        app,
        ["run", "--dataset", f"text:{tmp_path / 'train.tsv'}", "--embed", name, "--ratio", "0.5", "--epochs", "2",
         "--partitions", "2", "--time-steps", "2", "--method", "moso-rank", "--seeds", "1", "--out",
         str(tmp_path / "run")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    run = Run.open(tmp_path / "run")
    assert (run.configuration.model, run.dataset("train")[0][0].shape) == ("linear", (16,))
    shown = SamplePreview.open(run)
    assert shown.kind == "texts"
    assert shown.text(0) in (tmp_path / "train.tsv").read_text()
