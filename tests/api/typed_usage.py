"""How the library is used, with types: checked by mypy and pyright and run by test_types.py."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

import moso


def prune_everything(folder: Path) -> list[int]:
    rows: NDArray[np.float32] = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    labels: NDArray[np.int64] = np.arange(40) % 2
    config = moso.PruneConfig(recipe="quick", time_steps=2, partitions=1)
    pruned: moso.Pruned = moso.prune(
        (rows, labels), keep=20, model=nn.Linear(4, 2), test_set=(rows, labels), config=config, seed=1, out=folder
    )
    sentence: str = str(pruned.verdict)
    loaded = moso.Pruned.load(folder, train_set=(rows, labels))
    assert sentence
    assert repr(loaded) == repr(pruned)
    network = nn.Linear(4, 2)
    states = [(network.state_dict(), 0.1)]
    scores: NDArray[np.float64] = moso.score(network, (rows, labels), states)
    risks: dict[str, moso.Risk] = {"first": moso.SampleRisk.of((rows, labels), range(10))}
    several: dict[str, NDArray[np.float64]] = moso.score(network, (rows, labels), states, risk=risks)
    kept: NDArray[np.int64] = moso.select(scores + several["first"], ratio="50%", labels=labels)
    method: moso.Method | moso.Score | str = "moso"
    loss: moso.Loss = moso.cross_entropy
    moso.prune((rows, labels), ratio=0.5, method=method, loss=loss, recipe="quick", time_steps=1, partitions=1)
    return [int(position) for position in kept]
