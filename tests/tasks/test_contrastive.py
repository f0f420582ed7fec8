"""Pairs: the gradient of a pair against a bank of negatives is that of brute force, and nobody else's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import moso
from moso.api.given_samples import as_met
from moso.data import StoredSamples, as_view, with_bank
from moso.data.tokenizer import Tokenizer
from moso.evidence import TrajectoryPoint, step_terms
from moso.models import build_model
from moso.tasks import Bank, Contrastive
from refusals import refusal

WORDS = ("red", "blue", "cat", "dog", "tree", "a", "photo", "of")


def made_up(count: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, 3)) for _ in range(count)]
    return draw.integers(0, 255, (count, 3, 8, 8)).astype(np.uint8), texts


def samples_of(count: int, task: Contrastive) -> StoredSamples:
    images, texts = made_up(count)
    found = StoredSamples.from_arrays(images, texts, task)
    return as_met(found)[0]


def double_view(view):
    """The same view in float64."""

    class Wide:
        streamed = False

        def __len__(self):
            return len(view)

        def __getitem__(self, position):
            return view[position]

        def batch(self, positions, epoch=0):
            inputs, texts, bank = view.batch(positions, epoch)
            return inputs.double(), texts, Bank(bank.inputs.double(), bank.texts)

    return Wide()


def slow_loss(model, task, image, text, bank):
    """The module's formula for one pair, member by member, with embeddings of the bank as constants."""
    one, other = (F.normalize(part, dim=1)[0] for part in model(image[None], text[None]))
    with torch.no_grad():
        theirs = [F.normalize(part, dim=1) for part in model(bank.inputs, bank.texts)]
    strangers = [j for j in range(len(bank.texts)) if not torch.equal(bank.texts[j], text)]
    total = 0
    for query, partner, bank_of in ((one, other.detach(), theirs[1]), (other, one.detach(), theirs[0])):
        own = query @ partner / task.temperature
        logits = [query @ bank_of[j] / task.temperature for j in strangers]
        if task.form == "siglip":
            total += F.softplus(-own - task.bias) + sum(F.softplus(logit + task.bias) for logit in logits)
        else:
            total += torch.log(sum(torch.exp(logit) for logit in [own, *logits])) - own
    return total / 2


@pytest.mark.parametrize("form", ["infonce", "siglip"])
@pytest.mark.parametrize("epoch", [0, 3])
def test_terms_of_pairs_are_those_of_brute_force(form, epoch):
    task = Contrastive(negatives=7, form=form, width=6)
    samples = samples_of(20, task)
    model = build_model("two-towers-w8", samples.shape, 6, seed=0).double()
    view = double_view(samples.evaluation_view())
    images, texts, bank = view.batch(np.arange(20), epoch)
    rows, losses = [], []
    for image, text in zip(images, texts, strict=True):
        loss = slow_loss(model, task, image, text, bank)
        losses.append(float(loss.detach()))
        parts = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([part.flatten() for part in parts]))
    gradients = torch.stack(rows)
    np.testing.assert_allclose(task.losses(model, (images, texts, bank)).detach(), losses, rtol=1e-9)
    point = TrajectoryPoint(1, (0.1,), epoch=epoch, memory=model.state_dict())
    found = step_terms(model, point, view, np.arange(20), loss=task.loss, batch_size=6)
    np.testing.assert_allclose(found.dot[0], gradients @ gradients.mean(0), rtol=1e-8)
    np.testing.assert_allclose(found.squared_norm[0], gradients.square().sum(1), rtol=1e-8)


def test_the_bank_is_drawn_by_id_and_epoch_and_not_by_order_or_batch():
    task = Contrastive(negatives=5)
    samples = samples_of(30, task)
    view, turned = samples.evaluation_view(), samples.take(np.arange(30)[::-1].copy()).evaluation_view()
    first = [view.batch(np.array(positions), 2)[2].texts for positions in ([0], [3, 4])]
    assert torch.equal(*first)
    assert torch.equal(first[0], turned.batch(np.array([0]), 2)[2].texts)
    assert not torch.equal(first[0], view.batch(np.array([0]), 3)[2].texts)
    # Training meets the bank that scoring of the same epoch meets.
    assert torch.equal(first[0], samples.training_view("none", 7).batch(np.array([0]), 2)[2].texts)


