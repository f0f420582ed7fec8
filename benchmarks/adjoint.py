"""What the adjoint costs: in runs of the very training it differentiates, and in memory of its training steps.

Training, and the sweep over the same run (replay included), in turns on one thread; the processor's seconds, of each
the least of several. Memory is the peak of PyTorch's allocations; the states that a replay holds are told apart from
what the arithmetic takes. The limit is 4 runs: a replay (1), and second derivatives along one direction (3).

    python -m benchmarks.adjoint                         # a small ResNet on CIFAR-shaped batches, batch-norm
    python -m benchmarks.adjoint --model convnet-w32 --batch 64 --steps 16
"""

import argparse
import copy
import json
import os
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import torch

from benchmarks.scoring.memory import peak_memory
from moso.adjoint import Replay, ReplayRecorder, adjoint_sweep
from moso.data.samples import StoredSamples
from moso.files import write_json
from moso.models import build_model
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "adjoint.json"
CLASSES = 100


BATCHES = 1  # of the made-up data: the risk is taken once a run, over all of it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet8-w24")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--probes", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    count = BATCHES * given.batch
    images = np.random.default_rng(0).integers(0, 255, (count, 3, 32, 32)).astype(np.uint8)
    samples = StoredSamples.from_arrays(images, np.arange(count) % CLASSES)
    recipe = TrainingRecipe(
        epochs=-(-given.steps // BATCHES),
        batch_size=given.batch,
        learning_rate=0.1,
        schedule="cosine",
        nesterov=True,
        weight_decay=5e-4,
        augmentation="crop-flip",
        channels_last=True,
    )
    data = TrainingData(samples.training_view("crop-flip", 0), np.arange(count), samples.keys)
    plan = StepPlan(data, recipe, seed=0, total_steps=given.steps)
    start = build_model(given.model, (3, 32, 32), CLASSES, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        recorder = ReplayRecorder(Path(folder), given.steps)

        def trained() -> None:
            train(copy.deepcopy(start), plan)

        train(copy.deepcopy(start), plan, callbacks=[recorder])
        replay = Replay(Path(folder), start, data, recipe, 0, given.steps)

        def swept() -> None:
            adjoint_sweep(replay, evaluation_view=samples.evaluation_view(), probes=given.probes)

        seconds: dict[str, list[float]] = {"train": [], "adjoint": []}
        for _ in range(given.repeats):
            for name, work in (("train", trained), ("adjoint", swept)):
                began = process_time()
                work()
                seconds[name].append(process_time() - began)
        memory = {"train": peak_memory(trained)[1], "adjoint": peak_memory(swept)[1]}
        held = (recorder.every + 1) * replay.end().size()
    least = {name: min(found) for name, found in seconds.items()}
    row = {
        "model": given.model,
        "batch": given.batch,
        "steps": given.steps,
        "probes": given.probes,
        "train_seconds": round(least["train"], 3),
        "adjoint_seconds": round(least["adjoint"], 3),
        "runs": round(least["adjoint"] / least["train"], 2),
        "train_mib": round(memory["train"] / 2**20, 1),
        "adjoint_mib": round(memory["adjoint"] / 2**20, 1),
        "held_states_mib": round(held / 2**20, 1),
        "training_steps_of_memory": round((memory["adjoint"] - held) / memory["train"], 2),
        "load": round(os.getloadavg()[0], 1),
        "torch": torch.__version__,
    }
    print(json.dumps(row, indent=2))
    rows = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    rows[f"{given.model}, batch {given.batch}, {given.probes} probes"] = row
    write_json(given.out, rows)


if __name__ == "__main__":
    main()
