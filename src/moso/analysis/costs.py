"""Costs of a run so far, and costs per method beyond the shared surrogates, read from events without opening data.

`networks` are the trainings of the references that the evidence of a method comes from, `measuring` is the evidence
from trained networks (the step terms of MoSo, features, ...), `choosing` is the score itself and its selections.
Evidence is measured once for all methods that need it, so the costs of two methods must not be added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from moso.configuration import Configuration
from moso.configuration.resolved_method import ResolvedMethod
from moso.evaluation.summary import Costs
from moso.evidence.layout import reference_name
from moso.evidence_kinds.registry import averages, needed_kinds, needs_reference
from moso.evidence_kinds.step_terms import TERMS
from moso.results.directory import RunDirectory
from moso.results.reading import Run
from moso.results.retrainings import all_retrainings, retraining_of


def costs(directory: RunDirectory, configuration: Configuration) -> Costs:
    """Return the seconds of computation of the first seed's training and scoring, and of a retraining per ratio."""
    own = f"seed-{configuration.seed}/"
    spent = {
        stage: sum(value for piece, value in directory.seconds(stage).items() if piece.startswith(own))
        for stage in ("train", "score")
    }
    retraining = directory.seconds("evaluate")
    by_ratio: dict[float, list[float]] = {}
    for row in all_retrainings(directory.root):
        piece = retraining_of(row).digest()
        if piece in retraining and row["match"] == configuration.match:
            by_ratio.setdefault(row["ratio"], []).append(retraining[piece])
    medians = {ratio: float(np.median(values)) for ratio, values in sorted(by_ratio.items())}
    return Costs(spent["train"], spent["score"], medians, sum(retraining.values()))


Part = Literal["networks", "measuring", "choosing"]


@dataclass(frozen=True)
class MethodCost:
    """The cost of a method and selector.

    Attributes:
        method: Name of the method.
        selector: Name of the selector.
        networks: Seconds per seed of training references.
        measuring: Seconds per seed of measuring evidence.
        choosing: Seconds per seed of computing the score and selecting.
        peak: Largest peak memory of a piece of work, in bytes beyond what its process held before; None if not known.
    """

    method: str
    selector: str
    networks: float
    measuring: float
    choosing: float
    peak: int | None

    @property
    def seconds(self) -> float:
        """Seconds per seed of all parts."""
        return self.networks + self.measuring + self.choosing


@dataclass(frozen=True)
class _Work:
    """A measured piece of work: its kind, its name, its seconds and its peak memory."""

    what: str
    piece: str
    seconds: float
    peak: int | None


def method_costs(run: Run, choices: Sequence[ResolvedMethod] | None = None) -> list[MethodCost]:
    """Return the cost of each choice as if it were the only one.

    Args:
        run: The run.
        choices: Methods and selectors; None stands for those of the run's configuration.
    """
    work, seeds = _measured(run), len(run.configuration.all_seeds())
    made: dict[tuple[str, str, str], set[str]] = {}
    for selection in run.selections():
        made.setdefault((selection.method, selection.selector, selection.parameters), set()).add(selection.digest())
    found = []
    for choice in run.configuration.choices() if choices is None else choices:
        own = made.get((choice.method, choice.selector.name, choice.parameters), set())
        parts: dict[Part, float] = {"networks": 0.0, "measuring": 0.0, "choosing": 0.0}
        peaks = []
        for one in work:
            part = _part(choice, own, one)
            if part is not None:
                parts[part] += one.seconds / seeds
                peaks.append(one.peak)
        known = [peak for peak in peaks if peak is not None]
        found.append(MethodCost(choice.method, choice.selector.name, **parts, peak=max(known, default=None)))
    return found


def _measured(run: Run) -> list[_Work]:
    """Return every piece of work once; the seconds of a resumed training include those before it was killed."""
    trained = run.directory.seconds("train")
    found = {}
    for event in run.directory.events():
        if event["event"] == "measured":
            seconds = max(event["seconds"], trained.get(event["piece"], 0.0) if event["what"] == "reference" else 0.0)
            found[event["what"], event["piece"]] = _Work(event["what"], event["piece"], seconds, event["peak"])
    return list(found.values())


def _part(choice: ResolvedMethod, selections: set[str], work: _Work) -> Part | None:
    """Return the part of the cost of a choice that a piece of work belongs to, or None if it is not needed."""
    needs = choice.needs()
    match work.what:
        case "train" | "evaluate":
            return None
        case "reference":
            first = work.piece.endswith(f"/{reference_name(0)}")
            return "networks" if (needs_reference(needs) if first else averages(needs)) else None
        case "values":
            own = choice.score is not None and work.piece.partition("/")[2] == choice.score.name
            return "choosing" if own else None
        case "select":
            return "choosing" if work.piece in selections else None
        case what:
            evidence = TERMS.name if what.partition("-")[0] == "score" else what
            return "measuring" if evidence in {kind.name for kind in needed_kinds(needs)} else None
