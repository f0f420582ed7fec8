"""`moso explore` under 50 clients at once on a million samples: latency, memory of the server, errors.

A finished run is made up over a million rows of numbers and served by `moso explore` in a process of its own. Clients
are threads of another process, each with one connection that it keeps, and ask for what the page asks for: the page
itself, whole columns, the history and the row of single samples, nearest neighbours. Every client draws its own
requests by a seed. Three rounds of the same load, because memory that grows from round to round is a leak.

    python -m benchmarks.explore_load [--rows 1000000] [--clients 50] [--requests 40] [--run DIR]
"""

import argparse
import http.client
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.made_up_run import make_run, rows
from moso.files import write_json

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "explore.json"
ROUNDS = 3
WIDTH = 16
# What a client asks for, and how often: the columns of a page once, single samples as somebody scrolls.
KINDS = {"page": 1, "column": 3, "sample of a column": 6, "history": 10, "row": 20, "nearest": 2}


@dataclass
class Measured:
    """Latencies in seconds by kind of request, bytes that came, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bytes: int = 0
    errors: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def add(self, kind: str, seconds: float, size: int, error: str) -> None:
        """Note one request."""
        with self.lock:
            self.seconds[kind].append(seconds)
            self.bytes += size
            if error:
                self.errors.append(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=40, help="requests per client and round")
    parser.add_argument("--run", type=Path, help="keep the made-up run here, or take the one that is here")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.run or Path(folder)
        if not (root / "run" / "scores.parquet").exists():
            make_run(root / "run", rows(root / "rows" / "train.parquet", given.rows), WIDTH)
        before, found, memory = os.getloadavg()[0], [], []
        started = perf_counter()
        with serving(root / "run") as (process, port):
            opened = perf_counter() - started
            at_first = resident(process.pid)
            for number in range(ROUNDS):
                found.append(one_round(port, given.clients, given.requests, given.rows, number))
                memory.append(resident(process.pid))
            peak = resident(process.pid, "VmHWM")
            if process.poll() is not None:
                found[-1].errors.append(f"the server ended with {process.returncode}")
    result = {
        "benchmark": "explore_load",
        "machine": {
            "cores": os.cpu_count(),
            "load_before_and_after": [round(before, 1), round(os.getloadavg()[0], 1)],
            "architecture": platform.machine(),
            "python": platform.python_version(),
        },
        "samples": given.rows,
        "clients": given.clients,
        "requests": sum(len(one) for round_ in found for one in round_.seconds.values()),
        "errors": sum(len(one.errors) for one in found),
        "first_errors": [error for one in found for error in one.errors][:5],
        "opened_seconds": round(opened, 2),
        "gigabytes": round(sum(one.bytes for one in found) / 1e9, 2),
        "latency_ms": {kind: spread([one.seconds[kind] for one in found]) for kind in KINDS},
        "all_latency_ms": spread([values for one in found for values in one.seconds.values()]),
        "server_megabytes": {"opened": at_first, "after_rounds": memory, "peak": peak},
    }
    write_json(given.out, result)
    print(json.dumps(result, indent=2))


@contextmanager
def serving(run: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`moso explore` of a run, on any free port of this machine."""
    command = [sys.executable, "-m", "moso", "explore", str(run), "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        finally:
            process.terminate()


def one_round(port: int, clients: int, requests: int, samples: int, number: int) -> Measured:
    """All clients at once, each with its own connection and its own requests."""
    measured, together = Measured(), threading.Barrier(clients)
    threads = [
        threading.Thread(target=client, args=(port, f"{number} {one}", requests, samples, measured, together))
        for one in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return measured


def client(port: int, seed: str, requests: int, samples: int, measured: Measured, together: threading.Barrier) -> None:
    """Ask for what somebody who scrolls asks for."""
    draw = random.Random(seed)
    asked = draw.choices(list(KINDS), weights=list(KINDS.values()), k=requests)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    together.wait()
    for kind in asked:
        position = draw.randrange(samples)
        path, size = {
            "page": ("/", 0),
            "column": (f"/column/{draw.choice(['score%2Fmoso', 'score%2Fmoso-rank', 'label', 'partition'])}", 0),
            "sample of a column": (f"/column/score%2Fmoso?sample={position}", 4),
            "history": (f"/column/steps?sample={position}", 0),
            "row": (f"/row/{position}", 16),
            "nearest": (f"/nearest/{position}?count=64", 256),
        }[kind]
        started, error, came = perf_counter(), "", 0
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            came = len(reply.read())
            if reply.status != 200 or (size and came != size):
                error = f"{path}: status {reply.status}, {came} bytes"
        except (OSError, http.client.HTTPException) as problem:
            error = f"{path}: {type(problem).__name__} {problem}"
            connection.close()
        measured.add(kind, perf_counter() - started, came, error)
    connection.close()


def resident(process: int, what: str = "VmRSS") -> int:
    """Megabytes of memory of a process, now or at most."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) // 1000


def spread(parts: list[list[float]]) -> dict[str, float]:
    """Return median, 95th percentile and worst of the seconds of all parts, in milliseconds."""
    ordered = sorted(1000 * value for part in parts for value in part)
    if not ordered:
        return {}
    at = min(len(ordered) - 1, round(0.95 * len(ordered)))
    return {
        "requests": len(ordered),
        "median": round(median(ordered), 1),
        "p95": round(ordered[at], 1),
        "worst": round(ordered[-1], 1),
    }


if __name__ == "__main__":
    main()
