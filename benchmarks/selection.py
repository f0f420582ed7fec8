"""Time, growth and peak memory of every selector, of the score `zcore`, and of streaming selection from Parquet.

Each measurement is a process of its own: features (512 numbers per sample, clustered) and class probabilities (about
1,300 samples per class, 1,000 classes at 1.3 million) lie in memory-mapped files, scores, labels and mean probabilities
in memory, and 70 % are removed. Memory is the largest resident set, the pages
of the mapped file included. Growth is the exponent of the processor's time, which others on the machine do not
lengthen much, between the two largest sizes: 1 is linear, 2 quadratic.
Streaming keeps the top of all, and of each of 1,000 classes; at its smallest size the result is held against `select`.

    python benchmarks/selection.py                 # 10,000 and 100,000 samples; 1 and 10 million scores
    python benchmarks/selection.py --full          # 1.3 million samples and 100 million scores, too
    python benchmarks/selection.py --selectors facility-location zcore --sizes 100000 --rows --out FILE   # parts of it
"""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import moso
from moso.files import write_json
from moso.scores.zcore import zcore_scores
from moso.selection import SELECTORS, kept_count, select_stream

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "selection.json"
RATIO = 0.7
DIMENSION = 512
SIZES, FULL_SIZE = [10_000, 100_000], 1_300_000
ROWS, FULL_ROWS = [1_000_000, 10_000_000], 100_000_000
STREAMED = ("top", "balanced")
CHUNK = 20_000
# A score from features that is timed beside the selectors.
ZCORE = "zcore"