def test_the_text_of_a_pair_is_no_negative_of_it():
    task, model = Contrastive(negatives=4, width=6), build_model("two-towers-w8", (3, 8, 8), 6, seed=0)
    images, texts = torch.randn(4, 3, 8, 8), torch.tensor([[2, 3, 4], [2, 5, 4], [2, 3, 4], [2, 6, 4]])
    alone = task.losses(model, (images[:1], texts[:1], Bank(images, texts)))
    without = task.losses(model, (images[:1], texts[:1], Bank(images[[1, 3]], texts[[1, 3]])))
    torch.testing.assert_close(alone, without)
    # A bank of nothing but the pair's own text leaves nothing to tell apart, and no gradient that is not a number.
    none = task.losses(model, (images[:1], texts[:1], Bank(images[[0, 2]], texts[[0, 2]])))
    none.sum().backward()
    assert float(none.detach()) == 0
    assert all(torch.isfinite(one.grad).all() for one in model.parameters() if one.grad is not None)


def test_negatives_from_the_batch_are_refused_and_the_message_says_what_to_do():
    images, texts = made_up(12)
    ids = torch.from_numpy(Tokenizer.fit(texts).encode(texts))
    model = build_model("two-towers-w8", (3, 8, 8), 6, seed=0)

    def in_batch(model, batch):
        one, other = (F.normalize(part, dim=1) for part in model(*batch))
        return F.cross_entropy(one @ other.T / 0.1, torch.arange(len(one)), reduction="none")

    data = torch.utils.data.TensorDataset(torch.from_numpy(images).float() / 255, ids)
    with refusal("samples-mixed", "contrastive", "bank"):
        moso.score(model, data, [(model.state_dict(), 0.1)], total_steps=9, loss=in_batch)
    with refusal("loss-invalid", "pairs:PATH", "moso.data.with_bank"):
        moso.score(model, data, [(model.state_dict(), 0.1)], total_steps=9, loss=Contrastive().loss)
    keys = np.arange(12, dtype=np.uint64)
    view = with_bank(as_view(data, own_loss=in_batch), Contrastive(), keys)
    found = moso.score(model, view, [(model.state_dict(), 0.1)], total_steps=9, loss=Contrastive().loss)
    assert np.isfinite(found).all()


def test_recall_counts_inputs_whose_nearest_distinct_text_is_their_own():
    class Given(nn.Module):
        """The first two numbers of an input are its embedding; a text's is looked up."""

        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))

        def forward(self, inputs, texts):
            return inputs, self.table[texts[:, 0]]

    answers = np.array([[1], [2], [1], [2]])
    metric = Contrastive().metric(answers)
    inputs = torch.tensor([[1.0, 0.1], [1.0, 0.1], [0.9, 0.1], [0.0, 1.0]])
    assert metric.measure.name == "recall at 1"
    assert metric.per_sample(Given(), (inputs, torch.from_numpy(answers))).tolist() == [True, False, True, True]


def test_arrays_of_pictures_and_texts_are_pruned_by_the_library(tmp_path):
    draw = np.random.default_rng(0)
    kind = draw.integers(0, 3, 160)
    images = draw.integers(0, 60, (160, 3, 8, 8)).astype(np.uint8)
    images[np.arange(160), kind] += 150
    texts = [f"a {('red', 'green', 'blue')[one]} square" for one in kind]
    pruned = moso.prune(
        (images[:120], texts[:120]), ratio=0.5, test_set=(images[120:], texts[120:]), task="contrastive",
        model="two-towers-w8", recipe="pairs", epochs=12, time_steps=2, partitions=2, out=tmp_path / "run",
    )  # fmt: skip
    run = moso.Run.open(tmp_path / "run")
    full = next(row for row in run.evaluation() if row["method"] == "full")
    assert full["metric"] == "recall at 1"
    assert full["value"] > 80  # three distinct texts: chance is 33
    assert len(pruned.kept) == 60
    assert run.table()["label"].to_pylist()[:2] == texts[:2]


@pytest.mark.parametrize("given", [{"negatives": 0}, {"temperature": 0.0}])
def test_settings_without_meaning_are_refused(given):
    with refusal("setting-invalid"):
        Contrastive(**given)


def test_answers_that_are_no_texts_are_refused():
    with refusal("labels-missing", 1):
        Contrastive().read(["a", " "])
    with refusal("label-invalid"):
        Contrastive().read([0.5, 1.5])
    with refusal("unknown-name", "clip"):
        Contrastive(form="clip")
