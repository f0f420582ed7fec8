"""What the identities at the end of a time step cost: time steps with and without them, in turns."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from typing import Any

import moso.gradients
from benchmarks.scoring.clock import Spread, Work, take_turns
from benchmarks.zoo.compare import by_moso, fresh
from benchmarks.zoo.problem import Network, Problem, make
from moso.errors import MosoError

# The context of `moso.gradients` in which a time step ends without its identities.
SWITCH = "without_identities"
SAMPLES, BATCH = 2048, 64
NETWORKS = ("resnet8", "vit", "gpt2", "encoder")


def cost_of_checks(network: Network, turns: int, samples: int = SAMPLES, batch: int = BATCH) -> dict[str, Any]:
    """The share that the identities add to a time step: the spread over turns of with / without, minus one."""
    switch = find_switch()
    problem = make(network, samples=samples)
    works: dict[str, Work] = {
        "without": lambda: partial(_without, switch, fresh(problem), batch),
        "with": lambda: partial(by_moso, fresh(problem), batch),
    }
    found = take_turns(works, turns)
    return {
        "samples": samples,
        "batch": batch,
        "seconds": asdict(Spread.of([turn["with"] for turn in found])),
        "share": asdict(Spread.of([turn["with"] / turn["without"] - 1 for turn in found])),
    }


def find_switch() -> Callable[[], AbstractContextManager[Any]]:
    """The context without identities, or a sentence that says that this engine has none."""
    switch: Callable[[], AbstractContextManager[Any]] | None = getattr(moso.gradients, SWITCH, None)
    if switch is None:
        raise MosoError(f"moso.gradients has no {SWITCH}(), so --checks has nothing to switch off; leave --checks out")
    return switch


def _without(switch: Callable[[], AbstractContextManager[Any]], problem: Problem, batch: int) -> None:
    with switch():
        by_moso(problem, batch)
