"""Published methods, and scores, selectors and methods of one's own, through the library."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

import moso
from moso.errors import MosoError
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.methods import METHODS, Method
from moso.scores import Score, find_score
from moso.selection import Selector

SMALL = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 2, "batch_size": 16, "epochs": 3}


def digits(count: int = 120):
    data = load_digits()
    return (data.images[:count, None] * 15).astype(np.uint8), data.target[:count]


class Items(Dataset):
    """Somebody's dataset of dictionaries."""

    def __init__(self) -> None:
        inputs, self.labels = digits()
        self.inputs = torch.as_tensor(inputs, dtype=torch.float32) / 255

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position):
        return {"x": self.inputs[position], "labels": int(self.labels[position])}


def from_items(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["labels"], reduction="none")


def own_network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))


@pytest.mark.parametrize("method", [name for name in METHODS.names() if name not in ("ssp", "random", "less")])
def test_every_method_prunes_arrays(method):
    small = {**SMALL, "partitions": 3} if method == "auto" else SMALL  # auto tries candidates on other partitions
    pruned = moso.prune(digits(), ratio=0.5, method=method, **small)
    assert len(pruned.kept) == len(np.unique(pruned.kept)) == 60
    assert np.isnan(pruned.scores).all() == (METHODS.get(method).score is None)


@pytest.mark.parametrize("method", ["aum", "el2n", "grand", "herding", "opt", "entropy", "tdds"])
def test_any_dataset_any_loss_any_network(method):
    """Nothing has to be added to the network, and batches are whatever the loss takes."""
    settings = {**SMALL, "model": own_network}
    pruned = moso.prune(Items(), ratio=0.5, method=method, loss=from_items, **settings)
    plain = moso.prune((Items().inputs.numpy(), Items().labels), ratio=0.5, method=method, **settings)
    assert len(pruned.kept) == len(plain.kept) == 60


def test_only_what_the_method_needs_is_trained(tmp_path):
    moso.prune(digits(), ratio=0.5, method="aum", out=tmp_path / "aum", **SMALL)
    assert not (tmp_path / "aum" / "trajectory").exists()
    assert (tmp_path / "aum" / "dynamics" / "reference-00" / "margin.npy").exists()
    moso.prune(digits(), ratio=0.5, method="moso", out=tmp_path / "moso", **SMALL)
    assert not (tmp_path / "moso" / "dynamics").exists()
    assert sorted(moso.Run.open(tmp_path / "moso").scores()) == ["moso", "moso-rank", "moso-standardised"]


def test_a_score_of_ones_own_reads_the_evidence_it_names(tmp_path):
    def last_margin(given):
        return given.read(DYNAMICS).column("margin")[-1]

    mine = Score(
        "last-margin", "the last word counts", last_margin, frozenset({"dynamics:margin", "labels"}), hard="low"
    )
    pruned = moso.prune(digits(), ratio=0.5, method=mine, selector="coverage", out=tmp_path / "run", **SMALL)
    margins = moso.Run.open(tmp_path / "run").dynamics().column("margin")[-1]
    np.testing.assert_allclose(pruned.scores, margins)
    assert pruned.run.selection("last-margin").selector == "coverage"


def test_a_selector_and_a_method_of_ones_own(tmp_path):
    last = Selector("last-ones", "the last ones", lambda problem: np.arange(len(problem))[-problem.budget :])
    pruned = moso.prune(digits(), ratio=0.9, selector=last, **SMALL)
    assert pruned.kept.tolist() == list(range(108, 120))
    mine = Method("covered", "aum", "coverage", "AUM covered", {"cut": 0.0, "strata": 3})
    one = moso.prune(digits(), ratio=0.5, method=mine, out=tmp_path / "run", **SMALL)
    assert '"strata": 3' in one.run.selection("covered").parameters


