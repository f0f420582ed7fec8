"""Step terms: the two scalars a sample and time step from which every form of the score follows.

    dot          = G . g_z       the mean gradient of the partition along the sample's own
    squared_norm = |g_z|^2

Where scores are by another risk than that of the samples themselves, `G` is its gradient, and the sample's own part in
it, which the squared norm is there for, does not exist.

On disk `terms/part-000/step-00000123.npz`: both `[samples]`, or `[groups, samples]` where the optimiser has
several parameter groups with rates of their own, in the order of the partition's positions.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import column
from moso.files import replacing


@dataclass(frozen=True)
class StepTerms:
    """The terms of one time step; `dot` and `squared_norm` are `[groups, samples]`, float64."""

    step: int
    learning_rates: tuple[float, ...]
    dot: NDArray[np.float64]
    squared_norm: NDArray[np.float64]
    own_risk: bool = True
    """Whether `G` is the gradient of these samples' own mean loss; otherwise it is that of another risk."""

    @property
    def samples(self) -> int:
        """How many samples the partition has."""
        return int(self.dot.shape[1])


@dataclass(frozen=True)
class PartitionTerms:
    """All sampled steps of one partition's own run: what a score of the MoSo family reads."""

    total_steps: int
    steps: Sequence[StepTerms]

    @property
    def samples(self) -> int:
        """How many samples the partition has."""
        return self.steps[0].samples


def terms_path(folder: Path, step: int) -> Path:
    """Where the terms of a step are kept."""
    return folder / f"step-{step:08d}.npz"


def write_terms(path: Path, terms: StepTerms) -> None:
    """Write one step's terms atomically."""
    squeeze = len(terms.learning_rates) == 1
    other = {} if terms.own_risk else {"own_risk": np.array(False)}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            dot=terms.dot[0] if squeeze else terms.dot,
            squared_norm=terms.squared_norm[0] if squeeze else terms.squared_norm,
            learning_rates=np.array(terms.learning_rates),
            step=np.array(terms.step),
            **other,  # type: ignore[arg-type]
        )


def read_terms(path: Path) -> StepTerms:
    """Read one step's terms."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return StepTerms(
                int(file["step"]),
                tuple(file["learning_rates"].tolist()),
                column(np.atleast_2d(file["dot"])),
                column(np.atleast_2d(file["squared_norm"])),
                bool(file.get("own_risk", True)),
            )
    except (ValueError, KeyError, zipfile.BadZipFile) as problem:
        raise errors.FileUnreadable(f"{path} does not hold step terms: {problem}") from problem
