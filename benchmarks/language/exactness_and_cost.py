"""Scores of language models: how far from brute force, and what a time step costs in epochs of training.

A GPT-2-like and a Llama-like model, all weights and LoRA, with random weights, on sequences of random lengths. Brute
force is autograd, one sample at a time, in float32. Costs are processor seconds of this process; training epochs, plain
and optimizer-aware time steps take turns, and medians are written down.

    python -m benchmarks.language.exactness_and_cost --repeats 5
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import moso
from moso.files import write_json
from moso.gradients import Point, time_step
from moso.gradients.fallback import gradients_of_one
from moso.gradients.losses import one_of
from moso.models.adapters import add_adapter
from moso.models.compat import import_transformers
from moso.models.transformers_network import TransformersNetwork

OUT = Path(__file__).parents[2] / "docs" / "benchmarks" / "language-scores.json"
VOCABULARY, LENGTH, WIDTH, LAYERS, SAMPLES, BATCH = 2000, 64, 128, 2, 128, 32
Batch = tuple[torch.Tensor, torch.Tensor]


def made(kind: str, adapter: str = "") -> nn.Module:
    """Return a network with random weights; the second factors of an adapter are drawn, since training moves them."""
    transformers = import_transformers()
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=4, bos_token_id=1,
            eos_token_id=1,
        )  # fmt: skip
        inner = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=LENGTH,
        )  # fmt: skip
        inner = transformers.LlamaForCausalLM(config)
    network = TransformersNetwork(inner, causal=True)
    if adapter:
        add_adapter(network, adapter)
        for name, parameter in network.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(parameter, std=0.02)
    return network


def sequences() -> list[Batch]:
    """Return batches of sequences of random lengths, padded, with the first eighth as a prompt."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, VOCABULARY, (SAMPLES, LENGTH), generator=generator)
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (SAMPLES, 1), generator=generator)
    outside = torch.arange(LENGTH)[None] >= lengths
    labels = ids.masked_fill(outside, -100)
    labels[:, : LENGTH // 8] = -100
    padded = ids.masked_fill(outside, -1)
    return [(padded[start : start + BATCH], labels[start : start + BATCH]) for start in range(0, SAMPLES, BATCH)]


def brute_force(point: Point, batches: list[Batch]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return `(N G.g - |g|^2) / (N - 1)` of every sample, from gradients taken one at a time in float32."""
    rows = [
        torch.cat([one.flatten() for one in gradients_of_one(point, one_of(batch, number))[1].values()])
        for batch in batches
        for number in range(len(batch[0]))
    ]
    every = torch.stack(rows)
    mean, N = every.double().mean(0), len(every)
    dots, norms = (torch.stack([one.double() @ other for one, other in pairs]) for pairs in (
        [(one, mean) for one in every], [(one, one.double()) for one in every]
    ))  # fmt: skip
    return ((N * dots - norms) / (N - 1)).numpy()


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measured(kind: str, adapter: str, repeats: int) -> dict[str, Any]:
    """Return errors and costs of one network."""
    torch.manual_seed(0)
    model, batches = made(kind, adapter), sequences()
    model.eval()
    point = Point.of(model, moso.next_token_loss)
    generator = torch.Generator().manual_seed(1)
    scales = {name: torch.rand(one.shape, generator=generator) ** 4 * 100 for name, one in point.trained.items()}
    aware = point.measured_by(scales)
    trained = made(kind, adapter)
    moving = [one for one in trained.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(moving, lr=1e-4)

    def epoch() -> None:
        trained.train()
        for batch in batches:
            optimizer.zero_grad()
            moso.next_token_loss(trained, batch).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    step = time_step(point, lambda: batches)
    found = (SAMPLES * step.dot[0] - step.squared_norm[0]) / (SAMPLES - 1)
    truth = brute_force(point, batches)
    time_step(aware, lambda: batches)
    epoch()
    rows = [
        (
            seconds(epoch),
            seconds(lambda: time_step(point, lambda: batches)),
            seconds(lambda: time_step(aware, lambda: batches)),
        )
        for _ in range(repeats)
    ]
    times = [statistics.median(column) for column in zip(*rows, strict=True)]
    return {
        "parameters": sum(one.numel() for one in model.parameters()),
        "scored": sum(one.numel() for one in point.trained.values()),
        "largest error relative to the largest score": float(np.abs(found - truth).max() / np.abs(truth).max()),
        "median relative error": float(np.median(np.abs(found - truth) / np.abs(truth))),
        "epoch seconds": times[0],
        "time step in epochs": statistics.median(row[1] / row[0] for row in rows),
        "aware time step in epochs": statistics.median(row[2] / row[0] for row in rows),
        "aware in plain time steps": statistics.median(row[2] / row[1] for row in rows),
    }


def main() -> None:
    """Measure all networks and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for kind, adapter in (("gpt2", ""), ("llama", ""), ("llama", "lora:8"), ("gpt2", "lora:8"), ("llama", "dora:8")):
        name = f"{kind} {adapter}".strip()
        results[name] = measured(kind, adapter, given.repeats)
        print(name, {key: float(f"{value:.3g}") for key, value in results[name].items()}, flush=True)
    sizes = {"vocabulary": VOCABULARY, "length": LENGTH, "width": WIDTH, "layers": LAYERS, "samples": SAMPLES}
    write_json(given.out, {**sizes, "batch": BATCH, "repeats": given.repeats, "networks": results})


if __name__ == "__main__":
    main()
