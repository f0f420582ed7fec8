"""The command line: which networks and engines, how many samples, how often; results go to `docs/benchmarks/`.

python -m benchmarks.scoring --network resnet18 --engine moso --engine vmap --samples 64 --repeats 3
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.scoring.compare import Effort, compare
from benchmarks.scoring.engines import ENGINES, find_engines
from benchmarks.scoring.growth import AXES, NETWORK, find_axes, grow
from benchmarks.scoring.machine import describe_machine
from benchmarks.scoring.networks import NETWORKS, find_network, make_problem
from benchmarks.scoring.page import GROWTH, network_section, write_page
from benchmarks.scoring.plots import write_growth_figure
from benchmarks.scoring.problem import to_device
from moso.errors import MosoError
from moso.files import write_json

OUT = Path(__file__).parents[2] / "docs" / "benchmarks"
PARTS = ("networks", "growth", "page")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The knobs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scoring", description="What a time step of scoring costs."
    )
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    parser.add_argument("--network", "--networks", help=f"of {', '.join(NETWORKS)}; all", metavar="NAME", **several)
    parser.add_argument("--engine", "--engines", help=f"of {', '.join(ENGINES)}; all", metavar="NAME", **several)
    parser.add_argument("--axis", "--axes", help=f"of growth, of {', '.join(AXES)}; all", metavar="NAME", **several)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to do; all")
    parser.add_argument("--samples", type=int, default=0, help="for the cost; a number of each network's own")
    parser.add_argument("--checked", type=int, default=0, help="for error and memory; a number of each network's own")
    parser.add_argument("--batch", type=int, default=0, help="batch size; one of each network's own")
    parser.add_argument("--repeats", type=int, default=3, help="turns (%(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="for one run of a rival (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of PyTorch (%(default)s)")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu or cuda (%(default)s)")
    parser.add_argument("--float64", action=argparse.BooleanOptionalAction, default=True, help="check moso in it too")
    parser.add_argument("--out", type=Path, default=OUT, help="where results are written")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for, write it down, make the page."""
    given = parse(arguments)
    torch.set_num_threads(given.threads)
    engines, axes = find_engines(given.engine), find_axes(given.axis)
    networks = {name: find_network(name) for name in given.network or NETWORKS}
    if "networks" in given.parts:
        for name, network in networks.items():
            machine = describe_machine(given.device)
            problem = to_device(make_problem(name, given.samples, given.batch), given.device)
            effort = Effort(given.checked or network.checked, given.repeats, given.seconds, given.float64)
            result = compare(problem, engines, effort, say)
            result = {"benchmark": "scoring", "description": network.description, "machine": machine, **result}
            write_json(given.out / f"scoring-{name}.json", result)
            print(network_section(result), flush=True)
    if "growth" in given.parts:
        machine = describe_machine(given.device)
        path, known = given.out / GROWTH, dict[str, Any]()
        if path.exists():  # axes that are not asked for stay as they were measured
            known = json.loads(path.read_text(encoding="utf-8"))["axes"]
        for name, axis in axes.items():
            known[name] = grow(axis, given.repeats, given.device, say=say)
            write_json(path, {"benchmark": "growth", "network": NETWORK, "machine": machine, "axes": known})
            write_growth_figure(given.out / f"growth-{name}.png", known[name])
    if "page" in given.parts:
        print(write_page(given.out))


def say(line: str) -> None:
    """How far it is, to whoever waits."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except MosoError as problem:
        sys.exit(f"error: {problem}")
