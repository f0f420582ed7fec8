"""Data larger than memory: synthetic 8 x 8 images through train, score and select, and what they take.

Rows of 64 bytes with a label go to Parquet shards, one shard at a time. The stages are commands as a user types them,
with a memory limit that nothing of the data fits into; each is a process of its own on one thread. `anonymous` is the
most memory that the process held for itself; pages of the mapped file, which the system takes back when it
needs them, are not in it.

    python -m benchmarks.large_data                          # 1 and 10 million rows
    python -m benchmarks.large_data --rows 100000 200000     # a try
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moso.files import write_json

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "large-data.json"
SHARD = 500_000
CLASSES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="where data and runs go; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    load = [round(os.getloadavg()[0], 1)]
    found = {}
    for rows in given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            found[str(rows)] = measured(rows, Path(folder))
    load.append(round(os.getloadavg()[0], 1))
    machine = {"cores": os.cpu_count(), "threads": 1, "architecture": platform.machine()}
    write_json(given.out, {"benchmark": "large-data", "machine": {**machine, "load": load}, "rows": found})


def measured(rows: int, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds and memory of every stage."""
    started = perf_counter()
    write(rows, folder / "data")
    print(f"{rows:,} rows written in {perf_counter() - started:.0f} s", flush=True)
    run, data = str(folder / "run"), str(folder / "data")
    settings: tuple[str, ...] = (
        "--dataset",
        f"parquet:{data}?features=pixels",
        "--memory-limit",
        "0.01",
        "--test-share",
        "0.001",
    )
    settings += (
        "--model",
        "mlp-w64",
        "--recipe",
        "table",
        "--epochs",
        "1",
        "--batch-size",
        "1024",
        "--partitions",
        "1",
    )
    settings += ("--time-steps", "1", "--seeds", "1", "--method", "moso", "--ratio", "0.5", "--threads", "1")
    os.environ["MOSO_CACHE"] = str(folder / "cache")
    found = {}
    for name, command in {
        "train": ("train", *settings, "--out", run, "--workers", "1"),
        "score": ("score", run, "--workers", "1", "--method", "moso", "--selector", "top"),
        "select": ("select", run, "--method", "moso", "--selector", "top"),
    }.items():
        found[name] = watched(*command, "--quiet")
        took = found[name]
        print(f"  {name:7s} {took['seconds']:7.1f} s  {took['anonymous_mib']:7.0f} MiB", flush=True)
    return found


def write(rows: int, folder: Path) -> None:
    """Parquet shards of class-dependent noise; never more than a shard in memory."""
    folder.mkdir()
    centres = np.random.default_rng(0).integers(40, 215, (CLASSES, 64))
    for number, start in enumerate(range(0, rows, SHARD)):
        count = min(SHARD, rows - start)
        draw = np.random.default_rng(number + 1)
        labels = draw.integers(0, CLASSES, count)
        pixels = (centres[labels] + draw.integers(-40, 41, (count, 64))).astype(np.uint8)
        column = pa.FixedSizeListArray.from_arrays(pa.array(pixels.ravel()), 64)
        pq.write_table(pa.table({"pixels": column, "label": labels}), folder / f"train-{number:04d}.parquet")


def watched(*command: str) -> dict[str, float]:
    """A command of moso's, its seconds and the most memory it held for itself."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = perf_counter()
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "moso", *command], env=environment)
    peak = [0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    if process.wait():
        raise SystemExit(f"moso {' '.join(command)} ended with {process.returncode}")
    seconds = perf_counter() - started
    watcher.join()
    return {"seconds": round(seconds, 1), "anonymous_mib": round(peak[0] / 1024)}


def _watch(process: "subprocess.Popen[bytes]", peak: list[int]) -> None:
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        except FileNotFoundError:
            return
        peak[0] = max([peak[0], *(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))])
        sleep(0.05)


if __name__ == "__main__":
    main()
