"""A score: its name, what it believes, what it needs, and the function from evidence to one float a sample.

A score declares the names of the kinds of evidence that it reads (`evidence_kinds/`), so that training leaves just
that; a column of a family is `dynamics:margin`, `final:entropy`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.evidence_kinds import EvidenceKind
from moso.settings import Option, Settings, options, resolve

T = TypeVar("T")
Form = Literal["paper", "centred"]
Hard = Literal["high", "low"]
# Which scores a method keeps: the highest, or those in the middle.
Keep = Literal["high", "middle"]


class ScoreInput(Protocol):
    """The evidence of one seed, read when it is asked for; arrays are in data set order."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key a sample, where its draws are addressed."""

    @property
    def ids(self) -> pa.Array:
        """One stable id a sample."""

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """One class a sample; None where there are no classes."""

    @property
    def seed(self) -> int:
        """The seed of the whole pipeline."""

    @property
    def form(self) -> Form:
        """The paper's form of MoSo, or the centred one."""

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of every partition's samples."""

    @property
    def initialisations(self) -> int:
        """How many networks were trained to be averaged."""

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Evidence of a kind; of a family such as `final`, one column."""


@dataclass(frozen=True)
class Score:
    """A named score; what it gives is float64 `[samples]` in data set order, and high means keep.

    `hard` is the end of the score, as it is stored, where the hard samples are: None where neither is. Where the
    source keeps the middle, `keep` says so. `compute` is given a `ScoreInput`, and its settings where it has some.
    """

    name: str
    description: str
    compute: Callable[..., NDArray[np.float64]]
    needs: frozenset[str] = frozenset()
    hard: Hard | None = None
    keep: Keep = "high"
    scale: str = ""
    formula: str = ""
    source: str = ""
    settings: type[Settings] | None = None
    least_epochs: int = 1

    def resolved(self, given: Mapping[str, Any]) -> Settings:
        """The settings that these values lead to; unknown names and values that make no sense are refused."""
        return resolve(f"score {self.name!r}", self.settings or Settings, given)

    def needed(self, settings: Settings | None = None) -> frozenset[str]:
        """All evidence it asks for under these settings, or under its defaults."""
        return self.needs | (settings or self.resolved({})).needs()

    def options(self) -> list[Option]:
        """Its settings with their defaults and a sentence on each."""
        return options(self.settings or Settings)

    def __call__(self, given: ScoreInput, settings: Settings | None = None) -> NDArray[np.float64]:
        """The score of every sample, checked: one number each."""
        values = self.compute(given) if self.settings is None else self.compute(given, settings or self.resolved({}))
        values = np.asarray(values, dtype=np.float64)
        if values.shape != given.keys.shape:
            raise errors.ExtensionBroken(
                f"score {self.name!r} gave {values.shape} for {len(given.keys)} samples; one each is needed"
            )
        if np.isnan(values).any():
            raise errors.ExtensionBroken(
                f"score {self.name!r} left sample {given.ids[int(np.argmax(np.isnan(values)))]} without one"
            )
        return values
