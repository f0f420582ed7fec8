"""SSP: how much an embedding that was trained without labels knows of the classes, and what pruning by it leaves.

The embedding is judged by its nearest neighbours: each test picture is given the class of most of the `k` training
pictures whose features are nearest by cosine. Its rivals are the same network before training, and the pixels
themselves. Training runs on one thread; the seed is that of the network, of the subset and of every draw.

For the digits, what `ssp` keeps (the far end, the source's, or the near end; of all, or of each class equally many) is
trained on, beside a random choice.

    python -m benchmarks.ssp --dataset cifar100:PATH        # or parquet:PATH; some ten minutes a seed and network
    python -m benchmarks.ssp                                # the digits alone
"""

import argparse
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso.data import open_dataset
from moso.data.dataset import DataSet
from moso.data.views import View
from moso.files import write_json
from moso.models import build_model
from moso.models.compat import import_timm
from moso.randomness import generator, seeded
from moso.scores.ssp import ssp_scores
from moso.selection import select
from moso.training.loop import StepPlan, TrainingData, predict, threads, train
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
SAMPLES, NEIGHBOURS = 20_000, 20
RECIPE = Unlabelled().recipe.changed(epochs=3, warmup_epochs=0.5)
# A network of timm as it is, with the stem it has for large pictures, and one of ours, whose views are made smaller.
LARGE_STEM = "large-stem:"
NETWORKS = {
    "large-stem:resnet18": Unlabelled(RECIPE.changed(learning_rate=1e-3), Distortion(least_area=0.25)),
    "resnet8-w32": Unlabelled(RECIPE, Distortion(least_area=0.25, side=0.625)),
}
RATIOS = (0.4, 0.8)
DIGITS = Unlabelled(
    recipe=Unlabelled().recipe.changed(epochs=20), distortion=Distortion(least_area=0.3, side=1.0, mirror=False)
)

Positions = NDArray[np.int64]
Rows = NDArray[np.float32]


def build(name: str, shape: tuple[int, ...], seed: int) -> nn.Module:
    """A network by its name here or, after `large-stem:`, at timm."""
    if not name.startswith(LARGE_STEM):
        return build_model(name, shape, 2, seed)
    with seeded(seed, "init"):
        network: nn.Module = import_timm().create_model(name.removeprefix(LARGE_STEM), in_chans=shape[0], num_classes=2)
    return network


def knn_accuracy(known: Rows, labels: Positions, asked: Rows, answers: Positions, k: int = NEIGHBOURS) -> float:
    """The share, in per cent, of `asked` whose class is that of most of their `k` nearest by cosine."""
    from sklearn.neighbors import KNeighborsClassifier

    known, asked = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (known, asked))
    neighbours = KNeighborsClassifier(k, algorithm="brute").fit(known, labels)
    return round(100 * float(neighbours.score(asked, answers)), 2)


def embedding(
    data: DataSet, name: str, samples: int, how: Unlabelled, seed: int, asked: int | None = None
) -> dict[str, Any]:
    """Accuracy of the pixels, and of the network before and after training on a subset, and what training took."""
    assert data.test is not None
    train_view, test_view, count = data.train.evaluation_view(), data.test.evaluation_view(), len(data.train)
    positions = np.sort(generator(seed, "ssp-benchmark", count).permutation(count)[:samples])
    questions = np.arange(asked or len(data.test))
    labels, answers = data.train.labels[positions], data.test.labels[questions]

    def accuracy(of: Callable[[View, Positions], Rows]) -> float:
        return knn_accuracy(of(train_view, positions), labels, of(test_view, questions), answers)

    def pixels(view: View, chosen: Positions) -> Rows:
        inputs: Rows = view.batch(chosen)[0].flatten(1).numpy()
        return inputs

    network = build(name, data.train.shape, seed)
    untrained = without_classifier(network, train_view, seed)
    found: dict[str, Any] = {"pixels": accuracy(pixels), "untrained": accuracy(partial(features_of, untrained))}
    started = perf_counter(), process_time()
    trained = learn_without_labels(network, TrainingData(train_view, positions, data.train.keys), how, seed=seed)
    spent = {"seconds": round(perf_counter() - started[0]), "cpu_seconds": round(process_time() - started[1])}
    found |= {"trained": accuracy(partial(features_of, trained)), **spent}
    print(f"{name}  seed {seed}  {found}", flush=True)
    return found


def digits_cell(noise: float, seed: int) -> dict[str, list[float]]:
    """Accuracy at each ratio after training on what each way keeps of the digits."""
    data, recipe = open_dataset("digits", label_noise=noise, seed=seed), load_recipe("digits").retraining
    samples, test = data.train, data.test
    assert test is not None
    everything = TrainingData(samples.evaluation_view(), np.arange(len(samples)), samples.keys)
    scores = ssp_scores(self_supervised_features("convnet", everything, DIGITS, seed=seed), 10, seed)
    found: dict[str, list[float]] = {}
    for ratio in RATIOS:
        ways = {
            "random": select(scores, ratio=ratio, selector="random", seed=seed),
            "far": select(scores, ratio=ratio, selector="top"),
            "far, class by class": select(scores, ratio=ratio, selector="balanced", labels=samples.labels),
            "near": select(-scores, ratio=ratio, selector="top"),
            "near, class by class": select(-scores, ratio=ratio, selector="balanced", labels=samples.labels),
        }
        for name, kept in ways.items():
            network = build_model("convnet", samples.shape, 10, seed)
            source = TrainingData(samples.training_view(recipe.augmentation, seed), np.sort(kept), samples.keys)
            train(network, StepPlan(source, recipe, seed))
            outputs = predict(network, test.evaluation_view(), np.arange(len(test)))
            found.setdefault(name, []).append(float((outputs.argmax(1).numpy() == test.labels).mean()))
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
            print(f"noise {noise}  {name:20s} {row}", flush=True)
    return table


def described(how: Unlabelled) -> dict[str, Any]:
    """A recipe without labels, all of it."""
    rest = {"temperature": how.temperature, "hidden": how.hidden, "projected": how.projected}
    return {"recipe": how.recipe.model_dump(exclude_defaults=True), "views": vars(how.distortion), **rest}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--dataset", help="pictures with a test split; without them, the digits alone")
    arguments.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    arguments.add_argument("--samples", type=int, default=SAMPLES, help="training pictures")
    arguments.add_argument("--seeds", type=int, default=2, help="of the embedding")
    arguments.add_argument("--digits", type=int, default=6, help="seeds of the digits; 0 leaves them out")
    arguments.add_argument("--out", type=Path, default=OUT)
    given = arguments.parse_args()
    load = [round(os.getloadavg()[0], 1)]
    result: dict[str, Any] = {"benchmark": "ssp", "python": platform.python_version(), "torch": torch.__version__}
    with threads(1):
        if given.dataset:
            data = open_dataset(given.dataset)
            # The folder a data set lies in is nobody else's business.
            name = Path(given.dataset.partition(":")[2] or given.dataset).name
            result["embedding"] = {"dataset": name, "samples": given.samples, "neighbours": NEIGHBOURS, "threads": 1}
            for network in given.networks:
                how = NETWORKS[network]
                runs = [embedding(data, network, given.samples, how, seed) for seed in range(given.seeds)]
                result["embedding"][network] = {**described(how), "seeds": runs}
        if given.digits > 1:
            result["digits"] = {**digits(given.digits), **described(DIGITS)}
    load.append(round(os.getloadavg()[0], 1))
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "load_before_and_after": load}
    write_json(given.out, {**result, "machine": machine})


if __name__ == "__main__":
    main()
