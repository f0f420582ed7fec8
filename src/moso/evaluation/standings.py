"""Many methods side by side: what each reached at each ratio, seed by seed, beside random selection and all data.

Differences are paired: under one seed all methods share data, surrogates, initialisation and test, and what that seed
does to all of them cancels. Intervals are Student's over seeds and hold one by one; of many methods, a few will lie
outside theirs by chance alone. The baseline is the better of the random selections at the ratio, the harder to beat.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moso.evaluation.baselines import BASELINES
from moso.evaluation.statistics import Interval, paired_difference
from moso.evaluation.summary import FULL, Line
from moso.evaluation.tolerance import Prunable, prunable
from moso.tasks.metric import ACCURACY, Measure

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
    """One entry with its standing: paired differences in the measure's unit, as measured (not turned).

    None where there is nothing to compare with; an interval of NaN where a single seed cannot give one.
    """

    entry: Entry
    random: Entry | None
    against_random: Interval | None
    against_full: Interval | None


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
    """Every entry beside the better random selection of its ratio and beside all data.

    `test_samples` says how fine accuracy is: it comes in steps of one sample.
    """
    full = full_entry(found)
    rows = []
    for entry in found:
        resolution = 100 / test_samples if test_samples and entry.measure == ACCURACY else 0.0
        random = random_entry(found, entry.ratio)
        rows.append(
            Row(
                entry,
                random,
                _difference(entry, random, resolution),
                _difference(entry, full, resolution),
            )
        )
    return rows


def full_entry(found: Iterable[Entry]) -> Entry | None:
    """Training on all data, if it was measured."""
    return next((entry for entry in found if entry.method == FULL), None)


def random_entry(found: Iterable[Entry], ratio: float) -> Entry | None:
    """The better of the random selections at a ratio, if there is one."""
    here = (entry for entry in found if entry.method == RANDOM and entry.ratio == ratio)
    return max(here, key=lambda entry: entry.line.merit, default=None)


def _difference(entry: Entry, other: Entry | None, resolution: float) -> Interval | None:
    if other is None or other is entry:
        return None
    return paired_difference(entry.by_seed, other.by_seed, resolution)


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
