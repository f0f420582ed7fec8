"""What faithful scores buy: accuracy after pruning, and wrong labels found, by Proposition 1.1 and by the adjoint.

Each with the training risk and with that of a held-out tenth, under three selectors, beside random, all on the same
training samples. One run directory a risk and a share of wrong labels; each goes on where it was stopped
(`--dry-run` says how long it takes). Network and recipe are those of the `cpu` preset of `moso reproduce`.

    python -m benchmarks.adjoint_pruning --dataset parquet:PATH/cifar100 --out runs/adjoint
"""

import argparse
import subprocess
import sys
from pathlib import Path

from moso.experiments.settings import CPU

RISKS = ("train", "validation")
NOISE = (0.0, 0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--model", default=CPU["model"])
    parser.add_argument("--recipe", default=CPU["recipe"])
    parser.add_argument("--seeds", default="3")
    parser.add_argument("--partitions", default="5")
    parser.add_argument("--ratio", nargs="+", default=["0.8"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    for noise in NOISE:
        for risk in RISKS:
            run = given.out / f"{risk}-{noise:g}"
            flags = ["--dataset", given.dataset, "--model", given.model, "--recipe", given.recipe]
            flags += ["--seeds", given.seeds, "--partitions", given.partitions, "--label-noise", str(noise)]
            flags += [part for ratio in given.ratio for part in ("--ratio", ratio)]
            flags += [part for method in ("moso", "moso-adjoint") for part in ("--method", method)]
            flags += [part for selector in ("top", "balanced", "coverage") for part in ("--selector", selector)]
            flags += ["--risk", risk, "--validation-share", "0.1", "--out", str(run)]
            _moso("compare", *flags, *(["--dry-run"] if given.dry_run else []))
            if noise and not given.dry_run:
                _moso("suspects", str(run))


def _moso(*arguments: str) -> None:
    print("moso", " ".join(arguments), flush=True)
    subprocess.run([sys.executable, "-m", "moso", *arguments], check=True)


if __name__ == "__main__":
    main()
