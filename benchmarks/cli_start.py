"""Processor time of `moso --help`, `--version` and `moso run --help` against Python with Typer and Rich.

    python -m benchmarks.cli_start [--repeats 15]

Commands take turns, so that a busy machine slows all alike; the medians of user and system time are compared.
"""

import argparse
import os
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c 'import typer, rich'": ["-c", "import typer, rich"],
    "moso --version": ["-m", "moso", "--version"],
    "moso --help": ["-m", "moso", "--help"],
    "moso run --help": ["-m", "moso", "run", "--help"],
    "python -c 'import torch'": ["-c", "import torch"],
}


def seconds(arguments: list[str]) -> float:
    """Return the processor time of a command, of its own and the system's."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repeats):
        for name, arguments in COMMANDS.items():
            found[name].append(seconds(arguments))
    medians = {name: statistics.median(values) for name, values in found.items()}
    base = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"{name:<32} {median:.2f} s, {median / base:.1f} times")


if __name__ == "__main__":
    main()
