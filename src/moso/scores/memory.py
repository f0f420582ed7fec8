"""Evidence in memory: what somebody computed for themselves, as the input of any score that needs no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso.adjoint import AdjointTerms
from moso.data.samples import id_keys
from moso.errors import EvidenceMissingError
from moso.evidence import Dynamics, PartitionTerms
from moso.scores.score import Form

Found = TypeVar("Found")


@dataclass(frozen=True)
class MemoryInput:
    """A `ScoreInput` of what is given; whatever else a score asks for is refused by name.

    >>> from moso.scores import find_score
    >>> find_score("entropy")(MemoryInput(2, finals={"entropy": np.array([0.25, 0.5])}))
    array([0.25, 0.5 ])
    """

    samples: int
    labels: NDArray[np.int64] | None = None
    partition_terms: Sequence[PartitionTerms] | None = None
    parts: Sequence[NDArray[np.int64]] | None = None
    adjoints: Sequence[AdjointTerms] | None = None
    recorded: Dynamics | None = None
    finals: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    errors: NDArray[np.float32] | None = None
    norms: NDArray[np.float64] | None = None
    rows: NDArray[np.float32] | None = None
    form: Form = "paper"
    seed: int = 0
    initialisations: int = 1

    @property
    def ids(self) -> pa.Array:
        """Positions are ids."""
        return pa.array(np.arange(self.samples))

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Keys of the positions."""
        return id_keys(self.ids)

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """What was given; without it, one partition of all."""
        return [np.arange(self.samples)] if self.parts is None else self.parts

    @property
    def terms(self) -> Sequence[PartitionTerms]:
        """The step terms of every partition."""
        return _there(self.partition_terms, "step terms")

    @property
    def adjoint(self) -> Sequence[AdjointTerms]:
        """What the derivative of every partition's training says."""
        return _there(self.adjoints, "the adjoint of a training run")

    def dynamics(self, initialisation: int = 0) -> Dynamics:
        """What was recorded while training."""
        return _there(self.recorded, "training dynamics")

    def final(self, column: str) -> NDArray[np.float32]:
        """What the trained network says."""
        return np.asarray(_there(self.finals.get(column), f"the trained network's {column}"), dtype=np.float32)

    def early_errors(self) -> NDArray[np.float32]:
        """Error norms early in training."""
        return _there(self.errors, "early error norms")

    def early_norms(self) -> NDArray[np.float64]:
        """Gradient norms early in training."""
        return _there(self.norms, "early gradient norms")

    def features(self) -> NDArray[np.float32]:
        """Features."""
        return _there(self.rows, "features")

    def embedding(self) -> NDArray[np.float32]:
        """Features that know nothing of labels: those that were given."""
        return _there(self.rows, "an embedding")

    def influences(self) -> NDArray[np.float32]:
        """Influences on the parameters: the rows that were given."""
        return _there(self.rows, "influences")


def _there(found: Found | None, what: str) -> Found:
    if found is None:
        raise EvidenceMissingError(f"the score needs {what}, and none were given")
    return found
