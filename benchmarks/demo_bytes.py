"""Do the demo's results stay the same over a change of the code? Recorded before it, compared after it.

    python -m benchmarks.demo_bytes record FOLDER     # at the commit before
    python -m benchmarks.demo_bytes compare FOLDER    # at the commit after; exit code 1 where a result differs

Both demos are run (`make demo`: clean, and with 20 % wrong labels), and a run with every method on the same data.
Files are compared byte for byte; where bytes differ, columns are compared, and the largest difference of numbers is
printed. Not part of the test suite: the check takes some minutes, and needs two commits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

RUNS = {
    "demo": [],
    "demo-noise": ["--label-noise", "0.2"],
    "all-methods": ["--method", "all", "--epochs", "3", "--ratio", "0.4"],
}
FILES = ("scores.parquet", "selections.parquet", "evaluation.parquet")
ROUNDING = 1e-6


def make(folder: Path) -> None:
    """Do every run of :data:`RUNS` into ``folder``."""
    for name, flags in RUNS.items():
        command = [sys.executable, "-m", "moso", "run", "--out", str(folder / name), "--quiet", *flags]
        subprocess.run(command, check=True)


def difference(before: Path, after: Path) -> str:
    """Compare two Parquet files: "same bytes", "same content", or what differs and by how much."""
    if before.read_bytes() == after.read_bytes():
        return "same bytes"
    first, second = pq.read_table(before), pq.read_table(after)
    if first.column_names != second.column_names or len(first) != len(second):
        return f"DIFFERENT: {len(first)} x {first.column_names} became {len(second)} x {second.column_names}"
    largest = 0.0
    for name in first.column_names:
        one, other = first[name].to_pylist(), second[name].to_pylist()
        if one == other:
            continue
        if not all(isinstance(value, float) for value in one + other):
            return f"DIFFERENT: column {name}"
        scale = max(float(np.nanmax(np.abs(one))), 1e-300)
        largest = max(largest, float(np.nanmax(np.abs(np.subtract(one, other)))) / scale)
    if largest > ROUNDING:
        return f"DIFFERENT: by {largest:.1e} of the largest value"
    return f"same to rounding: {largest:.1e} of the largest value" if largest else "same content, other bytes"


def main() -> None:
    """Record or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.verb == "record":
        make(given.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        make(Path(temporary))
        found = {
            f"{run}/{file}": difference(given.folder / run / file, Path(temporary) / run / file)
            for run in RUNS
            for file in FILES
            if (given.folder / run / file).exists()
        }
    for name, words in found.items():
        print(f"{name:34} {words}")
    sys.exit(any(words.startswith("DIFFERENT") for words in found.values()))


if __name__ == "__main__":
    main()
