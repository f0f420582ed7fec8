"""Commands of moso as a user types them: seconds, processor seconds and memory over all of their processes."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

_EVERY = 0.25  # seconds between two looks at memory


def watched(*command: str, source: Path | None = None) -> dict[str, float]:
    """Run a command of moso and return what it took.

    `anonymous_mib` is the most memory that all of its processes together held for themselves. `resident_mib` also has
    pages of mapped files, a page that several processes share counted once (Linux's proportional set size).

    Args:
        command: The command without `moso`.
        source: Folder `src` of another checkout to run it with.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "moso", *command, "--quiet"], env=environment)
    peak = {"Anonymous": 0, "Pss": 0}
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    if process.wait():
        raise SystemExit(f"moso {' '.join(command)} ended with {process.returncode}")
    seconds, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    watcher.join()
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "anonymous_mib": round(peak["Anonymous"] / 1024),
        "resident_mib": round(peak["Pss"] / 1024),
    }


def both(*commands: dict[str, float]) -> dict[str, float]:
    """Return what commands took one after the other: seconds added, the highest memory."""
    return {
        name: round((max if name.endswith("mib") else sum)(one[name] for one in commands), 1) for name in commands[0]
    }


def _watch(process: "subprocess.Popen[bytes]", peak: dict[str, int]) -> None:
    while process.poll() is None:
        now = dict.fromkeys(peak, 0)
        for one in _family(process.pid):
            for name, kilobytes in _held(one).items():
                now[name] = now.get(name, 0) + kilobytes
        for name in peak:
            peak[name] = max(peak[name], now[name])
        sleep(_EVERY)


def _family(process: int) -> list[int]:
    """Return a process and all that it started, directly or not."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:  # it ended meanwhile
        return []
    return [process, *(other for child in children for other in _family(child))]


def _held(process: int) -> dict[str, Any]:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
