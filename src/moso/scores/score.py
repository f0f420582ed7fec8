"""A score: its name, what it believes, what it needs, and the function from evidence to one float a sample.

Evidence has names. Scores declare those they read, so that training leaves just that:

    terms               the step terms of every partition's surrogate
    adjoint             what leaving a sample out does to the risk, by differentiating the surrogates' trainings
    norms               step terms whose squared norms are those of every sample, which cheap estimators leave out
    labels              classes
    dynamics:COLUMN     a column recorded while the reference network trained
    final:COLUMN        the same about every sample, said by the trained reference network
    features            what the trained reference network's classifier is given
    early-errors        error norms of every initialisation, early in training
    early-norms         gradient norms of every initialisation, early in training
    embedding           features of a network that was trained without labels, or of the user's own
    influences          what removing each sample does to the trained reference network's parameters
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso.adjoint import AdjointTerms
from moso.errors import ExtensionBrokenError
from moso.evidence import Dynamics, PartitionTerms
from moso.evidence.outputs import COLUMNS
from moso.settings import Option, Settings, options, resolve

EVIDENCE = frozenset(
    {
        *("terms", "norms", "adjoint", "labels", "features", "predictions"),
        *("early-errors", "early-norms", "embedding", "influences"),
    }
)
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

    @property
    def terms(self) -> Sequence[PartitionTerms]:
        """The step terms of every partition."""

    @property
    def adjoint(self) -> Sequence[AdjointTerms]:
        """What the derivative of every partition's training says."""

    def dynamics(self, initialisation: int = 0) -> Dynamics:
        """What the reference network said while it trained."""

    def final(self, column: str) -> NDArray[np.float32]:
        """What the trained reference network says about every sample, `[samples]`."""

    def early_errors(self) -> NDArray[np.float32]:
        """|p - onehot|_2 early in training, `[initialisations, samples]`."""

    def early_norms(self) -> NDArray[np.float64]:
        """|g|_2 over all parameters early in training, `[initialisations, samples]`."""

    def features(self) -> NDArray[np.float32]:
        """`[samples, width]`, a memory map."""

    def embedding(self) -> NDArray[np.float32]:
        """Features that know nothing of labels, `[samples, width]`, a memory map."""

    def influences(self) -> NDArray[np.float32]:
        """Projected influences on the parameters, `[samples, numbers]`, a memory map."""


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
            raise ExtensionBrokenError(
                f"score {self.name!r} gave {values.shape} for {len(given.keys)} samples; one each is needed"
            )
        if np.isnan(values).any():
            raise ExtensionBrokenError(
                f"score {self.name!r} left sample {given.ids[int(np.argmax(np.isnan(values)))]} without one"
            )
        return values


def is_recorded(name: str) -> bool:
    """Whether there is evidence of this name.

    >>> is_recorded("dynamics:margin"), is_recorded("dynamics:mood"), is_recorded("terms")
    (True, False, True)
    """
    kind, _, column = name.partition(":")
    return name in EVIDENCE or (kind in ("dynamics", "final") and column in COLUMNS)


def classes_needed(needs: frozenset[str]) -> bool:
    """Whether evidence of these names is about classes.

    >>> classes_needed(frozenset({"dynamics:margin"})), classes_needed(frozenset({"early-norms", "features"}))
    (True, False)
    """
    return any(name in ("labels", "early-errors") or name.startswith(("dynamics:", "final:")) for name in needs)
