"""The command line: which networks, how many samples, how often; results go to `docs/benchmarks/zoo.md` and `.json`.

python -m benchmarks.zoo --only gpt2 swin --turns 3
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.scoring.machine import describe_machine
from benchmarks.zoo.checks import BATCH, NETWORKS, SAMPLES, cost_of_checks, find_switch
from benchmarks.zoo.compare import Effort, compare
from benchmarks.zoo.networks import ZOO, find_networks
from benchmarks.zoo.page import RESULTS, line, write_page
from moso.errors import MosoError
from moso.files import write_json

OUT = Path(__file__).parents[2] / "docs" / "benchmarks"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The knobs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.zoo", description="Is moso right, and is no rival faster?"
    )
    parser.add_argument(
        "--only", nargs="+", action="extend", default=[], metavar="NAME", help=f"of {', '.join(ZOO)}; all"
    )
    parser.add_argument("--samples", type=int, help=f"for the cost ({Effort.samples}; with --checks {SAMPLES})")
    parser.add_argument("--batch", type=int, help=f"batch size ({Effort.batch}; with --checks {BATCH})")
    parser.add_argument("--turns", type=int, default=Effort.turns, help="in which all take turns (%(default)s)")
    parser.add_argument("--checked", type=int, default=Effort.checked, help="samples for the error (%(default)s)")
    parser.add_argument("--seconds", type=float, default=Effort.seconds, help="for one loop of one (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of PyTorch (%(default)s)")
    parser.add_argument("--checks", action="store_true", help="measure what the identities of a time step cost instead")
    parser.add_argument("--out", type=Path, default=OUT, help="where results are written")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for, write it down, make the page."""
    given = parse(arguments)
    torch.set_num_threads(given.threads)
    networks = find_networks(given.only)
    if given.checks:
        find_switch()
    effort = Effort(
        given.samples or Effort.samples, given.batch or Effort.batch, given.turns, given.checked, given.seconds
    )
    path = given.out / RESULTS
    found: dict[str, Any] = {"benchmark": "zoo", "rows": {}, "checks": {}}
    if given.only and path.exists():  # networks that are not asked for stay as they were measured
        found = json.loads(path.read_text(encoding="utf-8"))
    elif given.checks and path.exists():
        found = {**json.loads(path.read_text(encoding="utf-8")), "checks": {}}
    found |= {"machine": describe_machine(torch.device("cpu"))}
    if given.checks:
        for name in given.only or NETWORKS:
            say(name)
            found["checks"][name] = cost_of_checks(
                ZOO[name], given.turns, given.samples or SAMPLES, given.batch or BATCH
            )
            write_json(path, found)
    else:
        found |= {"samples": effort.samples, "batch": effort.batch, "turns": effort.turns}
        for name, network in networks.items():
            say(name)
            found["rows"][name] = compare(network, effort, say)
            print(line(name, found["rows"][name]), flush=True)
            write_json(path, found)
    print(write_page(given.out))


def say(text: str) -> None:
    """How far it is, to whoever waits."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's advice about vmap, and that of rivals
    try:
        main()
    except MosoError as problem:
        sys.exit(f"error: {problem}")
