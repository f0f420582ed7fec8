"""The candidates of `--method auto`: pairs of score and selector that follow from evidence that a run has anyway.

All candidates are computed from step terms, out-of-sample step terms, labels, and inputs that are vectors. None looks
at a network that was trained on held-out samples: a score that did (out-of-sample confidence, or `moso-cross` with one
judge) was up to two points better on held-out data than on test data, because it knows the held-out labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from moso.configuration.resolved_method import Given, ResolvedMethod, all_needs, resolve_method
from moso.methods.auto import AUTO, CHOSEN
from moso.settings import Settings

# One partition is held out, and with 2 left every sample still has a judge that saw neither it nor what is held out.
LEAST_PARTITIONS = 3
# Shares of each class, the lowest scores, that are cut off before the rest is covered evenly.
_CUTS = (0.1, 0.3, 0.5)


class CandidateSettings(Protocol):
    """The settings of a run that decide its candidates; `Configuration` implements it."""

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Settings of scores and selectors."""

    @property
    def by_class(self) -> bool:
        """Whether samples belong to classes."""

    @property
    def class_mix(self) -> str:
        """The mix of classes that is kept: as it is, or equally many of each."""

    @property
    def min_per_class(self) -> int:
        """Samples that every class keeps."""

    def problem(self, choice: ResolvedMethod) -> str | None:
        """Return one sentence on why a choice is impossible in this run, or None if it is possible."""


@dataclass(frozen=True)
class Candidate:
    """One candidate: its name for people and files, its score and selector, and whether it needs vectors as inputs."""

    name: str
    choice: ResolvedMethod
    on_inputs: bool = False

    @property
    def is_random(self) -> bool:
        """Whether the candidate is random selection."""
        return self.choice.method == "random"


def candidates(settings: CandidateSettings, *, vectors: bool, unequal: bool) -> list[Candidate]:
    """Return the candidates that are possible in a run, in the order in which level ones are preferred.

    The first is random selection.

    Args:
        settings: The configuration of the run.
        vectors: Whether inputs are vectors, among which distances mean something.
        unequal: Whether classes are of unequal size, so that equal numbers and equal shares of each class differ.
    """
    found = [one for one in _all(settings, unequal) if vectors or not one.on_inputs]
    return [one for one in found if settings.problem(one.choice) is None]


def undecided(settings: CandidateSettings) -> ResolvedMethod:
    """Return `auto` as a method: its selector stands for all candidates, and needs what any of them needs."""
    needs = all_needs(one.choice for one in candidates(settings, vectors=False, unequal=True))
    selector = replace(CHOSEN, needs=needs)
    return ResolvedMethod(AUTO, None, selector, Settings(), Settings(), settings.min_per_class)


def _all(settings: CandidateSettings, unequal: bool) -> Iterator[Candidate]:
    mix = "proportional" if settings.class_mix == "as-is" else "balanced"
    other = "balanced" if mix == "proportional" else "proportional"
    plain, classes = (mix, mix) if settings.by_class else ("top", "together")

    def made(name: str, method: str, selector: str, given: Given | None = None, on_inputs: bool = False) -> Candidate:
        table = {owner: dict(values) for owner, values in settings.settings.items()}
        for owner, values in (given or {}).items():
            table[owner] = {**table.get(owner, {}), **values}
        return Candidate(name, resolve_method(method, selector, table, settings.min_per_class), on_inputs)

    every_judge = {"moso-cross": {"judges": "all"}}
    yield made("random", "random", mix if settings.by_class else "random")
    # Before `moso-rank`: networks that did not learn a sample judge it, at no further cost here, and what they keep was
    # better on the test split in 14 of 15 runs (docs/auto.md).
    yield made("moso-cross", "moso-cross", plain, every_judge)
    yield made("moso-rank", "moso-rank", plain)
    yield made("moso-standardised", "moso-standardised", plain)
    yield made("moso", "moso", plain)
    yield made("moso-rank-late", "moso-rank", plain, {"moso-rank": {"weights": "late"}})
    if settings.by_class and unequal:
        yield made(f"moso-cross-{other}", "moso-cross", other, every_judge)
        yield made(f"moso-rank-{other}", "moso-rank", other)
    for cut in _CUTS:
        covered = {"coverage": {"classes": classes, "cut": cut}}
        yield made(f"moso-rank-coverage-{cut:g}", "moso-rank", "coverage", covered)
    yield made("herding", "herding", "herding", {"herding": {"classes": classes}}, on_inputs=True)
    yield made("k-center", "k-center", "k-center", {"k-center": {"classes": classes}}, on_inputs=True)
