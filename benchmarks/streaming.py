"""100 million scores: top and balanced selection from Parquet, with the memory and the time they take.

The scores, with labels of 1,000 classes and ids, are written in row groups to a temporary folder. Each selection is
a process of its own on one thread; its memory is the largest resident set of that process, Python and all its
libraries included.

    python -m benchmarks.streaming                        # 100 million scores, about 2 GB of disk while it runs
    python -m benchmarks.streaming --rows 1000000         # a try; here the result is also held against `select`
"""

import argparse
import os
import platform
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from benchmarks.selection import FULL_ROWS, RATIO, STREAMED, in_a_process, write_scores
from moso.files import write_json

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "streaming.json"
TARGET_GIB = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=FULL_ROWS, help="how many scores")
    parser.add_argument("--folder", type=Path, help="where they are written; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    # Arrow and NumPy take the number of their threads from here when a process starts.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    load = [round(os.getloadavg()[0], 1)]
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / f"scores-{given.rows}.parquet"
        started = perf_counter()
        write_scores(path, given.rows)
        written, size = perf_counter() - started, path.stat().st_size
        print(f"{given.rows:,} scores written in {written:.0f} s, {size / 2**30:.2f} GiB", flush=True)
        found = {}
        for name in STREAMED:
            found[name] = in_a_process("stream", name, given.rows, Path(folder))
            result = found[name]
            print(f"{name:9s} {result['seconds']:8.1f} s  {result['peak_gib']:5.2f} GiB (target: below {TARGET_GIB:g})")
    load.append(round(os.getloadavg()[0], 1))
    write_json(
        given.out,
        {
            "benchmark": "streaming",
            "machine": {
                "cores": os.cpu_count(),
                "threads": 1,
                "architecture": platform.machine(),
                "load_before_and_after": load,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "pyarrow": pa.__version__,
            },
            "scores": given.rows,
            "classes": 1000,
            "ratio": RATIO,
            "file_gib": round(size / 2**30, 2),
            "target_peak_gib": TARGET_GIB,
            "selectors": found,
        },
    )


if __name__ == "__main__":
    main()
