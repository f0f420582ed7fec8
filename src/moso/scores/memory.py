"""Evidence in memory: arrays that the caller computed, as the input of any score that needs nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.data.samples import id_keys
from moso.evidence_kinds import EvidenceKind
from moso.scores.score import Form

T = TypeVar("T")


@dataclass(frozen=True)
class MemoryInput:
    """A `ScoreInput` backed by the caller's arrays; evidence that was not given raises an error that names it.

    Attributes:
        samples: Number of samples.
        labels: One class number per sample, shape ``[samples]``, or None.
        evidence: What `EvidenceKind.read` would return from a run, by name (`terms`, `features`, `final:entropy`, ...).
        parts: Positions of the samples of each partition; None means one partition of all samples.

    Example:
        >>> from moso.scores import find_score
        >>> find_score("entropy")(MemoryInput(2, evidence={"final:entropy": np.array([0.25, 0.5])}))
        array([0.25, 0.5 ])
    """

    samples: int
    labels: NDArray[np.int64] | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)
    parts: Sequence[NDArray[np.int64]] | None = None
    form: Form = "paper"
    seed: int = 0
    initialisations: int = 1

    @property
    def ids(self) -> pa.Array:
        """Return the ids of the samples: their positions."""
        return pa.array(np.arange(self.samples))

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Return one 64-bit key per sample, derived from the ids."""
        return id_keys(self.ids)

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """Return the given partitions, or a single partition of all samples."""
        return [np.arange(self.samples)] if self.parts is None else self.parts

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Return the evidence given under the name of the kind, or under `kind:column`.

        Raises:
            EvidenceMissing: The evidence was not given.
        """
        name = f"{kind.name}:{column}" if column else kind.name
        if name not in self.evidence:
            raise errors.EvidenceMissing(f"the score needs {kind.description} ({name!r}), and none were given")
        return cast(T, self.evidence[name])
