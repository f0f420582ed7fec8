"""`Score`: a name, a description, the evidence needed, and the function from evidence to one float per sample.

A score declares the names of the kinds of evidence that it reads (`evidence_kinds/`), so that training records exactly
these kinds. One column of a family of evidence is written `dynamics:margin` or `final:entropy`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.evidence_kinds import EvidenceKind
from moso.settings import Option, Settings, options, resolve

T = TypeVar("T")
Form = Literal["paper", "centred"]
Hard = Literal["high", "low"]
# Which scores the source of a score keeps: the highest, or those around the median.
Keep = Literal["high", "middle"]


class ScoreInput(Protocol):
    """The evidence of one seed, read lazily; arrays are in data set order."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """One 64-bit key per sample, shape ``[samples]``; random draws are addressed by key."""

    @property
    def ids(self) -> pa.Array:
        """One stable id per sample."""

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """One class number per sample, shape ``[samples]``; None if the task has no classes."""

    @property
    def seed(self) -> int:
        """The seed of the whole pipeline."""

    @property
    def form(self) -> Form:
        """The form of MoSo: ``"paper"`` or ``"centred"``."""

    @property
    def partitions(self) -> Sequence[NDArray[np.int64]]:
        """The positions of the samples of each partition."""

    @property
    def initialisations(self) -> int:
        """Number of networks that early evidence is averaged over."""

    def read(self, kind: EvidenceKind[T], column: str = "") -> T:
        """Read the evidence of a kind; `column` names the column of a family such as `final`."""


# What the name of a score or method ends with in its out-of-sample form.
OUT_OF_SAMPLE = "-out-of-sample"


@dataclass(frozen=True)
class Unseen:
    """The out-of-sample form of a score: the same quantity, from networks that were not trained on the sample.

    Attributes:
        compute: Takes a `ScoreInput`.
        needs: Names of the kinds of evidence that it reads.
        formula: The formula in plain text.
    """

    compute: Callable[[ScoreInput], NDArray[np.float64]]
    needs: frozenset[str]
    formula: str


@dataclass(frozen=True)
class Score:
    """A named score: a function from evidence to float64 ``[samples]`` in data set order; high means keep.

    Attributes:
        compute: Takes a `ScoreInput`, and the resolved settings if `settings` is not None.
        needs: Names of the kinds of evidence that the score always reads.
        hard: The end of the stored score where the hard samples are; None if they are at neither end.
        keep: ``"middle"`` if the source keeps samples around the median, else ``"high"``.
        settings: The class of the score's settings; None if the score has no settings.
        least_epochs: Fewest epochs of training from which the score can be computed.
        unseen: The out-of-sample form; None if there is none.
        no_unseen: Why there is no out-of-sample form, as the end of a sentence.
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
    unseen: Unseen | None = None
    no_unseen: str = "no evidence of networks that did not see the sample replaces what it reads"

    def out_of_sample(self) -> "Score":
        """Return the out-of-sample form as a score of its own, with the ending `OUT_OF_SAMPLE`.

        Raises:
            MethodImpossible: The score has no such form.
        """
        if self.unseen is None:
            raise errors.MethodImpossible(
                f"score {self.name!r} has no out-of-sample form: {self.no_unseen}; leave out_of_sample out, or this "
                "method"
            )
        return replace(
            self,
            name=f"{self.name}{OUT_OF_SAMPLE}",
            description=f"{self.description}; by networks that did not see the sample",
            compute=self.unseen.compute,
            needs=self.unseen.needs,
            formula=self.unseen.formula,
            settings=None,
            least_epochs=1,
            unseen=None,
        )

    def resolved(self, given: Mapping[str, object]) -> Settings:
        """Validate the given values and return the complete settings.

        Raises:
            MosoError: An unknown name, or a value that is not allowed.
        """
        return resolve(f"score {self.name!r}", self.settings or Settings, given)

    def needed(self, settings: Settings | None = None) -> frozenset[str]:
        """Return the names of all evidence that the score reads under these settings (by default, its defaults)."""
        return self.needs | (settings or self.resolved({})).needs()

    def options(self) -> list[Option]:
        """Return the score's settings, each with its default and a sentence of explanation."""
        return options(self.settings or Settings)

    def __call__(
        self, given: ScoreInput, settings: Settings | None = None, trained_on: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Compute and check the score of every sample.

        Args:
            given: The evidence.
            settings: The resolved settings; None for the defaults.
            trained_on: Whether networks were trained on each sample, shape ``[samples]``; None for all. A sample that
                was dropped in an earlier round may have left no evidence, and then gets the lowest score.

        Returns:
            One float64 per sample, shape ``[samples]``, without NaN.

        Raises:
            ExtensionBroken: `compute` returned a wrong shape, or NaN for a sample.
        """
        values = self.compute(given) if self.settings is None else self.compute(given, settings or self.resolved({}))
        values = np.asarray(values, dtype=np.float64)
        if values.shape != given.keys.shape:
            raise errors.ExtensionBroken(
                f"score {self.name!r} gave {values.shape} for {len(given.keys)} samples; one each is needed"
            )
        if trained_on is not None:
            values = np.where(np.isnan(values) & ~trained_on, np.nanmin(values), values)
        if np.isnan(values).any():
            raise errors.ExtensionBroken(
                f"score {self.name!r} left sample {given.ids[int(np.argmax(np.isnan(values)))]} without one"
            )
        return values