def test_nobody_takes_the_name_of_ours():
    impostor = Score("aum", "another", lambda given: np.zeros(120))
    with pytest.raises(MosoError, match="'aum' is the name of a method of moso's own"):
        moso.prune(digits(), ratio=0.5, method=impostor, **SMALL)
    with pytest.raises(MosoError, match="'moso' is the name of a method of moso's own"):
        moso.prune(digits(), ratio=0.5, method=Method("moso", "aum", "top", "another"), **SMALL)
    ours = moso.prune(digits(), ratio=0.5, method=find_score("aum"), **SMALL)
    assert ours.kept.tolist() == moso.prune(digits(), ratio=0.5, method="aum", **SMALL).kept.tolist()


def test_settings_reach_selectors_and_scores():
    one = moso.prune(digits(), ratio=0.5, method="moderate", settings={"median": {"by": "rank"}}, **SMALL)
    other = moso.prune(digits(), ratio=0.5, method="moderate", settings={"moderate": {"centre": "median"}}, **SMALL)
    assert '"by": "rank"' in one.run.selections()[0].parameters
    assert not np.allclose(one.scores, other.scores)
    with pytest.raises(MosoError, match="selector 'median' has no setting 'buy'"):
        moso.prune(digits(), ratio=0.5, method="moderate", settings={"median": {"buy": "rank"}}, **SMALL)


def test_an_embedding_of_ones_own_is_taken_as_it_is(tmp_path):
    rows = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    np.save(tmp_path / "mine.npy", rows)
    embedding = str(tmp_path / "mine.npy")
    pruned = moso.prune(digits(), ratio=0.5, method="ssp", embedding=embedding, out=tmp_path / "run", **SMALL)
    from moso.scores.ssp import ssp_scores

    np.testing.assert_allclose(pruned.scores, ssp_scores(rows, 10, 0), rtol=1e-6)
    assert not (tmp_path / "run" / "state" / "reference-00").exists()


def test_an_embedding_is_trained_without_labels_and_the_same_for_all_labels(tmp_path):
    inputs, labels = digits()
    small = {**SMALL, "model": "convnet-w4", "settings": {"ssp": {"clusters": 4}}}
    one = moso.prune((inputs, labels), ratio=0.5, method="ssp", **small)
    other = moso.prune((inputs, (labels + 3) % 10), ratio=0.5, method="ssp", **small)
    np.testing.assert_array_equal(one.scores, other.scores)


def test_what_cannot_be_had_is_said_before_anything_is_trained(tmp_path):
    numbers = (np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2)
    with pytest.raises(MosoError, match=r"trained on pictures, but inputs are of shape \(3,\)"):
        moso.prune(numbers, ratio=0.5, method="ssp", model="mlp-w8", epochs=2, out=tmp_path / "run")
    target = (numbers[0], numbers[0][:, 0])
    with pytest.raises(MosoError, match="method 'aum' looks at predicted classes"):
        moso.prune(target, ratio=0.5, method="aum", loss=moso.squared_error, model="mlp-w8", out=tmp_path / "run")
    odd = Score("odd", "looks for what nobody records", lambda given: np.zeros(120), frozenset({"dynamics:mood"}))
    with pytest.raises(MosoError, match="score 'odd' needs 'dynamics:mood', which no run records"):
        moso.prune(digits(), ratio=0.5, method=odd, out=tmp_path / "run", **SMALL)
    with pytest.raises(MosoError, match="score 'random' has no hard end"):
        moso.prune(digits(), ratio=0.5, method="random", selector="coverage", **SMALL)
    assert not (tmp_path / "run" / "run.toml").exists()


def test_a_network_that_gives_no_logits_gets_one_clear_sentence():
    class Pairwise(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 7)

        def forward(self, inputs):
            return self.layer(inputs.flatten(1))

    with pytest.raises(MosoError, match=r"gave \(15, 7\) for 15 samples where \(15, 10\) was expected"):
        moso.prune(
            Items(),
            ratio=0.5,
            method="aum",
            loss=lambda model, batch: model(batch["x"]).square().mean(1),
            **{**SMALL, "model": Pairwise},
        )
