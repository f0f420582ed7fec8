"""Loading and augmentation against training, and against a plain `DataLoader` with per-sample transforms.

One epoch of a small ResNet on CIFAR-size images is trained from the same samples in three ways, by turns: fed by
`moso`, and by `torch.utils.data.DataLoader` over a dataset that crops, mirrors and normalises one PIL image at a
time with torchvision's transforms, in this process and with two workers. Printed: the share of our epoch that
goes into loading and augmentation (to be at most 10 %), and our epoch against theirs (to be below 1).

    python benchmarks/loading.py --dataset parquet:PATH_OF_CIFAR100 --samples 10000
"""

import argparse
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from moso.data.dataset import open_dataset
from moso.data.samples import StoredSamples
from moso.data.views import Normalisation, load, split_evenly
from moso.errors import MosoError
from moso.files import write_json
from moso.models import build_model
from moso.models.compat import import_torchvision
from moso.randomness import generator
from moso.training.recipe import TrainingRecipe, load_recipe

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "loading.json"
TARGET_SHARE = 0.10
RIVAL_WORKERS = (0, 2)

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Epoch:
    """Seconds of one epoch, and how many of them the network waited for its next batch."""

    seconds: float
    waiting: float


class PerSampleImages(Dataset[tuple[Any, int]]):
    """What everybody writes: one PIL image, one chain of transforms, one sample at a time."""

    def __init__(self, samples: StoredSamples) -> None:
        import_torchvision()
        from torchvision import transforms

        self.images = np.ascontiguousarray(samples.reader.read(np.arange(len(samples))).transpose(0, 2, 3, 1))
        self.labels = samples.labels.tolist()
        size, normalisation = samples.shape[1], samples.normalisation
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(size, padding=size // 8),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(np.array(normalisation.mean) / 255, np.array(normalisation.std) / 255),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, position: int) -> tuple[Any, int]:
        return self.transform(Image.fromarray(self.images[position])), self.labels[position]


def read_samples(dataset: str | None, count: int) -> StoredSamples:
    """Up to `count` images, normalised: of a data set by name, or drawn at random."""
    if dataset is None:
        draw = generator("benchmark", "loading")
        images = draw.integers(0, 256, (count or 50_000, 3, 32, 32), dtype=np.uint8)
        samples = StoredSamples.from_arrays(images, draw.integers(0, 100, len(images)))
        return samples.normalised(Normalisation.measure(samples.reader))
    train = open_dataset(dataset).train
    if not isinstance(train, StoredSamples) or train.reader.streamed:
        raise MosoError(f"data set {dataset} is not held in memory; the benchmark is about small images that are")
    return train.take(np.arange(min(count or len(train), len(train))))


def train_epoch(network: str, recipe: TrainingRecipe, batches: Batches, samples: StoredSamples) -> Epoch:
    """One epoch of a fresh network."""
    model = build_model(network, samples.shape, len(samples.classes), seed=0)
    layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
    model.to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
    )
    waiting = 0.0
    begin = perf_counter()
    iterator = iter(batches)
    while True:
        asked = perf_counter()
        batch = next(iterator, None)
        waiting += perf_counter() - asked
        if batch is None:
            break
        inputs, labels = batch
        optimizer.zero_grad()
        F.cross_entropy(model(inputs.contiguous(memory_format=layout)), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return Epoch(perf_counter() - begin, waiting)


def our_batches(samples: StoredSamples, recipe: TrainingRecipe) -> Callable[[int], Iterator[Any]]:
    """A function from the epoch to its batches, as training gets them."""
    view = samples.training_view(recipe.augmentation, seed=0)

    def batches(epoch: int) -> Iterator[Any]:
        order = generator(0, "order", epoch).permutation(len(samples))
        return load(view, split_evenly(order, recipe.batch_size), epoch)

    return batches


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All epochs, by turns, and what they say."""
    recipe = load_recipe("cpu-small").surrogate
    busy = round(os.getloadavg()[0], 1)  # ratios taken beside other work are worth less: say so
    samples = read_samples(arguments.dataset, arguments.samples)
    ours = our_batches(samples, recipe)
    dataset = PerSampleImages(samples)
    rivals = {
        f"DataLoader, {workers} workers": DataLoader(
            dataset, recipe.batch_size, shuffle=True, num_workers=workers, generator=torch.Generator().manual_seed(0)
        )
        for workers in RIVAL_WORKERS
    }
    epochs: dict[str, list[Epoch]] = {"moso": [], **{name: [] for name in rivals}}
    for repeat in range(arguments.repeats + 1):
        turn = {"moso": train_epoch(arguments.model, recipe, ours(repeat), samples)}
        turn |= {name: train_epoch(arguments.model, recipe, loader, samples) for name, loader in rivals.items()}
        for name, epoch in turn.items():
            print(f"  repeat {repeat}: {name:<22} {epoch.seconds:7.2f} s, waiting {epoch.waiting:6.2f} s", flush=True)
            if repeat:  # the first turn warms up
                epochs[name].append(epoch)
    seconds = {name: median(epoch.seconds for epoch in runs) for name, runs in epochs.items()}
    share = median(epoch.waiting / epoch.seconds for epoch in epochs["moso"])
    return {
        "benchmark": "loading",
        "machine": {
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "load_before_and_after": [busy, round(os.getloadavg()[0], 1)],
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "data": "synthetic images" if arguments.dataset is None else "real images",
        "samples": len(samples),
        "model": arguments.model,
        "recipe": recipe.model_dump(exclude_none=True),
        "repeats": arguments.repeats,
        "epoch_seconds": {name: round(value, 3) for name, value in seconds.items()},
        "every_epoch_seconds": {name: [round(epoch.seconds, 3) for epoch in runs] for name, runs in epochs.items()},
        "loading_share": round(share, 4),
        "target_loading_share": TARGET_SHARE,
        "epoch_against_rival": {name: round(seconds["moso"] / seconds[name], 3) for name in rivals},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--dataset", help="a data set of small images, such as parquet:PATH; without it, synthetic ones"
    )
    parser.add_argument("--samples", type=int, default=10_000, help="how many samples; 0 for all (50,000 synthetic)")
    parser.add_argument("--model", default="resnet8-w24")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments)
    write_json(arguments.out, result)
    print(f"loading and augmentation: {result['loading_share']:.1%} of an epoch (target: at most {TARGET_SHARE:.0%})")
    for name, ratio in result["epoch_against_rival"].items():
        print(f"epoch of moso / epoch of {name}: {ratio:.2f} (target: below 1)")


if __name__ == "__main__":
    main()
