"""Two runs over the same samples side by side: which samples are which, and paired differences of their retrainings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from moso import errors
from moso.analysis.comparison import ordered_entries
from moso.evaluation.paired import PairedDifference, paired_difference
from moso.evaluation.standings import Entry
from moso.evaluation.summary import FULL
from moso.results.reading import Run


@dataclass(frozen=True)
class PairRow:
    """One method at one ratio in either run.

    Attributes:
        name: Name of the method with its selector.
        method: Name of the method.
        ratio: Share of samples removed.
        own: The retrainings of the first run; None if it has none.
        other: The retrainings of the second run; None if it has none.
        difference: Second run minus first, seed by seed; None where one is missing or the test data differ.
    """

    name: str
    method: str
    ratio: float
    own: Entry | None
    other: Entry | None
    difference: PairedDifference | None


@dataclass(frozen=True)
class RunPair:
    """Two runs over the same samples.

    Attributes:
        own: The first run.
        other: The second run.
        name: Name of the second run, for people.
        places: Position of every sample of the first run in the second, shape ``[samples]``.
        labels_differ: Number of samples that have another label in the second run.
        same_test: Whether both runs tested on the same data.
        rows: Retrainings of both runs beside each other.
        settings: Settings that differ: name, value in the first run, value in the second.
    """

    own: Run
    other: Run
    name: str
    places: NDArray[np.int64]
    labels_differ: int
    same_test: bool
    rows: Sequence[PairRow]
    settings: Sequence[tuple[str, str, str]]


def pair_runs(own: Run, other: Run) -> RunPair:
    """Match two runs by the ids of their samples.

    Raises:
        MosoError: ``stage-incomplete`` if a run has no scores; ``runs-incomparable`` if the samples are not the same.
    """
    first, second = own.table(), other.table()
    ids, others = first["id"].combine_chunks(), second["id"].combine_chunks()
    if ids.type != others.type:
        ids, others = ids.cast(pa.string()), others.cast(pa.string())
    found = pc.index_in(ids, value_set=others)
    shared = len(ids) - found.null_count
    if found.null_count or len(ids) != len(others):
        raise errors.RunsIncomparable(
            f"{own.directory} has {len(ids):,} samples and {other.directory} has {len(others):,}, of which {shared:,} "
            "are the same; two runs are compared over the same samples"
        )
    places = found.to_numpy(zero_copy_only=False).astype(np.int64)
    differing = 0
    if own.task.by_class and other.task.by_class:
        names = [np.array(run.task.classes, dtype=object) for run in (own, other)]
        given = names[0][first["label"].to_numpy()], names[1][second["label"].to_numpy()[places]]
        differing = int((given[0] != given[1]).sum())
    tests = [run.manifest["dataset"]["fingerprint"].get("test") for run in (own, other)]
    name = other.directory.root.name
    return RunPair(
        own,
        other,
        name if name != own.directory.root.name else f"{other.directory.root.parent.name}/{name}",
        places,
        differing,
        tests[0] == tests[1],
        _rows(own, other, tests[0] == tests[1]),
        _differing_settings(own, other),
    )


def _rows(own: Run, other: Run, same_test: bool) -> list[PairRow]:
    mine, theirs = ({(one.name, one.ratio): one for one in ordered_entries(run)} for run in (own, other))
    keys = list(dict.fromkeys([*mine, *theirs]))
    both = [key for key in keys if key in mine and key in theirs and mine[key].measure == theirs[key].measure]
    tests = own.manifest["dataset"]["test"]
    rows = []
    for key in sorted(keys, key=lambda one: (one[1], keys.index(one))):
        first, second = mine.get(key), theirs.get(key)
        difference = None
        if same_test and key in both:
            difference = paired_difference(
                theirs[key].by_seed,
                mine[key].by_seed,
                measure=mine[key].measure,
                test_samples=tests,
                comparisons=len(both),
            )
        entry = first or second
        assert entry is not None
        rows.append(
            PairRow("all data" if entry.method == FULL else key[0], entry.method, key[1], first, second, difference)
        )
    return rows


def _differing_settings(own: Run, other: Run) -> list[tuple[str, str, str]]:
    first, second = (_flat(run.configuration.model_dump(mode="json")) for run in (own, other))
    names = dict.fromkeys([*first, *second])
    return [
        (name.replace("_", " "), first.get(name, ""), second.get(name, ""))
        for name in names
        if first.get(name, "") != second.get(name, "")
    ]


def _flat(values: dict[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name} ")
        else:
            found[before + name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found
