"""Throughput of `moso embed` beside a bare inference loop of the same network, interleaved, medians.

    python benchmarks/embedding.py [--images 512] [--rounds 5] [--network timm:mobilenetv3_small_050] [--side 112]

The rival reads the same decoded images from memory, normalises and scales each batch, calls the network under
`torch.inference_mode` and keeps the features in one array. The bench prints images per second of both and their ratio.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from moso.data.samples import StoredSamples
from moso.data.views import Normalisation
from moso.embedding import Embedding, embed_samples, find_embedder
from moso.models import build_model

BATCH = 64


def bare(name: str, pixels: np.ndarray, side: int, statistics_of: Normalisation) -> float:
    """Return the images per second of a plain loop."""
    model: Any = build_model(name, (3, side, side), 2, 0).eval()
    model.to(memory_format=torch.channels_last).reset_classifier(0)
    mean = torch.tensor(statistics_of.mean).view(1, 3, 1, 1)
    deviation = torch.tensor(statistics_of.std).view(1, 3, 1, 1)
    kept = []
    started = time.perf_counter()
    with torch.inference_mode():
        for start in range(0, len(pixels), BATCH):
            batch = (torch.from_numpy(pixels[start : start + BATCH]).float() - mean) / deviation
            batch = F.interpolate(batch, size=(side, side), mode="bicubic", antialias=True)
            kept.append(model(batch.contiguous(memory_format=torch.channels_last)).half())
    torch.cat(kept)
    return len(pixels) / (time.perf_counter() - started)


def ours(name: str, samples: StoredSamples, side: int, threads: int) -> float:
    """Return the images per second of `embed_samples`, with its file on the disk."""
    embedder = find_embedder(name, samples, side=side)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        embed_samples(Path(folder) / "train.npy", samples, embedder, Embedding(batch_size=BATCH, threads=threads))
        return len(samples) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--network", default="timm:mobilenetv3_small_050")
    parser.add_argument("--side", type=int, default=112)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    pixels = np.random.default_rng(0).integers(0, 256, (given.images, 3, 64, 64)).astype(np.uint8)
    samples = StoredSamples.from_arrays(pixels, np.arange(given.images) % 2)
    samples = samples.normalised(Normalisation.measure(samples.reader))
    rates: dict[str, list[float]] = {"bare": [], "moso": []}
    for _ in range(given.rounds):
        rates["bare"].append(bare(given.network, pixels, given.side, samples.normalisation))
        rates["moso"].append(ours(given.network, samples, given.side, given.threads))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratio = medians["moso"] / medians["bare"]
    print(f"{given.network} at {given.side} pixels, {given.threads} thread(s), medians of {given.rounds}:")
    print(f"bare loop {medians['bare']:.1f} images/s, moso embed {medians['moso']:.1f} images/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
