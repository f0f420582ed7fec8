"""How the work is done: networks as they are, several processes, devices, progress, several risks in one pass."""

import copy
import io
import multiprocessing
import os
import sys

import numpy as np
import pytest
import torch
from small_problems import FAST, table
from torch import nn

import moso
from moso.api.progress_bars import shown_progress
from moso.errors import MosoError
from moso.evidence import read_state
from moso.executors import forked
from moso.progress import silent

WORK = {name: value for name, value in FAST.items() if name != "model"}


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def code_of(call) -> str:
    with pytest.raises(MosoError) as problem:
        call()
    assert "--" not in str(problem.value)
    return problem.value.code


def test_a_network_itself_is_where_every_training_starts(tmp_path):
    mine = network()
    before = copy.deepcopy(mine.state_dict())
    pruned = moso.prune(table(), ratio=0.5, model=mine, out=tmp_path / "run", test_set=table(15, seed=1), **WORK)
    for name, value in mine.state_dict().items():
        assert torch.equal(value, before[name])
    assert mine.training
    start, _ = read_state(tmp_path / "run/state/initial.safetensors")
    assert start.keys() == before.keys()
    assert all(torch.equal(start[name], before[name]) for name in before)
    again = moso.prune(table(), ratio=0.5, model=lambda: copy.deepcopy(mine), test_set=table(15, seed=1), **WORK)
    np.testing.assert_array_equal(again.scores, pruned.scores)
    assert [row["value"] for row in again.run.evaluation()] == [row["value"] for row in pruned.run.evaluation()]


def test_another_network_does_not_go_on_where_one_was(tmp_path):
    moso.prune(table(), ratio=0.5, model=network(), out=tmp_path / "run", **WORK)
    assert (
        code_of(lambda: moso.prune(table(), ratio=0.5, model=network(), out=tmp_path / "run", **WORK)) == "run-differs"
    )


def test_a_factory_may_be_a_class_and_must_make_fresh_networks():
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, rows):
            return self.layer(rows)

    assert len(moso.prune(table(), ratio=0.5, model=Mine, **WORK)) == 30
    same = network()
    assert code_of(lambda: moso.prune(table(), ratio=0.5, model=lambda: same, **WORK)) == "wrong-type"
    assert code_of(lambda: moso.prune(table(), ratio=0.5, model=lambda: 3, **WORK)) == "wrong-type"
    assert code_of(lambda: moso.prune(table(), ratio=0.5, model=3, **WORK)) == "wrong-type"


