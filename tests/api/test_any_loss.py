"""Any loss, any structure of batches: texts with padding, numbers to predict, several labels a sample."""

from collections import UserDict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import nn

import moso
from moso.errors import MosoError
from moso.models.compat import import_transformers

TOTAL = 9
RATE = 0.1
FAST = {"recipe": "table", "epochs": 5, "time_steps": 3, "partitions": 1}


def brute_force(model, losses) -> np.ndarray:
    """Proposition 1.1 at one time step, literally: `losses` are single numbers, one a sample, each by itself."""
    rows = []
    for loss in losses:
        parts = torch.autograd.grad(loss(), list(model.parameters()), allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([part.flatten() for part in parts]))
    gradients = torch.stack(rows)
    count = len(gradients)
    others = (gradients.sum(0) - gradients) / (count - 1)
    return (TOTAL / count * RATE * (others * gradients).sum(1)).numpy()


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    return bool(np.abs(found - expected).max() <= tolerance * np.abs(expected).max())


def at(model) -> dict:
    return {"trajectory": [(model.state_dict(), RATE)], "total_steps": TOTAL}


# -- texts ---------------------------------------------------------------------------------------------------------


class Questions(torch.utils.data.Dataset):
    """Token ids of unequal length as Hugging Face's tokenizers give them, one dictionary a sample."""

    def __init__(self, count: int = 12) -> None:
        draw = np.random.default_rng(0)
        self.ids = [[2, *draw.integers(3, 30, draw.integers(1, 7)).tolist()] for _ in range(count)]
        self.labels = draw.integers(0, 3, count).tolist()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position):
        ids = self.ids[position]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": self.labels[position]}


def padded(items, to: int = 0, kind=dict):
    """A batch that is as long as its longest text, or longer."""
    longest = max(to, *(len(item["input_ids"]) for item in items))
    names = ("input_ids", "attention_mask")
    columns = {n: torch.tensor([i[n] + [0] * (longest - len(i[n])) for i in items]) for n in names}
    return kind({**columns, "labels": torch.tensor([item["labels"] for item in items])})


def of_classification(model, batch):
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return F.cross_entropy(logits, batch["labels"], reduction="none")


@pytest.fixture(scope="module")
def encoder():
    transformers = import_transformers()
    torch.manual_seed(0)
    configuration = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=3, pad_token_id=0,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(configuration).double().eval()


@pytest.fixture(scope="module")
def truth(encoder):
    """Every question alone, without any padding."""
    data = Questions()

    def alone(position: int):
        return lambda: of_classification(encoder, padded([data[position]])).sum()

    return brute_force(encoder, [alone(position) for position in range(len(data))])


def test_scores_of_an_encoder_are_those_of_brute_force_whatever_the_padding(encoder, truth):
    for size, to in ((12, 0), (5, 0), (3, 11), (1, 0)):
        scores = moso.score(
            encoder, Questions(), **at(encoder), loss=of_classification, batch_size=size,
            collate=lambda items, to=to: padded(items, to),
        )  # fmt: skip
        assert close(scores, truth, 1e-9)


def test_hugging_face_batches_are_batches(encoder, truth):
    batch_encoding = import_transformers().BatchEncoding
    for kind in (UserDict, batch_encoding):
        scores = moso.score(
            encoder, Questions(), **at(encoder), loss=of_classification, batch_size=5,
            collate=lambda items, kind=kind: padded(items, kind=kind),
        )  # fmt: skip
        assert close(scores, truth, 1e-9)


def test_items_may_be_hugging_face_batches_too(encoder, truth):
    batch_encoding = import_transformers().BatchEncoding
    items = [batch_encoding(item) for item in Questions()]
    scores = moso.score(encoder, items, **at(encoder), loss=of_classification, collate=padded)
    assert close(scores, truth, 1e-9)


@pytest.mark.parametrize("name", ["bag-w8", "bert:1x32"])
def test_scores_of_our_own_networks_do_not_depend_on_padding(name):
    from moso.models import build_model

    draw = np.random.default_rng(1)
    tokens = np.zeros((20, 9), dtype=np.int64)
    for row in tokens:
        row[: 1 + draw.integers(1, 6)] = 2
        row[1:][row[1:] > 0] = draw.integers(3, 30, int((row > 0).sum()) - 1)
    model = build_model(name, (9,), classes=3, seed=0, vocabulary=30).eval()
    labels = torch.from_numpy(draw.integers(0, 3, 20))
    wide, narrow = (torch.from_numpy(tokens[:, :length]) for length in (9, 6))
    found = [
        moso.score(model, torch.utils.data.TensorDataset(part, labels), **at(model), batch_size=size)
        for part, size in ((wide, 20), (narrow, 20), (wide, 3))
    ]
    assert close(found[1], found[0], 1e-6)
    assert close(found[2], found[0], 1e-6)


