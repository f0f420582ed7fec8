"""An index of 100,000 gradients: memory while it is built, seconds of a query, agreement with exact products.

The samples are windows of twelve words of Debian's documentation (the 500 most frequent words, others unknown), the
model is a GPT-2-like one with a layer of width 32, trained for a moment. Targets are neighbouring windows. The index
answers targets from disk; exact products come from `moso.score(risk=...)`, one pass for all targets, on a tenth of the
samples, drawn at random.

    python -m benchmarks.language.index_of_gradients --samples 100000
"""

import argparse
import itertools
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import moso
from benchmarks.language.target_domain import loss
from moso.data.sequences import WordCoder
from moso.data.tokenizer import Tokenizer, frequent_words
from moso.files import write_json
from moso.indexing.gradient_index import IndexSettings
from moso.models.gpt import Decoder
from moso.randomness import generator, seeded

OUT = Path(__file__).parents[2] / "docs" / "benchmarks" / "gradient-index.json"
WORDS, TARGETS, TARGET_SAMPLES = 12, 4, 50


def windows(count: int) -> list[str]:
    """Return windows of words of Debian's documentation, in the order of packages."""
    found: list[str] = []
    for path in sorted(Path("/usr/share/doc").rglob("*")):
        if path.is_file() and path.suffix not in (".gz", ".png", ".gif"):
            words = path.read_bytes().decode("utf-8", "ignore").split()
            found += [" ".join(words[start : start + WORDS]) for start in range(0, len(words) - WORDS, WORDS)]
        if len(found) >= 4 * count:
            break
    if len(found) < count:
        found = list(itertools.islice(itertools.cycle(found), count))
    step = len(found) // count
    return found[: step * count : step]


def memory() -> float:
    """Return the largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Build, query, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    texts = windows(given.samples)
    words = frequent_words(texts[:: max(1, len(texts) // 20_000)])[0][:500]
    data = moso.SequenceData(texts, WordCoder(Tokenizer(words, length=0)), max_tokens=14)
    with seeded(0, "model"):
        model = Decoder(data.vocabulary, data.length, layers=1, width=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    order = generator(0, "order").permutation(len(data))
    for start in range(0, 200 * 16, 16):
        batch = data.collate([data[int(one)] for one in order[np.arange(start, start + 16) % len(order)]])
        optimizer.zero_grad()
        loss(model, batch).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()
    checkpoints = [(model.state_dict(), 3e-3)]
    places = np.linspace(0, len(data) - TARGET_SAMPLES, TARGETS).astype(int)
    risks: dict[str, moso.Risk] = {
        f"target {number}": moso.SampleRisk.of(
            data, range(place, place + TARGET_SAMPLES), loss=loss, collate=data.collate
        )
        for number, place in enumerate(places.tolist())
    }
    results: dict[str, Any] = {"samples": len(data), "parameters": sum(one.numel() for one in model.parameters())}
    marks: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.monotonic(), time.process_time()
        index = moso.GradientIndex.build(
            folder, model, data, checkpoints, loss=loss, collate=data.collate,
            settings=IndexSettings(batch_size=64),
            progress=lambda label, done, total: marks.append((done / total, memory())),
        )  # fmt: skip
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        results |= {
            "numbers": index.what.numbers, "stated error": index.error, "bytes": size,
            "build processor seconds": time.process_time() - cpu, "build seconds": time.monotonic() - started,
            "MiB after the first shard": marks[0][1], "MiB after the last": marks[-1][1],
        }  # fmt: skip
        print(results, flush=True)
        index.query(model, dict(list(risks.items())[:1]), loss=loss)
        for name, own in (("one target", dict(list(risks.items())[:1])), (f"{TARGETS} targets", risks)):
            started, cpu = time.monotonic(), time.process_time()
            found = index.query(model, own, loss=loss)
            results[f"query, {name}"] = {"seconds": time.monotonic() - started, "processor": time.process_time() - cpu}
            print(name, results[f"query, {name}"], flush=True)
        started, cpu = time.monotonic(), time.process_time()
        some = np.sort(generator(0, "compared").choice(len(data), len(data) // 10, replace=False))
        part: Any = torch.utils.data.Subset(data, some.tolist())  # type: ignore[arg-type]
        exact = moso.score(model, part, checkpoints, loss=loss, collate=data.collate, risk=risks, batch_size=64)
        results["exact, all targets, a tenth of the samples"] = {
            "seconds": time.monotonic() - started, "processor": time.process_time() - cpu,
        }  # fmt: skip
        agreements = [float(spearmanr(found[name][some], exact[name]).statistic) for name in risks]
        results["spearman"] = {"mean": float(np.mean(agreements)), "least": min(agreements)}
    print(results)
    write_json(given.out, results)


if __name__ == "__main__":
    main()
