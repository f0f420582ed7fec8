"""Ray against this machine alone: two workers against one, what Ray costs, and what a finished run costs.

Every figure is a command as a user types it, from its start to its end: interpreters, imports and Ray's own start
included. One thread a worker.

    partitions   moso run of equal partitions, retrainings included, 2 Ray workers against 1
    shards       moso score of one partition in shards, 2 Ray workers against 1
    overhead     the first run on 1 Ray worker against `--executor local --workers 1`
    resume       the finished run, started again

    python -m benchmarks.ray_scaling                # about 25 minutes on two idle cores
    python -m benchmarks.ray_scaling --epochs 1 --repeats 1     # a try
"""

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from time import perf_counter

from moso.files import write_json

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "ray-scaling.json"
RUN = shlex.split("--dataset digits --model convnet --time-steps 4 --seeds 1 --threads 1 --method moso --ratio 0.5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=210, help="epochs of every training; 210 make about two minutes")
    parser.add_argument("--repeats", type=int, default=3, help="of everything, in turn; medians count")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory() as folder:
        repeats = measured(Path(folder), given.epochs, given.repeats)
    seconds = {name: median(own) for name, own in repeats.items()}
    load.append(round(os.getloadavg()[0], 1))
    figures = {
        "partitions_two_workers": seconds["run, ray 1"] / seconds["run, ray 2"],
        "shards_two_workers": seconds["score, ray 1"] / seconds["score, ray 2"],
        "overhead_percent": 100 * (seconds["run, ray 1"] / seconds["run, local 1"] - 1),
        "resume_seconds": seconds["resume"],
    }
    targets = {"partitions_two_workers": 1.7, "shards_two_workers": 1.5, "overhead_percent": 10, "resume_seconds": 5}
    for name, value in figures.items():
        print(f"{name:24s} {value:6.2f}  (target {targets[name]:g})")
    write_json(
        given.out,
        {
            "benchmark": "ray-scaling",
            "machine": {
                "cores": os.cpu_count(),
                "architecture": platform.machine(),
                "load_before_and_after": load,
                "python": platform.python_version(),
            },
            "command": " ".join(("moso", "run", *RUN, "--epochs", str(given.epochs))),
            "seconds": {name: [round(value, 2) for value in own] for name, own in repeats.items()},
            "figures": {name: round(value, 2) for name, value in figures.items()},
            "targets": targets,
        },
    )


def measured(folder: Path, epochs: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of every command in every repeat, by name; the repeats of all go in turn."""
    found: dict[str, list[float]] = defaultdict(list)
    for repeat in range(repeats):
        for name, seconds in _once(folder / str(repeat), epochs).items():
            found[name].append(seconds)
        shutil.rmtree(folder / str(repeat))
    return found


def _once(folder: Path, epochs: int) -> dict[str, float]:
    run = (*RUN, "--epochs", str(epochs), "--partitions", "4", "--quiet")
    found = {
        "run, local 1": timed("run", *run, "--out", str(folder / "local"), "--workers", "1"),
        "run, ray 1": timed("run", *run, "--out", str(folder / "ray-1"), "--executor", "ray", "--workers", "1"),
        "run, ray 2": timed("run", *run, "--out", str(folder / "ray-2"), "--executor", "ray", "--workers", "2"),
    }
    found["resume"] = timed("run", *run, "--out", str(folder / "ray-2"), "--executor", "ray", "--workers", "2")
    # A network that takes a second for a shard: scoring has to be more than starting everything.
    score = (*RUN, "--model", "resnet20-w32", "--epochs", "1", "--partitions", "1", "--time-steps", "20")
    trained = folder / "trained"
    timed("train", *score, "--shard-size", "360", "--out", str(trained), "--workers", "1", "--quiet")
    for workers in ("1", "2"):
        shutil.copytree(trained, folder / f"score-{workers}")
        flags = ("--executor", "ray", "--workers", workers, "--quiet")
        found[f"score, ray {workers}"] = timed("score", str(folder / f"score-{workers}"), *flags)
    for one, other in (("local", "ray-1"), ("local", "ray-2"), ("score-1", "score-2")):
        if (folder / one / "scores.parquet").read_bytes() != (folder / other / "scores.parquet").read_bytes():
            raise SystemExit(f"{one} and {other} have other scores")
    return found


def timed(*command: str) -> float:
    """Seconds that a command of moso's takes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = perf_counter()
    subprocess.run([sys.executable, "-m", "moso", *command], check=True, env=environment)
    seconds = perf_counter() - started
    print(f"{seconds:7.1f} s  moso {' '.join(command)}", flush=True)
    return seconds


if __name__ == "__main__":
    main()
