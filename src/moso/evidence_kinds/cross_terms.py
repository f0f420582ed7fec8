"""Out-of-sample step terms: `G . g_z` of samples at the steps of a surrogate that was not trained on them.

`G` is the mean gradient of the partition that the surrogate *was* trained on. The sample has no share in it, so one
scalar per sample and step is enough. Two kinds differ in how many surrogates judge a sample: the neighbour of its own
partition, at the cost of `terms`, or all others.

On disk `cross-terms/part-001/step-00000123.npz` (`cross-terms-all/...`), in the order of the judged positions, and
`complete.json` once all steps of the surrogate are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.evidence import StepTerms, judged_terms, read_terms, terms_path, write_terms
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun
from moso.files import read_record, write_record

Judges = Literal["one", "all"]


@dataclass(frozen=True)
class JudgedTerms:
    """The terms of samples that one surrogate was not trained on, in the order of `positions`, step by step.

    Attributes:
        positions: Positions of the judged samples.
        steps: The terms of each sampled step.
        total_steps: Number of updates of the surrogate's training.
    """

    positions: NDArray[np.int64]
    steps: Sequence[StepTerms]
    total_steps: int


def judged_positions(partitions: Sequence[NDArray[np.int64]], part: int, judges: Judges) -> NDArray[np.int64]:
    """Return the positions of the samples that the surrogate of partition `part` judges.

    Args:
        partitions: Positions of the samples of each partition.
        part: The surrogate.
        judges: ``"one"``: the surrogate judges the partition before its own, so that every sample has one judge;
            ``"all"``: the surrogate judges all samples that it was not trained on.

    Example:
        >>> parts = [np.array([0, 3]), np.array([1, 4]), np.array([2, 5])]
        >>> judged_positions(parts, 0, "one"), judged_positions(parts, 0, "all")
        (array([2, 5]), array([1, 2, 4, 5]))
    """
    if judges == "one":
        return partitions[(part - 1) % len(partitions)]
    return np.sort(np.concatenate([positions for other, positions in enumerate(partitions) if other != part]))


class CrossTerms(EvidenceKind[Sequence[JudgedTerms]]):
    """The step terms of samples at surrogates of other partitions, one entry per surrogate."""

    network = "surrogate"
    moment = "steps"
    effort = "per-sample gradients at every sampled step"
    decided_by = ("partitions", "time_steps", "sampling", "parameters")
    decided_if_changed = {"view": "evaluation", "optimizer_aware": False}  # noqa: RUF012 - nobody writes to it
    missing = "no surrogate has judged the samples of other partitions"

    def __init__(self, judges: Judges) -> None:
        self.judges: Judges = judges
        self.name = "cross-terms" if judges == "one" else "cross-terms-all"
        which = "the neighbouring partition" if judges == "one" else "all other partitions"
        self.description = f"step terms at the surrogate of {which}"
        self.file = f"{self.name}/part-{{index:03d}}"

    def is_complete(self, home: Path, index: int = 0, columns: object = ()) -> bool:
        """Return whether all steps of one surrogate are on disk."""
        return (self.path(home, index) / "complete.json").exists()

    def measure(self, given: Measuring) -> None:
        """Measure and write the steps that are not on disk yet."""
        folder = self.path(given.home, given.index)
        trained_on = given.partitions[given.index]
        judged = judged_positions(given.partitions, given.index, self.judges)
        model, steps = given.initial_network(), given.time_steps(given.index)
        label = f"{self.name} {given.index + 1}/{len(given.partitions)}, seed {given.seed}"
        for number, (view, point) in enumerate(given.sampled_steps(), 1):
            path = terms_path(folder, point.step)
            if not path.exists():
                terms = judged_terms(
                    model,
                    point,
                    view,
                    trained_on,
                    judged,
                    loss=given.loss,
                    batch_size=given.settings.score_batch_size,
                    parameters=given.parameter_filter,
                    loader_workers=given.loader_workers,
                )
                write_terms(path, terms)
            given.progress(label, number, len(steps))
        write_record(folder / "complete.json", {"steps": steps, "samples": len(judged)})

    def read(self, given: SeedRun, column: str = "") -> list[JudgedTerms]:
        """Read the terms of all sampled steps, one entry per surrogate."""
        found = []
        for part in range(len(given.partitions)):
            folder = self.path(given.home, part)
            steps = read_record(self.found(folder / "complete.json"))["steps"]
            terms = [read_terms(self.found(terms_path(folder, step))) for step in steps]
            judged = judged_positions(given.partitions, part, self.judges)
            found.append(JudgedTerms(judged, terms, given.total_steps(part)))
        return found

    def price(self, settings: RunSettings) -> Price:
        """Return the price: per step one pass over the surrogate's own samples, and one over those it judges."""
        count = settings.time_steps
        passes = 2.0 if self.judges == "one" else float(settings.partitions)
        looks = count if settings.view == "training" else 0
        what = f"{count} time steps of samples of other partitions"
        return Price(looks=looks, gradients=passes * count, what=what, work="scoring")

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why these settings leave no surrogate that did not see a sample, or no recorded step, or None."""
        if settings.partitions < 2:
            return (
                f"method {method!r} judges a sample at a surrogate of another partition, and with 1 partition there is "
                "none; use 2 partitions or more"
            )
        if settings.estimator != "exact" or settings.risk != "train":
            return (
                f"method {method!r} compares with the mean gradient of a surrogate's own partition, exactly; use "
                "estimator 'exact' and risk 'train'"
            )
        return None


CROSS_TERMS, CROSS_TERMS_ALL = CrossTerms("one"), CrossTerms("all")
