"""Wrong uses of the library: one sentence each, in the library's own words and not in flags of the command line."""

import numpy as np
import pytest
import torch
from small_problems import FAST, table
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import moso
from moso.errors import MosoError

ROWS, LABELS = table()
NETWORK = nn.Linear(4, 3)
WIDE = nn.Linear(5, 3)
STATES = [(NETWORK.state_dict(), 0.1)]


class OwnOutput(nn.Module):
    """Gives an object without logits, as encoders of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, rows):
        return {"last_hidden_state": self.layer(rows)}


def scored(data=(ROWS, LABELS), model=NETWORK, trajectory=STATES, **more):
    return lambda: moso.score(model, data, trajectory, **more)


def pruned(data=(ROWS, LABELS), **more):
    return lambda: moso.prune(data, **{"ratio": 0.5, **FAST, **more})


USES = {
    "labels of another length": (pruned((ROWS, LABELS[:50])), "length-mismatch"),
    "one array without labels": (pruned(ROWS), "wrong-type"),
    "a path as data": (pruned("images/train"), "wrong-type"),
    "a loader as data": (pruned(DataLoader(TensorDataset(torch.zeros(4, 4)))), "wrong-type"),
    "an iterator as data": (pruned(iter([(ROWS[0], 0)])), "wrong-type"),
    "no data": (pruned(None), "wrong-type"),
    "a network for other inputs": (scored(model=WIDE, trajectory=[(WIDE.state_dict(), 0.1)]), "network-failed"),
    "a network for other inputs to train": (pruned(model=WIDE), "network-failed"),
    "a network with too few outputs to train": (pruned(model=nn.Linear(4, 2)), "model-unsuitable"),
    "a network without an output for a label": (
        scored(model=nn.Linear(4, 2), trajectory=[(nn.Linear(4, 2).state_dict(), 0.1)]), "model-unsuitable",
    ),
    "a device that is not there": (scored(device="cuda:9"), "device-unavailable"),
    "a label that is a fraction": (scored((ROWS, LABELS + 0.5)), "label-invalid"),
    "a label below zero": (pruned((ROWS, LABELS - 1)), "label-invalid"),
    "a label that the training data lacks": (pruned(test_set=(ROWS[:4], [0, 1, 2, 3])), "label-invalid"),
    "test inputs of another shape": (pruned(test_set=(ROWS[:, :3], LABELS)), "shape-mismatch"),
    "a path as trajectory": (scored(trajectory="runs/mine"), "wrong-type"),
    "a bare pair as trajectory": (scored(trajectory=STATES[0]), "wrong-type"),
    "a state without its rate": (scored(trajectory=[NETWORK.state_dict()]), "wrong-type"),
    "checkpoints of another network": (scored(trajectory=[(nn.Linear(4, 7).state_dict(), 0.1)]), "checkpoint-mismatch"),
    "a network in half precision": (scored(model=nn.Linear(4, 3).half()), "model-unsuitable"),
    "a network in half precision to train": (pruned(model=nn.Linear(4, 3).bfloat16()), "model-unsuitable"),
    "an output object without logits": (
        scored(model=OwnOutput(), trajectory=[(OwnOutput().state_dict(), 0.1)]), "model-unsuitable",
    ),
    "a name as network": (scored(model="resnet18"), "wrong-type"),
    "a batch of three parts under the default loss": (scored([(ROWS[0], 1, 2)] * 4), "loss-invalid"),
    "dictionaries without a label under the default loss": (scored([{"x": ROWS[0], "kind": 1}] * 4), "loss-invalid"),
    "a loss for the whole batch": (
        scored(loss=lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1])), "loss-invalid",
    ),
    "a percentage as ratio": (pruned(ratio=50), "ratio-out-of-range"),
    "a setting of another type": (pruned(epochs="many"), "recipe-invalid"),
    "an unknown method": (pruned(method="mosso"), "unknown-name"),
    "an unknown network": (pruned(model="resnet-18"), "unknown-name"),
    "a method object of another kind": (pruned(method=3), "wrong-type"),
    "a risk that is a number": (scored(risk=0.5), "wrong-type"),
    "no risk at all": (scored(risk={}), "setting-invalid"),
    "validation without data": (pruned(risk="validation"), "setting-missing"),
    "a column of data without columns": (pruned(labels="species"), "wrong-type"),
    "an empty data set": (pruned((ROWS[:0], LABELS[:0])), "data-empty"),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_wrong_use_is_one_sentence(use):
    call, code = USES[use]
    with pytest.raises(MosoError) as problem:
        call()
    sentence = str(problem.value)
    assert problem.value.code == code, sentence
    assert "--" not in sentence
    assert "\n" not in sentence
    assert 20 < len(sentence) < 400


def test_scores_of_another_length_or_with_nan_are_refused():
    for scores, more, code in (
        ([0.1, float("nan")], {}, "values-not-finite"),
        ([[0.1, 0.2]], {}, "shape-mismatch"),
        ([0.1, 0.2], {"labels": [0]}, "length-mismatch"),
        (np.ones(4), {"selector": "balanced"}, "evidence-missing"),
    ):
        with pytest.raises(MosoError) as problem:
            moso.select(scores, ratio=0.5, **more)
        assert problem.value.code == code
