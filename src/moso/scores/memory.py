"""Evidence in memory: what somebody computed for themselves, as the input of any score that needs no more."""

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
    """A `ScoreInput` of what is given; whatever else a score asks for is refused by name.

    `evidence` is what the kinds of these names would read from a run (`terms`, `features`, `final:entropy`, ...).

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

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """What was given under the name of a kind, or of its column."""
        name = f"{kind.name}:{column}" if column else kind.name
        if name not in self.evidence:
            raise errors.EvidenceMissing(f"the score needs {kind.description} ({name!r}), and none were given")
        return cast(T, self.evidence[name])
