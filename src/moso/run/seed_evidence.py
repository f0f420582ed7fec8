"""The evidence of one seed as scores and selectors ask for it, read from the run directory when it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.adjoint import AdjointTerms
from moso.configuration.resolved_method import ResolvedMethod
from moso.evidence import (
    Dynamics,
    PartitionTerms,
    class_errors,
    read_features,
    read_out_of_sample,
    read_terms,
    terms_path,
)
from moso.evidence.arrays import read
from moso.evidence.early import read_early
from moso.results.layout import (
    dynamics_folder,
    early_path,
    embedding_path,
    features_path,
    final_path,
    influences_path,
    part_name,
    reference_name,
)
from moso.run.adjoint import read_adjoints
from moso.run.job import Job
from moso.scores import Form, Hard, find_score
from moso.scores.dynamics.dual import mean_probability


@dataclass(frozen=True)
class SeedEvidence:
    """A `ScoreInput` of one seed of a run."""

    job: Job
    seed: int

    @property
    def home(self) -> Path:
        """Where the seed's files are."""
        return self.job.directory.of_seed(self.job.configuration, self.seed)

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key a sample."""
        return self.job.data.train.keys

    @property
    def ids(self) -> pa.Array:
        """One stable id a sample."""
        return self.job.data.train.ids

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """One class a sample; None where there are no classes."""
        return self.job.data.train.labels if self.job.task.by_class else None

    @property
    def form(self) -> Form:
        """The form of MoSo."""
        return self.job.configuration.form

    @property
    def initialisations(self) -> int:
        """How many networks are averaged by scores that average."""
        return self.job.configuration.initialisations

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of every partition's samples."""
        return self.job.partitions(self.seed)

    @cached_property
    def terms(self) -> Sequence[PartitionTerms]:
        """The stored terms of every partition."""
        found = []
        for part, positions in enumerate(self.partitions):
            steps = self.job.time_steps(positions, self.seed).tolist()
            paths = [terms_path(self.home / "terms" / part_name(part), step) for step in steps]
            missing = [path for path in paths if not path.exists()]
            if missing:
                raise errors.StageIncomplete(
                    f"{missing[0]} is missing: partition {part} was not scored; run `moso score` first"
                )
            found.append(PartitionTerms(self.job.total_steps(positions), [read_terms(path) for path in paths]))
        return found

    @cached_property
    def adjoint(self) -> Sequence[AdjointTerms]:
        """What the derivative of every partition's training says."""
        return read_adjoints(self.job, self.seed)

    def dynamics(self, initialisation: int = 0) -> Dynamics:
        """What a reference said while it trained."""
        return Dynamics.open(dynamics_folder(self.home, reference_name(initialisation)))

    def final(self, column: str) -> NDArray[np.float32]:
        """What the trained first reference says about every sample."""
        path = final_path(self.home, column)
        if not path.exists():
            raise errors.StageIncomplete(
                f"{path} is missing: the trained network was not asked; run `moso score` first"
            )
        found: NDArray[np.float32] = read(path)
        return found

    def early_errors(self) -> NDArray[np.float32]:
        """Error norms early in training, `[initialisations, samples]`."""
        return np.stack([read_early(early_path(self.home, r, "errors"), "error_norm") for r in self._references])

    def early_norms(self) -> NDArray[np.float64]:
        """Norms of gradients early in training, `[initialisations, samples]`."""
        squared = [read_early(early_path(self.home, r, "norms"), "squared_norm") for r in self._references]
        return np.asarray(np.sqrt(np.stack(squared)))

    def features(self) -> NDArray[np.float32]:
        """Features of the first reference, a memory map."""
        return read_features(features_path(self.home))

    def embedding(self) -> NDArray[np.float32]:
        """Features that know nothing of labels, a memory map."""
        return read_features(embedding_path(self.home))

    def influences(self) -> NDArray[np.float32]:
        """Influences on the parameters of the trained first reference, a memory map."""
        path = influences_path(self.home)
        if not path.exists():
            raise errors.StageIncomplete(f"{path} is missing: influences were not computed; run `moso score` first")
        found: NDArray[np.float32] = read(path)
        return found

    @property
    def _references(self) -> range:
        return range(self.initialisations)

    def for_selector(self, choice: ResolvedMethod) -> dict[str, Any]:
        """What `moso.select` is given besides scores and ids, all that the selector asks for and nothing else."""
        asked = choice.selector.needed(choice.settings)
        given: dict[str, Any] = {"labels": self.labels, "hard": _hard(choice) if "hard" in asked else None}
        if "features" in asked:
            given["features"] = self.features()
        if "probability" in asked:
            dual = find_score("dual")
            own = self.job.configuration.settings.get("dual", {})
            given["probability"] = mean_probability(self, dual.resolved(own))  # type: ignore[arg-type]
        if "influences" in asked:
            given["influences"] = self.influences()
        if "class-error" in asked:
            assert self.labels is not None, "a selector that needs classes is refused where there are none"
            given["class_error"] = class_errors(read_out_of_sample(self.home), self.labels)
        return given


def _hard(choice: ResolvedMethod) -> Hard | None:
    return None if choice.score is None else choice.score.hard
