"""Many methods side by side: the values of each at each ratio and seed, compared with random selection and all data.

Differences are paired (`evaluation/paired.py`). The differences to one reference at one ratio form a table, and their
verdicts are corrected for its size. The random baseline is the better of the random selections at the ratio.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from moso.evaluation.baselines import BASELINES
from moso.evaluation.paired import PairedDifference, paired_difference
from moso.evaluation.summary import FULL, Line
from moso.evaluation.tolerance import Prunable, prunable
from moso.tasks.metric import Measure

RANDOM = "random"


class RetrainingRow(TypedDict, total=False):
    """One retraining with its result.

    `accuracy` is None for other metrics, only accuracy has counts per class, and `weighted` is there (and true) only if
    the samples were weighted in training.
    """

    method: str
    selector: str
    parameters: str
    ratio: float
    seed: int
    network: str
    recipe: str
    match: str
    samples: int
    updates: int
    passes: int
    visits: int
    weighted: bool
    metric: str
    unit: Literal["%", ""]
    better: Literal["higher", "lower"]
    value: float
    accuracy: float | None
    loss: list[float]
    class_correct: list[int]
    class_count: list[int]


@dataclass(frozen=True)
class Entry:
    """The values of one method, selector and setting at one ratio, by seed.

    Attributes:
        parameters: Settings of the selector as JSON.
        by_seed: One value per seed, in the unit of `measure`.
        several: Whether the same method and selector occur with several settings, so that the name must tell them
            apart.
        weighted: Whether the kept samples were weighted in training.
    """

    method: str
    selector: str
    parameters: str
    ratio: float
    measure: Measure
    by_seed: Mapping[int, float]
    several: bool = False
    weighted: bool = False

    @property
    def line(self) -> Line:
        """The same values as a `Line`, in the order of seeds."""
        values = tuple(self.by_seed[seed] for seed in sorted(self.by_seed))
        return Line(self.method, self.selector, self.ratio, values, self.measure)

    @property
    def name(self) -> str:
        """The name for people; with the selector's settings if there are `several` of them."""
        return f"{self.line.name} {self.parameters}" if self.several else self.line.name


@dataclass(frozen=True)
class Row:
    """One entry with its paired differences; a difference is None without a reference or without a common seed.

    Attributes:
        random: The better of the random selections at this ratio.
        full: Training on all data.
        matched: The better of the baselines that make as many updates without pruning.
    """

    entry: Entry
    random: Entry | None
    full: Entry | None
    matched: Entry | None
    against_random: PairedDifference | None
    against_full: PairedDifference | None
    against_matched: PairedDifference | None


def entries(cells: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Gather the results of an evaluation by method, selector, settings and ratio, in order of first appearance.

    Args:
        cells: One mapping per retraining: method, selector, parameters, ratio, seed, value, metric, unit, better.

    Example:
        >>> cell = {"method": "moso", "selector": "top", "parameters": "{}", "ratio": 0.5}
        >>> cell |= {"metric": "accuracy", "unit": "%", "better": "higher"}
        >>> entries([{**cell, "seed": seed, "value": 90.0 + seed} for seed in (0, 1)])[0].by_seed
        {0: 90.0, 1: 91.0}
    """
    gathered: dict[tuple[str, str, str, float, Measure], dict[int, float]] = {}
    weighted = set()
    for cell in cells:
        measure = Measure(cell["metric"], cell["unit"], cell["better"])
        key = (cell["method"], cell["selector"], cell["parameters"], cell["ratio"], measure)
        gathered.setdefault(key, {})[cell["seed"]] = cell["value"]
        if cell.get("weighted"):
            weighted.add(key)
    settings: dict[tuple[str, str], set[str]] = {}
    for method, selector, parameters, *_ in gathered:
        settings.setdefault((method, selector), set()).add(parameters)
    return [Entry(*key, by_seed, len(settings[key[:2]]) > 1, key in weighted) for key, by_seed in gathered.items()]


def weighted_note(found: Iterable[Entry]) -> str:
    """Return one sentence about the entries whose samples were weighted in training; empty if there are none.

    Example:
        >>> accuracy = Measure("accuracy", "%", "higher")
        >>> weighted_note([Entry("craig", "craig", "{}", 0.5, accuracy, {0: 90.0}, weighted=True)])
        'Kept samples are weighted in training by craig (craig).'
    """
    names = list(dict.fromkeys(entry.name for entry in found if entry.weighted))
    return f"Kept samples are weighted in training by {' and '.join(names)}." if names else ""


def compared(found: Sequence[Entry], test_samples: int = 0) -> list[Row]:
    """Compare every entry with the better random selection of its ratio, with all data and with the better baseline.

    Args:
        found: All entries of an evaluation.
        test_samples: Size of the test data, or 0 if unknown; it is the resolution of accuracy.

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
    """Return the entry of training on all data; None if it was not measured."""
    return next((entry for entry in found if entry.method == FULL), None)


def _best(here: Iterable[Entry], methods: Container[str]) -> Entry | None:
    return max((one for one in here if one.method in methods), key=lambda one: one.line.merit, default=None)


def _difference(
    entry: Entry, reference: Entry | None, here: Sequence[Entry], test_samples: int
) -> PairedDifference | None:
    if reference is None or reference is entry:
        return None
    # The number of entries that are compared with this reference at this ratio.
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
    """The largest share that a method can remove within a tolerance.

    Attributes:
        by_mean: By the mean over seeds.
        lowest: The smallest result of a single seed.
        highest: The largest result of a single seed.
    """

    name: str
    by_mean: Prunable
    lowest: Prunable
    highest: Prunable


def reaches(found: Sequence[Entry], tolerance: float) -> list[Reach]:
    """Compute how much each method can remove with a loss of at most `tolerance` against all data.

    Args:
        found: All entries of an evaluation.
        tolerance: In points for metrics in %, else in per cent of the value on all data.

    Returns:
        One `Reach` per method, selector and settings; empty if training on all data was not measured.
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
    """Return whether a name is a pruning method: not all data, random selection or a baseline.

    Example:
        >>> is_method("moso"), is_method("random"), is_method("rs2")
        (True, False, False)
    """
    return name not in (FULL, RANDOM, *BASELINES)
