"""Many methods side by side: what each reached at each ratio, seed by seed, beside random selection and all data.

Differences are paired (`evaluation/paired.py`). Those of one ratio to one reference stand beside each other, and their
verdicts allow for it. The baseline is the better of the random selections at the ratio, the harder to beat.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moso.evaluation.baselines import BASELINES
from moso.evaluation.paired import PairedDifference, paired_difference
from moso.evaluation.summary import FULL, Line, Measure
from moso.evaluation.tolerance import Prunable, prunable

RANDOM = "random"


@dataclass(frozen=True)
class Entry:
    """What one method reached at one ratio under each seed."""

    method: str
    selector: str
    parameters: str
    ratio: float
    measure: Measure
    by_seed: Mapping[int, float]
    several: bool = False

    @property
    def line(self) -> Line:
        """The same without its seeds, in their order."""
        values = tuple(self.by_seed[seed] for seed in sorted(self.by_seed))
        return Line(self.method, self.selector, self.ratio, values, self.measure)

    @property
    def name(self) -> str:
        """What a person calls it; settings of its selector are said where there are `several` of them to tell apart."""
        return f"{self.line.name} {self.parameters}" if self.several else self.line.name


@dataclass(frozen=True)
class Row:
    """One entry with its standing: paired differences; None where there is nothing to compare with under one seed.

    `matched` is the better of the baselines that make as many updates without pruning.
    """

    entry: Entry
    random: Entry | None
    full: Entry | None
    matched: Entry | None
    against_random: PairedDifference | None
    against_full: PairedDifference | None
    against_matched: PairedDifference | None


def entries(cells: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Cells of the evaluation, seeds gathered, in the order methods first appear.

    >>> cell = {"method": "moso", "selector": "top", "parameters": "{}", "ratio": 0.5}
    >>> cell |= {"metric": "accuracy", "unit": "%", "better": "higher"}
    >>> entries([{**cell, "seed": seed, "value": 90.0 + seed} for seed in (0, 1)])[0].by_seed
    {0: 90.0, 1: 91.0}
    """
    gathered: dict[tuple[str, str, str, float, Measure], dict[int, float]] = {}
    for cell in cells:
        measure = Measure(cell["metric"], cell["unit"], cell["better"])
        key = (cell["method"], cell["selector"], cell["parameters"], cell["ratio"], measure)
        gathered.setdefault(key, {})[cell["seed"]] = cell["value"]
    settings: dict[tuple[str, str], set[str]] = {}
    for method, selector, parameters, *_ in gathered:
        settings.setdefault((method, selector), set()).add(parameters)
    return [Entry(*key, by_seed, len(settings[key[:2]]) > 1) for key, by_seed in gathered.items()]


def compared(found: Sequence[Entry], test_samples: int = 0) -> list[Row]:
    """Compare every entry with the better random selection of its ratio, with all data and with the better baseline.

    Args:
        found: All entries of an evaluation.
        test_samples: Size of the test data, or 0 if unknown; accuracy comes in steps of one test sample.

    Returns:
        One row per entry, in the order of `found`.
    """
    full = full_entry(found)
    rows = []
    for entry in found:
        here = [other for other in found if other.ratio == entry.ratio and other.method != FULL]
        references = (_best(here, (RANDOM,)), full, _best(here, BASELINES))
        differences = (_difference(entry, reference, here, test_samples) for reference in references)
        rows.append(Row(entry, *references, *differences))
    return rows


def full_entry(found: Iterable[Entry]) -> Entry | None:
    """Training on all data, if it was measured."""
    return next((entry for entry in found if entry.method == FULL), None)


def _best(here: Iterable[Entry], methods: Container[str]) -> Entry | None:
    return max((one for one in here if one.method in methods), key=lambda one: one.line.merit, default=None)


def _difference(
    entry: Entry, reference: Entry | None, here: Sequence[Entry], test_samples: int
) -> PairedDifference | None:
    if reference is None or reference is entry:
        return None
    # All that is held against this reference at this ratio.
    comparisons = max(1, sum(one is not reference for one in here))
    return paired_difference(
        entry.by_seed,
        reference.by_seed,
        measure=entry.measure,
        test_samples=test_samples,
        comparisons=comparisons,
    )


@dataclass(frozen=True)
class Reach:
    """How much a method can remove within a tolerance: by its means, and the lowest and highest over single seeds."""

    name: str
    by_mean: Prunable
    lowest: Prunable
    highest: Prunable


def reaches(found: Sequence[Entry], tolerance: float) -> list[Reach]:
    """How much each method can remove and lose no more than `tolerance` points against all data.

    For what is not in %, the tolerance is in per cent of what all data reaches. Empty where all data was not measured.
    """
    full = full_entry(found)
    if full is None:
        return []
    scale = 1.0 if full.measure.unit == "%" else abs(full.line.mean) / 100
    by_method: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in found:
        if entry.method != FULL:
            by_method.setdefault((entry.method, entry.selector, entry.parameters), []).append(entry)
    result = []
    for own in by_method.values():
        seeds = [seed for seed in sorted(full.by_seed) if all(seed in entry.by_seed for entry in own)]
        each = [prunable(_losses(own, full, [seed]), tolerance * scale) for seed in seeds]
        if each:
            by_mean = prunable(_losses(own, full, seeds), tolerance * scale)
            each.sort(key=lambda one: (one.ratio, one.at_least))
            result.append(Reach(own[0].name, by_mean, each[0], each[-1]))
    return result


def _losses(own: Sequence[Entry], full: Entry, seeds: Sequence[int]) -> dict[float, float]:
    sign = full.measure.sign
    return {
        entry.ratio: sum(sign * (full.by_seed[seed] - entry.by_seed[seed]) for seed in seeds) / len(seeds)
        for entry in own
    }


def is_method(name: str) -> bool:
    """Whether a row is a method that prunes, and neither all data, random selection nor a baseline.

    >>> is_method("moso"), is_method("random"), is_method("rs2")
    (True, False, False)
    """
    return name not in (FULL, RANDOM, *BASELINES)
