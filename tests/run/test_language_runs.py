"""Whole runs of language models by the command line, and what they refuse."""

import json

import numpy as np
import pytest
from safetensors import safe_open

import moso
from tests.models.small_language_models import written_config, written_tokenizer

QUICK = ("--epochs", "2", "--partitions", "1", "--time-steps", "2", "--seeds", "1", "--ratio", "0.4", "--quiet")


@pytest.fixture
def chat(tmp_path):
    words = ["who", "was", "he", "where", "is", "it"]
    rows = [
        {"prompt": f"{words[n % 6]} {words[(n + 2) % 6]} ?", "completion": f" {words[(5 * n) % 6]}"} for n in range(40)
    ]
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"text:{path}"


def test_a_causal_run_is_scored_as_the_library_scores_it(left, chat, tmp_path):
    code, _, said = left("run", "--dataset", chat, "--task", "causal-lm", "--model", "gpt:1x32", "--method", "moso",
                         "--optimizer-aware", "--out", "run", *QUICK)  # fmt: skip
    assert code == 0, said
    run = moso.Run.open(tmp_path / "run")
    assert run.task.name == "causal-lm"
    scores = moso.score(
        run.build_model(), run.dataset("train"), run.trajectory(0), loss=moso.next_token_loss, optimizer_aware=True
    )
    np.testing.assert_allclose(scores, run.scores()["moso"], rtol=1e-4, atol=1e-9)
    assert {row["metric"] for row in run.evaluation()} == {"loss"}
    code, printed, said = left("tokens", "run", "--sample", "3", "--json")
    assert code == 0, said
    [found] = json.loads(printed)
    position = run.samples("train").ids.to_pylist().index(3)
    assert np.isclose(found["score"], run.scores()["moso"][position], rtol=1e-4)
    code, printed, said = left("index", "build", "run")
    assert code == 0, said
    code, printed, said = left("index", "query", "run", "--target", f"same={chat}", "--json", "--top", "3")
    assert code == 0, said
    assert len(json.loads(printed)["same"]) == 3


def test_an_adapter_run_with_a_tokenizer_of_its_own_writes_adapters_only(left, chat, tmp_path):
    name = written_config(tmp_path / "model", "llama")
    written_tokenizer(tmp_path / "model")
    code, _, said = left("run", "--dataset", chat, "--task", "causal-lm", "--model", name, "--train", "lora:2",
                         "--out", "run", *QUICK)  # fmt: skip
    assert code == 0, said
    for path in (tmp_path / "run" / "trajectory").rglob("step-*.safetensors"):
        with safe_open(path, "pt") as file:
            assert all("lora_" in one for one in file.keys())  # noqa: SIM118


def test_a_masked_run_and_a_classifier_of_transformers_run_to_the_end(left, chat, tmp_path):
    name = written_config(tmp_path / "model", "bert")
    written_tokenizer(tmp_path / "model")
    code, _, said = left("run", "--dataset", f"{chat}?text=prompt", "--task", "masked-lm", "--model", name,
                         "--out", "masked", *QUICK)  # fmt: skip
    assert code == 0, said
    table = tmp_path / "questions.tsv"
    table.write_text("text\tlabel\n" + "".join(f"who was {'he' if n % 2 else 'it'} ?\t{n % 2}\n" for n in range(40)))
    code, _, said = left("run", "--dataset", f"text:{table}", "--model", name, "--out", "classes", *QUICK)
    assert code == 0, said
    assert moso.Run.open(tmp_path / "classes").task.name == "classification"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dataset", "digits", "--task", "causal-lm"], "text:FILE"),
        (["--dataset", "CHAT", "--task", "masked-lm"], "hf:FOLDER"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--model", "hf:nowhere"], "no folder nowhere"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--model", "convnet"], "texts"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--model", "bag"], "where"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--train", "lora:0"], "lora:RANK"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--max-tokens", "3"], "max_tokens"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--method", "less"], "risk"),
        (["--dataset", "CHAT", "--task", "causal-lm", "--method", "el2n"], "classes"),
        (["--dataset", "digits", "--optimizer-aware", "--estimator", "sketched"], "optimizer_aware"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*texts are longer than")
def test_what_cannot_be_is_refused_in_one_sentence(left, chat, arguments, told):
    given = [chat if one == "CHAT" else one for one in arguments]
    code, _, said = left("run", *given, "--out", "run", *QUICK)
    assert code == 2
    assert told in said
    assert said.strip().count("\n") <= 1


def test_tokens_and_index_refuse_what_they_are_not_for(left, tmp_path):
    code, _, said = left("run", "--dataset", "digits", "--model", "linear", "--out", "run", *QUICK)
    assert code == 0, said
    code, _, said = left("tokens", "run", "--sample", "3")
    assert code == 2
    assert "language model" in said
    code, _, said = left("index", "query", "run", "--target", "test")
    assert code == 2
    assert "build" in said
