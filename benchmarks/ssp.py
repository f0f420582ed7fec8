"""SSP: how much an embedding that was trained without labels knows of the classes, and what pruning by it leaves.

The embedding is judged by its nearest neighbours: each test picture is given the class of most of the `k` training
pictures whose features are nearest by cosine, and the rival is the same network before training. Training runs on one
thread; the seed is that of the network, of the subset and of every draw.

For the digits, what `ssp` keeps (the far end, the source's, and the near end) is trained on, beside a random choice.

    python -m benchmarks.ssp --dataset cifar100:PATH        # or parquet:PATH; a quarter of an hour a seed
    python -m benchmarks.ssp                                # the digits alone
"""

import argparse
import os
import platform
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.data import open_dataset
from moso.data.dataset import DataSet
from moso.files import write_json
from moso.models import build_model
from moso.randomness import generator
from moso.scores.ssp import ssp_scores
from moso.selection import kept_count
from moso.training.loop import TrainingData, predict, threads, train
from moso.training.recipe import load_recipe
from moso.training.self_supervised import (
    Unlabelled,
    features_of,
    learn_without_labels,
    self_supervised_features,
    without_classifier,
)
from moso.training.two_views import Distortion

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "ssp.json"
NETWORK, SAMPLES, NEIGHBOURS = "resnet8-w32", 20_000, 20
RATIOS = (0.4, 0.8)
DIGITS = Unlabelled(
    recipe=Unlabelled().recipe.changed(epochs=20), distortion=Distortion(least_area=0.3, side=1.0, mirror=False)
)

Positions = NDArray[np.int64]


def knn_accuracy(encoder: nn.Module, data: DataSet, positions: Positions, asked: Positions, k: int) -> float:
    """The share of `asked` test samples whose class is that of most of their `k` nearest among `positions`."""
    from sklearn.neighbors import KNeighborsClassifier

    assert data.test is not None
    known = features_of(encoder, data.train.evaluation_view(), positions)
    unknown = features_of(encoder, data.test.evaluation_view(), asked)
    known, unknown = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (known, unknown))
    neighbours = KNeighborsClassifier(k, algorithm="brute").fit(known, data.train.labels[positions])
    return float(neighbours.score(unknown, data.test.labels[asked]))


def embedding(data: DataSet, network: str, samples: int, how: Unlabelled, seed: int) -> dict[str, Any]:
    """Accuracy before and after training on a subset, and what training took."""
    assert data.test is not None
    view, count = data.train.evaluation_view(), len(data.train)
    positions = np.sort(generator(seed, "ssp-benchmark", count).permutation(count)[:samples])
    asked = np.arange(len(data.test))
    before = knn_accuracy(without_classifier(network, view, seed), data, positions, asked, NEIGHBOURS)
    started = perf_counter(), process_time()
    encoder = learn_without_labels(network, TrainingData(view, positions, data.train.keys), how, seed=seed)
    spent = {"seconds": round(perf_counter() - started[0]), "cpu_seconds": round(process_time() - started[1])}
    after = knn_accuracy(encoder, data, positions, asked, NEIGHBOURS)
    found = {"untrained": round(100 * before, 2), "trained": round(100 * after, 2), **spent}
    print(f"seed {seed}  {found}", flush=True)
    return found


def digits_cell(noise: float, seed: int) -> dict[str, list[float]]:
    """Accuracy at each ratio after training on what each way keeps of the digits."""
    data, recipe = open_dataset("digits", label_noise=noise, seed=seed), load_recipe("digits").retraining
    samples, test = data.train, data.test
    assert test is not None
    everything = TrainingData(samples.evaluation_view(), np.arange(len(samples)), samples.keys)
    scores = ssp_scores(self_supervised_features("convnet", everything, DIGITS, seed=seed), 10, seed)
    found: dict[str, list[float]] = {"random": [], "ssp (far)": [], "ssp (near)": []}
    for ratio in RATIOS:
        budget = kept_count(len(samples), ratio)
        order = np.argsort(-scores, kind="stable")
        ways = {
            "random": np.random.default_rng(seed).permutation(len(samples))[:budget],
            "ssp (far)": order[:budget],
            "ssp (near)": order[::-1][:budget],
        }
        for name, kept in ways.items():
            network = build_model("convnet", samples.shape, 10, seed)
            source = TrainingData(samples.training_view(recipe.augmentation, seed), np.sort(kept), samples.keys)
            train(network, source, recipe, seed=seed)
            outputs = predict(network, test.evaluation_view(), np.arange(len(test)))
            found[name].append(float((outputs.argmax(1).numpy() == test.labels).mean()))
    return found


def digits(seeds: int) -> dict[str, Any]:
    """Mean accuracy and its standard error over the seeds, in per cent, by noise, way and ratio."""
    table: dict[str, Any] = {"seeds": seeds, "ratios": RATIOS, "recipe": "digits", "network": "convnet"}
    for noise in (0.0, 0.2):
        cells = [digits_cell(noise, seed) for seed in range(seeds)]
        for name in cells[0]:
            values = 100 * np.array([cell[name] for cell in cells])
            error = values.std(axis=0, ddof=1) / seeds**0.5
            row = {"accuracy": values.mean(axis=0).round(2).tolist(), "standard_error": error.round(2).tolist()}
            table.setdefault(f"label_noise_{noise}", {})[name] = row
            print(f"noise {noise}  {name:11s} {row}", flush=True)
    return table


def described(how: Unlabelled) -> dict[str, Any]:
    """A recipe without labels, all of it."""
    rest = {"temperature": how.temperature, "hidden": how.hidden, "projected": how.projected}
    return {"recipe": how.recipe.model_dump(exclude_defaults=True), "views": vars(how.distortion), **rest}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", help="pictures with a test split; without them, the digits alone")
    arguments.add_argument("--network", default=NETWORK)
    arguments.add_argument("--samples", type=int, default=SAMPLES, help="training pictures")
    arguments.add_argument("--seeds", type=int, default=2, help="of the embedding")
    arguments.add_argument("--digits", type=int, default=6, help="seeds of the digits; 0 leaves them out")
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    load, how = [round(os.getloadavg()[0], 1)], Unlabelled()
    result: dict[str, Any] = {"benchmark": "ssp", "python": platform.python_version(), "torch": torch.__version__}
    with threads(1):
        if given.dataset:
            data = open_dataset(given.dataset)
            runs = [embedding(data, given.network, given.samples, how, seed) for seed in range(given.seeds)]
            # The folder a data set lies in is nobody else's business.
            name = Path(given.dataset.partition(":")[2] or given.dataset).name
            setting = {"dataset": name, "network": given.network, "samples": given.samples, "neighbours": NEIGHBOURS}
            result["embedding"] = {**setting, "threads": 1, **described(how), "seeds": runs}
        if given.digits > 1:
            result["digits"] = {**digits(given.digits), **described(DIGITS)}
    load.append(round(os.getloadavg()[0], 1))
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "load_before_and_after": load}
    write_json(given.out, {**result, "machine": machine})


if __name__ == "__main__":
    main()