def test_texts_through_a_loop_of_ones_own(encoder, tmp_path):
    data = Questions(30)
    loader = torch.utils.data.DataLoader(data, batch_size=10, collate_fn=padded)
    model = encoder.float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = moso.Recorder(tmp_path, total_steps=6, samples=2, seed=0)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            of_classification(model, batch).mean().backward()
            optimizer.step()
            recorder.step(model, optimizer)
    scores = moso.score(model, data, recorder.trajectory, loss=of_classification, collate=padded)
    kept = moso.select(scores, ratio=0.4, labels=data.labels, selector="balanced")
    assert len(kept) == 18
    encoder.double()


def test_a_dataset_of_dictionaries_is_pruned_and_proved(encoder, tmp_path):
    def right(model, batch):
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return (logits.argmax(1) == batch["labels"]).float()

    def network():
        return import_transformers().BertForSequenceClassification(encoder.config).float()

    settings = {"model": network, "loss": of_classification, "collate": padded, **FAST, "epochs": 3}
    settings["class_mix"] = "equal"
    pruned = moso.prune(Questions(24), ratio=0.5, test_set=Questions(10), metric=right, out=tmp_path / "a", **settings)
    rows = pruned.run.evaluation()
    assert {(row["metric"], row["unit"], row["accuracy"]) for row in rows} == {("right", "%", None)}
    assert all(0 <= row["value"] <= 100 for row in rows)
    # The classes were found in the dictionaries, so the same number of each stays.
    labels = np.array(Questions(24).labels)
    assert np.ptp(np.bincount(labels[pruned.kept])) <= 1
    by_loss = moso.prune(Questions(24), ratio=0.5, test_set=Questions(10), out=tmp_path / "b", **settings)
    assert {row["metric"] for row in by_loss.run.evaluation()} == {"loss"}


# -- numbers to predict --------------------------------------------------------------------------------------------


def diabetes(count: int = 442):
    features, progression = load_diabetes(return_X_y=True)
    progression = (progression - progression.mean()) / progression.std()
    return (features / features.std(0)).astype(np.float32)[:count], progression.astype(np.float32)[:count]


def numbers_network(outputs: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 6), nn.Tanh(), nn.Linear(6, outputs))


def test_scores_of_a_regression_are_those_of_brute_force():
    inputs, targets = diabetes(30)
    model = numbers_network().double()
    rows = torch.from_numpy(inputs).double()

    def squared(model, batch):
        return (model(batch[0].double()).squeeze(1) - batch[1]).square()

    def alone(position: int):
        return lambda: (model(rows[position])[0] - float(targets[position])).square()

    expected = brute_force(model, [alone(position) for position in range(30)])
    for data in ((inputs, targets), torch.utils.data.TensorDataset(rows, torch.from_numpy(targets))):
        assert close(moso.score(model, data, **at(model), loss=squared, batch_size=7), expected, 1e-9)


def test_scores_of_several_labels_are_those_of_brute_force():
    inputs, _ = diabetes(20)
    labels = (np.random.default_rng(0).random((20, 4)) < 0.3).astype(np.float32)
    model = numbers_network(4).double()
    rows, marks = torch.from_numpy(inputs).double(), torch.from_numpy(labels).double()

    def per_label(model, batch):
        answers = batch[1].double()
        return F.binary_cross_entropy_with_logits(model(batch[0].double()), answers, reduction="none").sum(1)

    def alone(position: int):
        return lambda: F.binary_cross_entropy_with_logits(model(rows[position]), marks[position], reduction="sum")

    expected = brute_force(model, [alone(position) for position in range(20)])
    for data in ((inputs, labels), torch.utils.data.TensorDataset(rows, marks)):
        assert close(moso.score(model, data, **at(model), loss=per_label, batch_size=6), expected, 1e-9)


def test_diabetes_is_pruned_and_proved(tmp_path):
    inputs, targets = diabetes()
    train, test = (inputs[:360], targets[:360]), (inputs[360:], targets[360:])
    pruned = moso.prune(
        train, ratio=0.4, test_set=test, model="mlp-w8", loss=moso.squared_error, out=tmp_path / "run",
        recipe="table", time_steps=3, partitions=2,
    )  # fmt: skip
    assert len(pruned.kept) == 216
    assert not pruned.run.configuration.by_class
    selection = next(one for one in pruned.run.selections() if one.method == "moso-rank")
    assert selection.selector == "top"
    # Nothing but the highest scores.
    assert pruned.scores[pruned.kept].min() >= np.delete(pruned.scores, pruned.kept).max()
    rows = {row["method"]: row for row in pruned.run.evaluation()}
    assert {row["metric"] for row in rows.values()} == {"r2"}
    assert rows["full"]["value"] > 20
    np.testing.assert_allclose(pruned.run.table()["label"].to_numpy(), targets[:360])


