"""OPT: how short a sum its solver finds, in which time and memory, and what pruning by it leaves of the digits.

The solver's measurements are processes of their own, on influences of 512 numbers per sample in a memory-mapped file,
made up to differ in length and direction as a trained network's do, and 70 % are removed. Its rivals are random sets,
the samples of least influence each, and the simple greedy rule (one sample after the other, each the one with which the
sum is shortest), which takes N removed d and is only run on the smallest size.

For the digits, one network is trained on all of them, influences are taken from its end (`last-layer` and `all`), and
what each selection keeps is trained anew, clean and with 20 % wrong labels; a seed is the whole pipeline.

    python -m benchmarks.opt                 # 4,000 and 50,000 samples, and the digits
    python -m benchmarks.opt --full          # 1.3 million samples, too
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moso.data import open_dataset
from moso.evidence.second_order.influences import influences
from moso.files import write_json
from moso.models import build_model
from moso.scores.opt import opt_scores
from moso.selection import kept_count
from moso.selection.selectors.opt_selection import distance_moved, select_fixed_size
from moso.training.loop import StepPlan, TrainingData, predict, threads, train
from moso.training.recipe import load_recipe

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "opt.json"
RATIO, DIMENSION = 0.7, 512
SIZES, FULL_SIZE = [4_000, 50_000], 1_300_000
CHUNK = 20_000
RATIOS, NOISES = (0.4, 0.8), (0.0, 0.2)

Rows = NDArray[np.float32]


def write_influences(path: Path, count: int) -> None:
    """Rows in clusters, their lengths exponential, with some directions far stronger than others."""
    draw = np.random.default_rng(0)
    strengths = (1 / np.sqrt(np.arange(1, DIMENSION + 1))).astype(np.float32)
    centres = draw.standard_normal((100, DIMENSION), dtype=np.float32)
    centres -= centres.mean(axis=0)  # at the end of training, influences add up to about nothing
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            rows = draw.standard_normal((size, DIMENSION), dtype=np.float32) + centres[draw.integers(0, 100, size)]
            lengths = draw.exponential(size=(size, 1)).astype(np.float32)
            file.write(np.ascontiguousarray(rows * lengths * strengths / count).tobytes())


def greedy(rows: Rows, removed: int) -> NDArray[np.int64]:
    """The positions that the simple rule keeps."""
    squared, pull = np.square(rows, dtype=np.float64).sum(axis=1), np.zeros(len(rows))
    gone = np.zeros(len(rows), dtype=bool)
    for _ in range(removed):
        chosen = int(np.argmin(np.where(gone, np.inf, 2 * pull + squared)))
        gone[chosen] = True
        pull += rows @ rows[chosen]
    return np.flatnonzero(~gone)


def run_solver(path: Path, count: int, rivals: bool) -> dict[str, Any]:
    """One size: time, memory and the length of the sum, and those of the rivals' sums if asked for."""
    rows = np.memmap(path, np.float32, "r", shape=(count, DIMENSION))
    budget = kept_count(count, RATIO)
    started = perf_counter(), process_time()
    kept = select_fixed_size(rows, budget)
    result = {
        "kept": len(kept),
        "seconds": round(perf_counter() - started[0], 1),
        "cpu_seconds": round(process_time() - started[1], 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    draw = np.random.default_rng(1)
    random = np.mean([distance_moved(rows, draw.permutation(count)[:budget]) for _ in range(5)])
    sums = {"least": np.argsort(-opt_scores(rows), kind="stable")[:budget]} | (
        {"greedy": greedy(rows, count - budget)} if rivals else {}
    )
    share = {name: distance_moved(rows, rest) / random for name, rest in {"ours": kept, **sums}.items()}
    return {**result, "sum_over_random": {name: float(f"{value:.3g}") for name, value in share.items()}}


def in_a_process(count: int, folder: Path, rivals: bool) -> dict[str, Any]:
    """One size, alone in its process, its file made before and removed after it."""
    path = folder / f"influences-{count}"
    write_influences(path, count)
    command = [sys.executable, "-m", "benchmarks.opt", "--one", str(path), str(count), str(int(rivals))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    path.unlink()
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{count:11,d}  {result}", flush=True)
    return result


def digits_cell(noise: float, seed: int) -> dict[str, list[float]]:
    """Accuracy at each ratio after training on what each way keeps of the digits."""
    data, recipe = open_dataset("digits", label_noise=noise, seed=seed), load_recipe("digits")
    samples, test = data.train, data.test
    assert test is not None
    every, view = np.arange(len(samples)), samples.evaluation_view()

    def trained(kept: NDArray[np.int64], how: str, own: int) -> torch.nn.Module:
        network = build_model("convnet", samples.shape, 10, own)
        chosen = getattr(recipe, how)
        source = TrainingData(samples.training_view(chosen.augmentation, seed), np.sort(kept), samples.keys)
        train(network, StepPlan(source, chosen, seed))
        return network

    whole = trained(every, "surrogate", seed)
    decay = recipe.surrogate.weight_decay
    last = influences(whole, view, every, weight_decay=decay, seed=seed)
    full = influences(whole, view, every, weight_decay=decay, seed=seed, parameters="all")
    found: dict[str, list[float]] = {"random": [], "opt (last-layer)": [], "opt (all)": []}
    for ratio in RATIOS:
        budget = kept_count(len(samples), ratio)
        ways = {
            "random": np.random.default_rng(seed).permutation(len(samples))[:budget],
            "opt (last-layer)": select_fixed_size(last, budget, seed),
            "opt (all)": select_fixed_size(full, budget, seed),
        }
        for name, kept in ways.items():
            outputs = predict(trained(kept, "retraining", seed), test.evaluation_view(), np.arange(len(test)))
            found[name].append(float((outputs.argmax(1).numpy() == test.labels).mean()))
    return found


def digits(seeds: int) -> dict[str, Any]:
    """Mean accuracy and its standard error over the seeds, in per cent, by noise, way and ratio."""
    table: dict[str, Any] = {"seeds": seeds, "ratios": RATIOS, "recipe": "digits", "network": "convnet"}
    for noise in NOISES:
        cells = [digits_cell(noise, seed) for seed in range(seeds)]
        for name in cells[0]:
            values = 100 * np.array([cell[name] for cell in cells])
            error = values.std(axis=0, ddof=1) / seeds**0.5
            row = {"accuracy": values.mean(axis=0).round(2).tolist(), "standard_error": error.round(2).tolist()}
            table.setdefault(f"label_noise_{noise}", {})[name] = row
            print(f"noise {noise}  {name:17s} {row}", flush=True)
    return table


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--full", action="store_true", help="1.3 million samples, too")
    arguments.add_argument("--sizes", type=int, nargs="*", help="samples, in place of the usual sizes")
    arguments.add_argument("--seeds", type=int, default=6, help="of the digits; 0 leaves them out")
    arguments.add_argument("--folder", type=Path, help="where influences are written; a temporary folder by default")
    arguments.add_argument("--out", type=Path, default=OUT)
    arguments.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        path, count, rivals = given.one
        print(json.dumps(run_solver(Path(path), int(count), rivals == "1")))
        return
    sizes = given.sizes if given.sizes is not None else SIZES + [FULL_SIZE] * given.full
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        solver = {str(count): in_a_process(count, Path(folder), count <= SIZES[0]) for count in sizes}
    with threads(1):
        accuracy = digits(given.seeds) if given.seeds > 1 else None
    load.append(round(os.getloadavg()[0], 1))
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "load_before_and_after": load}
    setting = {"ratio": RATIO, "dimension": DIMENSION, "python": platform.python_version(), "torch": torch.__version__}
    result = {"benchmark": "opt", "machine": machine, **setting, "solver": solver, "digits": accuracy}
    write_json(given.out, result)


if __name__ == "__main__":
    main()
