"""One surrogate epoch and one time step of one partition, in a process of its own: `python -m ... DATA OUT PARTITIONS`.

Prints seconds, processor seconds and the most memory that the process held for itself, as JSON. Pages of the mapped
file, which the system takes back when it needs them, are not in that.
"""

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch

from benchmarks.features.turns import open_job
from moso.progress import silent
from moso.run.evidence_pieces import ScorePartition
from moso.run.network_pieces import TrainSurrogate
from moso.run.pieces import perform


def main(data: str, out: str, partitions: str) -> None:
    """Open, train and score, and print what each took."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with _Watch() as watch:
        job = watch.timed(found, "open", lambda: open_job(Path(data), Path(out), "linear", 1, int(partitions), 1))
        watch.timed(found, "train", lambda: perform(job, TrainSurrogate(0, 0), silent))
        watch.timed(found, "score", lambda: perform(job, ScorePartition(0, 0), silent))
    print(json.dumps({**found, "samples": len(job.partitions(0)[0])}))


class _Watch:
    """Looks at the memory of this process every twentieth of a second."""

    def __enter__(self) -> "_Watch":
        self.peak, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.ended.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.ended.wait(0.05):
            lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            self.peak = max(self.peak, *(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))

    def timed(self, found: dict[str, Any], name: str, work: Callable[[], Any]) -> Any:
        """Do some work and note what it took."""
        self.peak, wall, processor = 0, perf_counter(), process_time()
        result = work()
        found[name] = {
            "seconds": round(perf_counter() - wall, 1),
            "processor_seconds": round(process_time() - processor, 1),
            "anonymous_mib": round(self.peak / 1024),
        }
        return result


if __name__ == "__main__":
    main(*sys.argv[1:])