def test_a_network_itself_has_one_initialisation():
    assert (
        code_of(lambda: moso.prune(table(), ratio=0.5, model=network(), method="el2n", **WORK)) == "method-impossible"
    )
    one = moso.prune(table(), ratio=0.5, model=network(), method="el2n", initialisations=1, **WORK)
    assert len(one) == 30


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies a process with its data")
def test_workers_give_the_same_bytes(tmp_path):
    more = {**WORK, "partitions": 3}
    one = moso.prune(table(), ratio=0.5, model=network, test_set=table(15, seed=1), out=tmp_path / "one", **more)
    said = []
    two = moso.prune(
        table(), ratio=0.5, model=network, test_set=table(15, seed=1), out=tmp_path / "two", workers=2,
        progress=lambda *message: said.append(message), **more,
    )  # fmt: skip
    np.testing.assert_array_equal(one.scores, two.scores)
    assert [row["value"] for row in one.run.evaluation()] == [row["value"] for row in two.run.evaluation()]
    assert {label for label, _, _ in said} >= {"all networks", "all scoring", "all retraining"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies a process with its data")
def test_an_error_in_a_worker_is_the_callers():
    more = {**FAST, "partitions": 3, "workers": 2}
    assert code_of(lambda: moso.prune(table(), ratio=0.5, learning_rate=1e12, **more)) == "training-diverged"

    def broken(model, batch):
        if model.training:
            raise KeyError("mine")
        return model(batch[0])[:, 0]

    with pytest.raises(RuntimeError, match="mine"):
        moso.prune(table(), ratio=0.5, loss=broken, **more)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux copies a process with its data")
def test_a_worker_that_dies_is_said():
    def killed(model, batch):
        if multiprocessing.parent_process() is not None:
            os._exit(9)
        return model(batch[0])[:, 0]

    more = {**FAST, "partitions": 2, "workers": 2}
    assert code_of(lambda: moso.prune(table(), ratio=0.5, loss=killed, **more)) == "worker-lost"


def test_where_workers_cannot_be_one_sentence_says_so(monkeypatch):
    assert code_of(lambda: moso.prune(table(), ratio=0.5, workers=2, threads=2, **FAST)) == "executor-unsuitable"
    assert code_of(lambda: forked.check_forking("cuda", 1)) == "executor-unsuitable"
    monkeypatch.setattr(forked.sys, "platform", "darwin")
    assert code_of(lambda: moso.prune(table(), ratio=0.5, workers=2, **FAST)) == "executor-unsuitable"
    assert code_of(lambda: moso.prune(table(), ratio=0.5, workers=0, **FAST)) == "setting-invalid"


def test_the_device_is_chosen_by_name():
    pruned = moso.prune(table(), ratio=0.5, device="cpu", **FAST)
    assert pruned.run.configuration.device == "cpu"
    assert code_of(lambda: moso.prune(table(), ratio=0.5, device="cuda:77", **FAST)) == "device-unavailable"
    model = network()
    states = [(model.state_dict(), 0.1)]
    np.testing.assert_array_equal(
        moso.score(model, table(), states, device="cpu"), moso.score(model, table(), states)
    )  # fmt: skip
    assert code_of(lambda: moso.score(model, table(), states, device="cuda:77")) == "device-unavailable"
    assert code_of(lambda: moso.score(model, table(), states, device="gpu")) == "unknown-name"


def test_bars_on_terminals_and_in_notebooks_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with shown_progress(None) as progress:
        assert progress is silent
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    model = network()
    moso.score(model, table(), [(model.state_dict(), 0.1)] * 3)
    assert "scoring" in shown.getvalue()
    quiet = Terminal()
    monkeypatch.setattr(sys, "stderr", quiet)
    moso.score(model, table(), [(model.state_dict(), 0.1)] * 3, progress=False)
    assert quiet.getvalue() == ""
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    moso.score(model, table(), [(model.state_dict(), 0.1)] * 3)
    assert plain.getvalue() == ""


# -- risks ---------------------------------------------------------------------------------------------------------


class Counted(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.rows, self.labels = table()
        self.fetched = 0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position):
        self.fetched += 1
        return torch.from_numpy(self.rows[position]), int(self.labels[position])


def test_several_risks_are_those_of_one_each_in_one_pass_over_the_data():
    model, data = network(), Counted()
    states = [(model.state_dict(), 0.1), (network().state_dict(), 0.05)]
    rows, labels = table()
    risks = {
        "cats": moso.SampleRisk.of((rows[labels == 0], labels[labels == 0])),
        "dogs": moso.SampleRisk.of((rows, labels), np.flatnonzero(labels == 1)),
        "small": lambda net: sum(parameter.square().sum() for parameter in net.parameters()),
    }
    found = moso.score(model, data, states, risk=risks)
    together, data.fetched = data.fetched, 0
    assert list(found) == list(risks)
    alone = 0
    for name, risk in risks.items():
        data.fetched = 0
        expected = moso.score(model, data, states, risk=risk)
        alone = data.fetched
        np.testing.assert_array_equal(found[name], expected)
    assert together == alone
    assert len({tuple(column) for column in found.values()}) == 3


def test_risks_take_collate_and_the_users_loss():
    rows, labels = table()
    items = [{"row": row, "mark": int(label)} for row, label in zip(rows, labels, strict=True)]

    def collate(batch):
        return torch.from_numpy(np.stack([one["row"] for one in batch])), torch.tensor([one["mark"] for one in batch])

    def loss(net, batch):
        return nn.functional.cross_entropy(net(batch[0]), batch[1], reduction="none")

    model = network()
    states = [(model.state_dict(), 0.1)]
    own = moso.SampleRisk.of(items, range(20), loss=loss, collate=collate)
    plain = moso.SampleRisk.of((rows, labels), range(20))
    np.testing.assert_array_equal(
        moso.score(model, items, states, loss=loss, collate=collate, risk=own),
        moso.score(model, (rows, labels), states, risk=plain),
    )
    targets = rows[:, 1]
    numbers = moso.SampleRisk.of((rows, targets), loss=moso.squared_error)
    one = nn.Linear(4, 1)
    scores = moso.score(one, (rows, targets), [(one.state_dict(), 0.1)], loss=moso.squared_error, risk=numbers)
    assert scores.shape == (60,)