def labels_of(count: int) -> np.ndarray[Any, Any]:
    """About 1,300 samples per class, as in ImageNet."""
    return np.random.default_rng(1).integers(0, max(10, count // 1300), count)


def write_features(path: Path, count: int) -> None:
    """Clustered features, a chunk at a time."""
    draw = np.random.default_rng(2)
    labels = labels_of(count)
    centres = draw.normal(size=(int(labels.max()) + 1, DIMENSION)).astype(np.float32)
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            own = labels[start : start + CHUNK]
            rows = draw.standard_normal((len(own), DIMENSION), dtype=np.float32)
            rows += centres[own]
            file.write(rows.tobytes())


def write_probabilities(path: Path, count: int) -> None:
    """Class probabilities of a network that is mostly right, a chunk at a time."""
    draw, labels = np.random.default_rng(5), labels_of(count)
    classes = int(labels.max()) + 1
    with path.open("wb") as file:
        for start in range(0, count, CHUNK):
            own = labels[start : start + CHUNK]
            rows = draw.standard_exponential((len(own), classes), dtype=np.float32) ** 3
            rows[np.arange(len(own)), own] += 2 * classes
            file.write((rows / rows.sum(axis=1, keepdims=True)).tobytes())


def write_scores(path: Path, count: int) -> None:
    """Scores with ties, labels and ids in a Parquet file, one batch at a time."""
    schema = pa.schema({"id": pa.int64(), "score": pa.float64(), "label": pa.int32()})
    draw = np.random.default_rng(3)
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, count, 1 << 20):
            size = min(1 << 20, count - start)
            scores = draw.normal(size=size).round(6)
            labels = draw.integers(0, 1000, size).astype(np.int32)
            ids = count - np.arange(start, start + size)  # backwards, so that ties by id are not ties by row
            file.write_table(pa.table({"id": ids, "score": scores, "label": labels}, schema=schema))


def measured(started: tuple[float, float], kept: np.ndarray[Any, Any]) -> dict[str, Any]:
    seconds, used = perf_counter() - started[0], process_time() - started[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = {"kept": len(kept), "seconds": round(seconds, 2), "cpu_seconds": round(used, 2)}
    return {**result, "peak_gib": round(memory, 2)}


def run_selector(name: str, count: int, folder: Path) -> dict[str, Any]:
    draw = np.random.default_rng(4)
    features = np.memmap(folder / f"features-{count}", np.float32, "r", shape=(count, DIMENSION))
    labels = labels_of(count)
    scores, probability = draw.uniform(size=count), draw.uniform(size=count)
    errors = draw.uniform(0.05, 0.5, int(labels.max()) + 1)
    if name == ZCORE:
        started = perf_counter(), process_time()
        zcore = zcore_scores(features, np.arange(count, dtype=np.uint64))
        return measured(started, np.argsort(-zcore)[: kept_count(count, RATIO)])
    needs, classes = SELECTORS.get(name).needed(), int(labels.max()) + 1
    evidence = {}
    if "probabilities" in needs:
        path = folder / f"probabilities-{count}"
        evidence["probabilities"] = np.memmap(path, np.float32, "r", shape=(count, classes))
    started = perf_counter(), process_time()
    kept = moso.select(
        scores,
        ratio=RATIO,
        selector=name,
        labels=labels,
        features=features if "features" in needs else None,
        probability=probability,
        class_error=errors,
        hard="low",
        evidence=evidence,
    )
    return measured(started, kept)


def run_stream(name: str, count: int, folder: Path) -> dict[str, Any]:
    path = folder / f"scores-{count}.parquet"
    started = perf_counter(), process_time()
    kept = select_stream(path, ratio=RATIO, selector=name)
    result = measured(started, kept)
    if count <= ROWS[0]:
        columns = {column: pq.read_table(path)[column].to_numpy() for column in ("id", "score", "label")}
        ids, labels = columns["id"], columns["label"]
        same = moso.select(columns["score"], ratio=RATIO, labels=labels, ids=ids, selector=name)
        result["same_as_select"] = bool((kept == same).all())
    return result


def in_a_process(kind: str, name: str, count: int, folder: Path) -> dict[str, Any]:
    """One measurement, alone in its process."""
    command = [sys.executable, str(Path(__file__)), "--one", kind, name, str(count), str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(kind: str, names: list[str], sizes: list[int], folder: Path) -> dict[str, Any]:
    """Every name at every size, smallest first, files made for a size and removed after it."""
    found: dict[str, Any] = {name: {"sizes": {}} for name in names}
    for count in sizes:
        made = folder / (f"features-{count}" if kind == "selector" else f"scores-{count}.parquet")
        (write_features if kind == "selector" else write_scores)(made, count)
        chances = folder / f"probabilities-{count}"
        if any("probabilities" in SELECTORS.get(name).needed() for name in names if kind == "selector"):
            write_probabilities(chances, count)
        for name in names:
            result = found[name]["sizes"][count] = in_a_process(kind, name, count, folder)
            spent = f"{result['seconds']:9.2f} s  {result['cpu_seconds']:9.2f} s of CPU  {result['peak_gib']:5.2f} GiB"
            print(f"{kind:9s} {name:13s} {count:11,d}  {spent}", flush=True)
        made.unlink()
        chances.unlink(missing_ok=True)
    for name in names:
        for small, large in pairwise(sizes):
            seconds = [max(found[name]["sizes"][count]["cpu_seconds"], 0.01) for count in (small, large)]
            found[name]["growth"] = round(math.log(seconds[1] / seconds[0]) / math.log(large / small), 2)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--full", action="store_true", help="1.3 million samples and 100 million scores, too")
    arguments.add_argument("--sizes", type=int, nargs="*", help="samples, in place of the usual sizes")
    arguments.add_argument("--rows", type=int, nargs="*", help="scores to stream, in place of the usual numbers")
    names = [*SELECTORS.names(), ZCORE]
    arguments.add_argument("--selectors", nargs="*", default=names, choices=names)
    arguments.add_argument("--folder", type=Path, help="where the data is written; a temporary folder by default")
    arguments.add_argument("--out", type=Path, default=OUT)
    arguments.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        kind, name, count, folder = given.one
        result = (run_selector if kind == "selector" else run_stream)(name, int(count), Path(folder))
        print(json.dumps(result))
        return
    sizes = given.sizes if given.sizes is not None else SIZES + [FULL_SIZE] * given.full
    rows = given.rows if given.rows is not None else ROWS + [FULL_ROWS] * given.full
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        selectors = table("selector", given.selectors, sizes, Path(folder))
        streams = table("stream", list(STREAMED), rows, Path(folder))
    load.append(round(os.getloadavg()[0], 1))
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "load_before_and_after": load}
    setting = {"ratio": RATIO, "dimension": DIMENSION, "python": platform.python_version(), "numpy": np.__version__}
    result = {"benchmark": "selection", "machine": machine, **setting, "selectors": selectors, "streaming": streams}
    write_json(given.out, result)


if __name__ == "__main__":
    main()
