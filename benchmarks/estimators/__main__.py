"""The command line: which problems, how large; results go to `docs/benchmarks/estimators.json` and docs/estimators.md.

python -m benchmarks.estimators --problem cifar-resnet8 --samples 1000 --epochs 8 --cost-network resnet18
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.estimators.agreement import rows
from benchmarks.estimators.cost import costs
from benchmarks.estimators.page import write_page
from benchmarks.estimators.problems import SETTINGS, Problem, available
from benchmarks.estimators.terms import measure
from benchmarks.scoring.machine import describe_machine
from moso.errors import unknown_name
from moso.files import write_json

DOCS = Path(__file__).parents[2] / "docs"
COST_NETWORKS = {"resnet8": 2048, "resnet18": 256}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The knobs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.estimators", description="Cheaper estimators, measured."
    )
    several: dict[str, Any] = {"nargs": "*", "action": "extend", "default": None, "metavar": "NAME"}
    parser.add_argument("--problem", help=f"of {', '.join(SETTINGS)}; all whose data is here", **several)
    parser.add_argument("--cost-network", help=f"whose cost is measured; {', '.join(COST_NETWORKS)}", **several)
    parser.add_argument("--samples", type=int, help="in a partition; each problem's own")
    parser.add_argument("--cost-samples", type=int, help="for the cost; each network's own")
    parser.add_argument("--epochs", type=int, help="of the surrogate; each problem's own")
    parser.add_argument("--time-steps", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="turns in which cost is measured (%(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of PyTorch (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=DOCS / "benchmarks" / "estimators.json", help="results")
    parser.add_argument("--page", type=Path, default=DOCS / "estimators.md", help="page whose tables are made anew")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure what was asked for beside what was measured before, write it down, make the tables."""
    given = parse(arguments)
    torch.set_num_threads(given.threads)
    found: dict[str, Any] = {"benchmark": "estimators", "problems": {}, "costs": {}}
    if given.out.exists():
        found = json.loads(given.out.read_text(encoding="utf-8"))
    for name in available() if given.problem is None else given.problem:
        if name not in SETTINGS:
            raise unknown_name("problem", name, SETTINGS)
        found["problems"][name] = _compared(name, given)
        write_json(given.out, found)
    for name in COST_NETWORKS if given.cost_network is None else given.cost_network:
        found["costs"][name] = _priced(name, given)
        write_json(given.out, found)
    write_page(given.out, given.page)


def _compared(name: str, given: argparse.Namespace) -> dict[str, Any]:
    machine = describe_machine(torch.device("cpu"))
    setting = SETTINGS[name]
    setting = replace(setting, samples=given.samples or setting.samples, epochs=given.epochs or setting.epochs)
    problem = Problem.open(setting, given.seed)
    terms = measure(problem, given.time_steps, lambda text: print(f"{name}: {text}", flush=True))
    return {
        "title": setting.title,
        "network": setting.network,
        "samples": len(problem.positions),
        "epochs": problem.recipe.epochs,
        "time_steps": given.time_steps,
        "label_noise": setting.label_noise,
        "seed": given.seed,
        "recipe": problem.recipe.model_dump(mode="json"),
        "machine": machine,
        "rows": rows(problem, terms),
    }


def _priced(network: str, given: argparse.Namespace) -> dict[str, Any]:
    machine = describe_machine(torch.device("cpu"))
    name = "cifar-resnet8" if "cifar-resnet8" in available() else "digits-convnet"
    samples = given.cost_samples or COST_NETWORKS.get(network, 512)
    problem = Problem.open(replace(SETTINGS[name], samples=samples), given.seed)
    result = costs(problem, network, samples, given.repeats)
    for title, spread in result["epochs"].items():
        print(f"{network}: {title}: {spread['median']:.2f} training epochs", flush=True)
    return {**result, "machine": machine}


if __name__ == "__main__":
    main()
