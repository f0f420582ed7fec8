"""The cost of one time step of scoring, in training epochs of the same network, against two rivals in the same run.

Rivals: the batch-of-one double loop (how the authors' code works) and mean gradient + `torch.func.vmap(grad)`. All
take the same samples at the same parameters; repeats are interleaved, medians are reported, and every engine's score is
held against plain autograd in float64, one sample at a time.

    python benchmarks/scoring.py --network resnet8 --samples 1024 --batch 64
"""

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from moso.evidence import StepTerms
from moso.files import write_json
from moso.gradients import Point, cross_entropy, directional_derivatives, mean_gradient, time_step
from moso.models import build_model
from moso.scores import agreement

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"
Scores = NDArray[np.float64]


def batches(inputs: torch.Tensor, labels: torch.Tensor, size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(inputs[i : i + size], labels[i : i + size]) for i in range(0, len(labels), size)]


def scored(dot: Scores, squared_norm: Scores) -> Scores:
    return agreement(StepTerms(1, (1.0,), dot[None], squared_norm[None]))


def gradient_of_one(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(model(inputs[None]), labels[None])
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def loop_of_one(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> Scores:
    """A pass for the mean, a pass for each sample's product with it, both a sample at a time."""
    total = torch.stack([gradient_of_one(model, x, y) for x, y in zip(inputs[:1], labels[:1], strict=True)]).sum(0)
    for x, y in zip(inputs[1:], labels[1:], strict=True):
        total += gradient_of_one(model, x, y)
    mean = total.double() / len(labels)
    dot, norm = np.zeros(len(labels)), np.zeros(len(labels))
    for z, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        own = gradient_of_one(model, x, y).double()
        dot[z], norm[z] = float(own @ mean), float(own @ own)
    return scored(dot, norm)


def with_vmap(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, size: int) -> Scores:
    point = Point.of(model, cross_entropy)
    plan = batches(inputs, labels, size)
    mean = mean_gradient(point, lambda: plan)
    values, buffers = {n: p.detach() for n, p in model.named_parameters()}, dict(model.named_buffers())

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, {**values, **buffers}, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    dots, norms = [], []
    for x, y in plan:
        gradients = each(values, x, y)
        dots.append(sum((g.flatten(1).double() @ mean[n].flatten() for n, g in gradients.items()), torch.zeros(len(y))))
        norms.append(sum((g.flatten(1).double().square().sum(1) for g in gradients.values()), torch.zeros(len(y))))
    return scored(torch.cat(dots).numpy(), torch.cat(norms).numpy())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--network", default="resnet8")
    arguments.add_argument("--samples", type=int, default=1024)
    arguments.add_argument("--batch", type=int, default=64)
    arguments.add_argument("--size", type=int, default=32)
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    inputs, labels = torch.randn(given.samples, 3, given.size, given.size), torch.randint(0, 100, (given.samples,))
    model = build_model(given.network, (3, given.size, given.size), 100, seed=0)
    learner = build_model(given.network, (3, given.size, given.size), 100, seed=0)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.01, momentum=0.9)
    plan = batches(inputs, labels, given.batch)
    model.train()
    with torch.no_grad():
        model(inputs[: given.batch])
    model.eval()

    def training_epoch() -> None:
        for x, y in plan:
            optimizer.zero_grad()
            F.cross_entropy(learner(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def ours() -> Scores:
        step = time_step(Point.of(model, cross_entropy), lambda: plan)
        return scored(step.dot[0], step.squared_norm[0])

    def ours_without_norm() -> Scores:
        point = Point.of(model, cross_entropy)
        mean = mean_gradient(point, lambda: plan)
        return np.asarray(directional_derivatives(point, lambda: plan, mean)[0])

    engines: dict[str, Callable[[], Scores | None]] = {
        "training epoch": training_epoch,
        "moso": ours,
        "moso, without the norm": ours_without_norm,
        "mean gradient + vmap(grad)": lambda: with_vmap(model, inputs, labels, given.batch),
        "batch of one": lambda: loop_of_one(model, inputs, labels),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    results: dict[str, Scores | None] = {}
    for repeat in range(given.repeats + 1):  # the first warms up
        for name, engine in engines.items():
            started = perf_counter()
            results[name] = engine()
            if repeat:
                seconds[name].append(perf_counter() - started)
    truth = loop_of_one(model.double(), inputs.double(), labels)
    epoch = median(seconds["training epoch"])
    rows = {}
    for name, found in results.items():
        error = None
        if found is not None and "without" not in name:
            error = float(np.abs(found - truth).max() / np.abs(truth).max())
        rows[name] = {"epochs": round(median(seconds[name]) / epoch, 2), "largest_error": error}
        print(f"{name:28s} {rows[name]['epochs']:6.2f} training epochs   largest error {error}")
    machine = {"cores": os.cpu_count(), "threads": given.threads, "architecture": platform.machine()}
    setting = {name: getattr(given, name) for name in ("network", "samples", "batch", "size", "repeats")}
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    OUT.mkdir(parents=True, exist_ok=True)
    result = {"benchmark": "scoring", **setting, "machine": machine, **versions, "engines": rows}
    write_json(OUT / f"scoring-{given.network}.json", result)


if __name__ == "__main__":
    main()
