"""The evidence of one seed for scores and selectors, read from the run directory on demand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso.configuration import Configuration
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence import class_errors
from moso.evidence_kinds import EvidenceKind
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.out_of_sample import PREDICTIONS
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.registry import find_kind
from moso.run.job import Job
from moso.scores import Form, find_score
from moso.scores.dynamics.dual import mean_probability

T = TypeVar("T")


@dataclass(frozen=True)
class SeedEvidence:
    """One seed of a run; implements `ScoreInput` for scores, and `SeedRun` for kinds of evidence."""

    job: Job
    seed: int
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def home(self) -> Path:
        """The folder of the seed."""
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
        """One class per sample; None if the task has no classes."""
        return self.job.data.train.labels if self.job.task.by_class else None

    @property
    def form(self) -> Form:
        """The form of the MoSo score."""
        return self.settings.form

    @property
    def initialisations(self) -> int:
        """The number of initialisations over which averaging scores take the mean."""
        return self.settings.initialisations

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of the samples, one array per partition."""
        return self.job.partitions(self.seed)

    def total_steps(self, part: int) -> int:
        """Return the number of updates of the surrogate of partition `part`."""
        return self.job.total_steps(self.job.trained(self.seed)[part])

    def time_steps(self, part: int) -> list[int]:
        """Return the sampled time steps of the surrogate of partition `part`."""
        steps: list[int] = self.job.time_steps(self.job.trained(self.seed)[part], self.seed).tolist()
        return steps

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Read evidence of a kind; kinds with `is_kept` are cached, others are read again for every score.

        Where the run compares samples by its embedding, that is what features are.
        """
        if kind.name == FEATURES.name and self.settings.features == EMBEDDING.name:
            kind = cast(EvidenceKind[T], EMBEDDING)
        if not kind.is_kept:
            return kind.read(self, column)
        if kind.name not in self._kept:
            self._kept[kind.name] = kind.read(self, column)
        found: T = self._kept[kind.name]
        return found

    def for_selector(self, choice: ResolvedMethod) -> dict[str, Any]:
        """Return the keyword arguments of `moso.select` that the selector asks for, without scores and ids."""
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