def test_a_regression_of_ones_own_is_judged_by_its_own_loss(tmp_path):
    inputs, targets = (torch.from_numpy(part) for part in diabetes(120))

    def absolute(model, batch):
        return (model(batch[0]).squeeze(1) - batch[1]).abs()

    train, test = (torch.utils.data.TensorDataset(inputs[part], targets[part]) for part in (slice(80), slice(80, 120)))
    pruned = moso.prune(train, ratio=0.5, test_set=test, model=numbers_network, loss=absolute, **FAST)
    row = pruned.run.evaluation()[0]
    assert (row["metric"], row["unit"], row["better"], row["accuracy"]) == ("loss", "", "lower", None)
    assert 0.1 < row["value"] < 2
    assert "loss" in moso_report(pruned)


def moso_report(pruned) -> str:
    from moso.report.page.page import render

    return render(pruned.run)


def test_several_labels_a_sample_are_pruned_and_proved():
    inputs, _ = diabetes(120)
    labels = (inputs[:, :3] > 0).astype(np.float32)

    def per_label(model, batch):
        return F.binary_cross_entropy_with_logits(model(batch[0]), batch[1], reduction="none").mean(1)

    def labels_right(model, batch):
        return ((model(batch[0]) > 0) == (batch[1] > 0.5)).float().mean(1)

    pruned = moso.prune(
        (inputs[:80], labels[:80]), ratio=0.5, test_set=(inputs[80:], labels[80:]), model="linear",
        loss=per_label, metric=labels_right, **{**FAST, "epochs": 20, "learning_rate": 0.1},
    )  # fmt: skip
    full = next(row for row in pruned.run.evaluation() if row["method"] == "full")
    assert full["metric"] == "labels_right"
    assert full["value"] > 80
    assert pruned.run.build_model()(torch.zeros(2, 10)).shape == (2, 3)


def test_classes_given_beside_numbers_are_balanced():
    inputs, targets = diabetes(80)
    sexes = (inputs[:, 1] > 0).astype(int)
    pruned = moso.prune(
        (inputs, targets), ratio=0.5, labels=sexes, model="linear", loss=moso.squared_error, **FAST
    )  # fmt: skip
    assert np.bincount(sexes[pruned.kept]).tolist() == [20, 20]


def test_answers_that_are_sequences_or_pictures_are_left_to_the_loss():
    draw = np.random.default_rng(0)
    tagged = [{"row": torch.ones(10), "labels": [0] * int(draw.integers(1, 5))} for _ in range(20)]
    masks = [(torch.ones(10), torch.ones(3, 3)) for _ in range(20)]
    for data, take in ((tagged, lambda batch: batch["row"]), (masks, lambda batch: batch[0])):
        pruned = moso.prune(
            data, ratio=0.5, model=lambda: nn.Linear(10, 1), loss=lambda model, batch, t=take: model(t(batch))[:, 0],
            collate=lambda items: torch.utils.data.default_collate([strip(item) for item in items]), **FAST,
        )  # fmt: skip
        assert not pruned.run.configuration.by_class


def strip(item):
    return {"row": item["row"]} if isinstance(item, dict) else item


def test_a_loss_without_any_answers_is_pruned():
    inputs, _ = diabetes(60)
    rows = [{"row": torch.from_numpy(row)} for row in inputs]

    def reconstruction(model, batch):
        return (model(batch["row"]) - batch["row"]).square().mean(1)

    pruned = moso.prune(rows, ratio=0.5, model=lambda: nn.Linear(10, 10), loss=reconstruction, **FAST)
    assert len(pruned.kept) == 30
    assert pruned.run.table()["label"].null_count == 60


def test_what_is_not_certain_is_asked_in_one_sentence():
    inputs, targets = diabetes(40)
    with pytest.raises(MosoError, match=r"labels are float32: for classes give whole numbers.*moso.squared_error"):
        moso.prune((inputs, targets), ratio=0.5, model="mlp-w8", **FAST)
    with pytest.raises(MosoError, match="selector 'balanced' chooses class by class, but the samples have no classes"):
        moso.prune(
            (inputs, targets), ratio=0.5, model="mlp-w8", loss=moso.squared_error, selector="balanced", **FAST
        )  # fmt: skip
    broken = np.where(np.arange(40) == 3, np.nan, targets)
    with pytest.raises(MosoError, match="target of sample 3 is missing or infinite"):
        moso.prune((inputs, broken), ratio=0.5, model="mlp-w8", loss=moso.squared_error, **FAST)
    with pytest.raises(MosoError, match="there are 40 inputs but 39"):
        moso.score(nn.Linear(10, 1), (inputs, targets[:39]), [({}, 0.1)], loss=moso.squared_error)
    with pytest.raises(MosoError, match="all 10 test targets are equal"):
        moso.prune(
            (inputs, targets), ratio=0.5, model="mlp-w8", loss=moso.squared_error,
            test_set=(inputs[:10], np.ones(10, dtype=np.float32)), **FAST,
        )  # fmt: skip
    with pytest.raises(MosoError, match=r"not \(input, label\) pairs .* give labels="):
        moso.prune([{"row": row} for row in inputs], ratio=0.5, model="mlp-w8", **FAST)
