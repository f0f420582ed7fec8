"""The library as a user meets it: arrays, their own datasets, their own loop, their own checkpoints."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, Subset

import moso
from moso.data.samples import StoredSamples
from moso.errors import MosoError
from moso.models import build_model
from moso.randomness import hashes
from moso.training.recipe import load_recipe
from moso.training.schedule import learning_rate

SMALL = {"model": "mlp-w8", "recipe": "quick", "time_steps": 3, "partitions": 2, "batch_size": 16}


def digits(count: int = 120):
    data = load_digits()
    return (data.images[:count, None] * 15).astype(np.uint8), data.target[:count]


class Pairs(Dataset):
    """A map-style dataset, with or without augmentation of its own."""

    def __init__(self, inputs, labels, jitter: float = 0.0) -> None:
        self.inputs = torch.as_tensor(inputs, dtype=torch.float32) / 255
        self.labels, self.jitter = labels, jitter

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position):
        return self.inputs[position] + self.jitter * torch.rand(1), int(self.labels[position])


def test_prune_arrays(tmp_path):
    pruned = moso.prune(digits(), ratio=0.7, out=tmp_path / "run", **SMALL)
    assert len(pruned.kept) == 36
    assert [len(part) for part in pruned.subset] == [36, 36]
    assert pruned.scores.dtype == np.float64
    run = moso.Run.open(tmp_path / "run")
    np.testing.assert_array_equal(run.scores()["moso-rank"], pruned.scores)
    np.testing.assert_array_equal(run.kept("moso-rank", 0.7), pruned.kept)
    assert [len(part) for part in run.partitions()] == [60, 60]
    with pytest.raises(MosoError, match="data in memory"):
        run.dataset("train")


def test_prune_an_augmenting_dataset_with_its_evaluation_view(tmp_path):
    random, plain = Pairs(*digits(), jitter=0.1), Pairs(*digits())
    with pytest.raises(MosoError, match="is random: sample"):
        moso.prune(random, ratio=0.5, **SMALL)
    one = moso.prune(random, ratio=0.5, score_set=plain, out=tmp_path / "one", **SMALL)
    assert isinstance(one.subset, Subset)
    assert one.subset.dataset is random
    # The user's own augmentation is addressed too: another run draws the same.
    torch.rand(17)
    two = moso.prune(random, ratio=0.5, score_set=plain, out=tmp_path / "two", **SMALL)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_prune_with_a_test_set_proves_it(tmp_path):
    inputs, labels = digits(160)
    train, test = (inputs[:120], labels[:120]), (inputs[120:], labels[120:])
    pruned = moso.prune(train, ratio=0.5, test_set=test, out=tmp_path / "run", **SMALL)
    rows = {row["method"]: row for row in pruned.run.evaluation()}
    drawn = pruned.run.kept("random", 0.5, "balanced")
    assert rows.keys() == {"full", "moso-rank", "random"}
    assert len(drawn) == len(pruned.kept)
    for method, kept in (("moso-rank", pruned.kept), ("random", drawn), ("full", np.arange(120))):
        losses, accuracy = retrained(train, kept, test)
        assert rows[method]["loss"] == pytest.approx(losses, rel=1e-4)
        assert rows[method]["accuracy"] == pytest.approx(accuracy)


def retrained(train, kept, test) -> tuple[list[float], float]:
    """Plain descent on some samples, written out: the mean loss of every epoch, and the accuracy afterwards in %."""
    recipe = load_recipe("quick").retraining.changed(batch_size=SMALL["batch_size"])
    mean, std = train[0].mean(), train[0].std()
    (inputs, labels), (unseen, truth) = (
        (torch.tensor((images - mean) / std, dtype=torch.float32), torch.tensor(answers))
        for images, answers in (train, test)
    )
    model, keys = build_model("mlp-w8", (1, 8, 8), 10, seed=0), StoredSamples.from_arrays(*train).keys
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, 0, recipe.weight_decay, recipe.nesterov)
    per_epoch = -(-len(kept) // recipe.batch_size)
    losses, step = [], 0
    for epoch in range(recipe.epochs):
        order = kept[np.argsort(hashes(keys[kept], 0, "order", epoch), kind="stable")]
        total = 0.0
        for batch in np.array_split(order, per_epoch):
            step += 1
            optimizer.param_groups[0]["lr"] = learning_rate(recipe, step, recipe.epochs * per_epoch, per_epoch)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += len(batch) * loss.item()
        losses.append(total / len(kept))
    with torch.no_grad():
        return losses, 100 * float((model.eval()(unseen).argmax(1) == truth).double().mean())


def test_prune_with_own_network_and_own_loss(tmp_path):
    def weighted(model, batch):
        return 2 * nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none")

    pruned = moso.prune(
        digits(),
        ratio=0.5,
        **{**SMALL, "model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10))},
        loss=weighted,
        method="moso-rank",
        selector="top",
    )
    assert len(pruned.kept) == 60
    with pytest.raises(MosoError, match="network of its maker's own"):
        pruned.run.build_model()


def test_prune_goes_on_where_it_was(tmp_path):
    one = moso.prune(digits(), ratio=0.5, out=tmp_path / "run", **SMALL)
    stamp = (tmp_path / "run/terms/part-000").stat().st_mtime_ns
    two = moso.prune(digits(), ratio=0.5, out=tmp_path / "run", **SMALL)
    np.testing.assert_array_equal(one.kept, two.kept)
    assert (tmp_path / "run/terms/part-000").stat().st_mtime_ns == stamp
    with pytest.raises(MosoError, match="another configuration"):
        moso.prune(digits(), ratio=0.6, out=tmp_path / "run", **SMALL)
    other = (digits()[0][::-1].copy(), digits()[1])
    with pytest.raises(MosoError, match="is not what it was"):
        moso.prune(other, ratio=0.5, out=tmp_path / "run", **SMALL)


def test_own_training_loop_is_three_lines_away(tmp_path):
    torch.manual_seed(0)
    data = Pairs(*digits())
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data, batch_size=30, shuffle=True)
    recorder = moso.Recorder(tmp_path, total_steps=12, samples=4, seed=0)
    for _ in range(3):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            recorder.step(model, optimizer)
    scores = moso.score(model, data, recorder.trajectory)
    assert scores.shape == (120,)
    # The same from the user's own checkpoints.
    states = [(point.state(), point.learning_rate) for point in recorder.trajectory]
    np.testing.assert_array_equal(scores, moso.score(model, data, states, total_steps=12))


def scored(data, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 10))
    return moso.score(model, data, [(model.state_dict(), 0.1)], total_steps=5, **options)


def close(one, other) -> bool:
    return bool(np.abs(one - other).max() <= 1e-6 * np.abs(one).max())


def test_scores_do_not_depend_on_batch_size():
    data = Pairs(*digits())
    whole = scored(data, batch_size=120)
    assert all(close(whole, scored(data, batch_size=size)) for size in (1, 7, 64))


def test_scores_do_not_depend_on_the_order_of_the_data():
    data = Pairs(*digits())
    order = np.random.default_rng(0).permutation(120)
    assert close(scored(data)[order], scored(Subset(data, order.tolist())))


def test_scores_do_not_depend_on_loader_workers():
    data = Pairs(*digits())
    np.testing.assert_array_equal(scored(data), scored(data, loader_workers=2))


def test_a_duplicate_gets_the_score_of_its_twin():
    inputs, labels = digits(60)
    scores = scored(Pairs(np.concatenate([inputs, inputs[:5]]), np.concatenate([labels, labels[:5]])))
    assert np.abs(scores[:5] - scores[60:]).max() <= 1e-9 * np.abs(scores).max()


def test_bad_input_is_one_sentence():
    data = Pairs(*digits())
    with pytest.raises(MosoError, match="is random"):
        scored(Pairs(*digits(), jitter=0.5))
    with pytest.raises(MosoError, match="not a map-style dataset"):
        scored(iter([1, 2]))
    with pytest.raises(MosoError, match="takes moso, moso-standardised, moso-rank"):
        scored(data, method="el2n")
    with pytest.raises(MosoError, match="trajectory is empty"):
        moso.score(nn.Linear(2, 2), data, [])
    with pytest.raises(MosoError, match="cannot leave one out"):
        scored(Subset(data, [0]))
    with pytest.raises(MosoError, match="score_set has 60 samples"):
        moso.prune(data, ratio=0.5, score_set=Pairs(*digits(60)), **SMALL)
    with pytest.raises(MosoError, match="unknown setting 'epoch'; nearest: epochs"):
        moso.prune(digits(), ratio=0.5, epoch=3, **SMALL)
    with pytest.raises(MosoError, match="NaN or infinite"):
        moso.prune((np.full((10, 4), np.nan), np.arange(10) % 2), ratio=0.5, **SMALL)


def test_a_loss_that_explodes_says_when_and_keeps_what_was_complete(tmp_path):
    with pytest.raises(MosoError, match=r"the loss became (nan|inf) at step \d+ of \d+ .* learning rate"):
        moso.prune(digits(), ratio=0.5, out=tmp_path / "run", **SMALL, learning_rate=1e12)
    assert (tmp_path / "run/run.toml").exists()
