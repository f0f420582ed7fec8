"""The evidence of one seed as scores and selectors ask for it, read from the run directory when it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso.configuration import Configuration
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence import class_errors
from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.out_of_sample import PREDICTIONS
from moso.evidence_kinds.registry import find_kind
from moso.run.job import Job
from moso.scores import Form, find_score
from moso.scores.dynamics.dual import mean_probability

T = TypeVar("T")


@dataclass(frozen=True)
class SeedEvidence:
    """One seed of a run: a `ScoreInput`, and the `SeedRun` that kinds of evidence read from."""

    job: Job
    seed: int
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def home(self) -> Path:
        """Where the seed's files are."""
        return self.job.directory.of_seed(self.settings, self.seed)

    @property
    def settings(self) -> Configuration:
        """The settings of the run."""
        return self.job.configuration

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key per sample."""
        return self.job.data.train.keys

    @property
    def ids(self) -> pa.Array:
        """One stable id per sample."""
        return self.job.data.train.ids

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """One class per sample; None where there are no classes."""
        return self.job.data.train.labels if self.job.task.by_class else None

    @property
    def form(self) -> Form:
        """The form of MoSo."""
        return self.settings.form

    @property
    def initialisations(self) -> int:
        """How many networks are averaged by scores that average."""
        return self.settings.initialisations

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of every partition's samples."""
        return self.job.partitions(self.seed)

    def total_steps(self, part: int) -> int:
        """The updates of a partition's surrogate."""
        return self.job.total_steps(self.partitions[part])

    def time_steps(self, part: int) -> list[int]:
        """The sampled time steps of a partition's surrogate."""
        steps: list[int] = self.job.time_steps(self.partitions[part], self.seed).tolist()
        return steps

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Evidence of a kind, which is read again for every score unless the kind says that it is kept."""
        if not kind.is_kept:
            return kind.read(self, column)
        if kind.name not in self._kept:
            self._kept[kind.name] = kind.read(self, column)
        found: T = self._kept[kind.name]
        return found

    def for_selector(self, choice: ResolvedMethod) -> dict[str, Any]:
        """What `moso.select` is given besides scores and ids, all that the selector asks for and nothing else."""
        asked = choice.selector.needed(choice.settings)
        hard = None if choice.score is None or "hard" not in asked else choice.score.hard
        kinds = [kind for kind in map(find_kind, asked - {"labels"}) if kind is not None]
        given: dict[str, Any] = {"labels": self.labels, "hard": hard}
        given["evidence"] = {kind.name: self.read(kind) for kind in kinds}
        if "probability" in asked:
            dual = find_score("dual")
            own = self.settings.settings.get("dual", {})
            given["probability"] = mean_probability(self, dual.resolved(own))  # type: ignore[arg-type]
        if "class-error" in asked:
            assert self.labels is not None, "a selector that needs classes is refused where there are none"
            given["class_error"] = class_errors(self.read(PREDICTIONS), self.labels)
        return given
