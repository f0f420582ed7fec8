"""Step terms: the two scalars per sample and time step from which every form of the score follows.

    dot          = G . g_z       the mean gradient of the partition along the sample's own
    squared_norm = |g_z|^2

If samples are scored by another risk than their own mean loss, `G` is the gradient of that risk. The sample has no
share in it, so the squared norm, which corrects for that share, is not needed.

On disk `terms/part-000/step-00000123.npz`: both arrays have shape `[samples]`, or `[groups, samples]` if the optimiser
has several parameter groups with learning rates of their own, in the order of the partition's positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso.checksums import damaged
from moso.columns import column
from moso.files import read_arrays, write_arrays


@dataclass(frozen=True)
class StepTerms:
    """The terms of one time step; `dot` and `squared_norm` are float64 of shape `[groups, samples]`."""

    step: int
    learning_rates: tuple[float, ...]
    dot: NDArray[np.float64]
    squared_norm: NDArray[np.float64]
    own_risk: bool = True
    """Whether `G` is the gradient of these samples' own mean loss; otherwise it is the gradient of another risk."""

    @property
    def samples(self) -> int:
        """Number of samples of the partition."""
        return int(self.dot.shape[1])


@dataclass(frozen=True)
class PartitionTerms:
    """All sampled steps of one partition's own run, the evidence of the MoSo family of scores."""

    total_steps: int
    steps: Sequence[StepTerms]

    @property
    def samples(self) -> int:
        """Number of samples of the partition."""
        return self.steps[0].samples


def terms_path(folder: Path, step: int) -> Path:
    """Return where the terms of a step are kept."""
    return folder / f"step-{step:08d}.npz"


def write_terms(path: Path, terms: StepTerms) -> None:
    """Write one step's terms, atomically."""
    squeeze = len(terms.learning_rates) == 1
    other = {} if terms.own_risk else {"own_risk": np.array(False)}
    write_arrays(
        path,
        dot=terms.dot[0] if squeeze else terms.dot,
        squared_norm=terms.squared_norm[0] if squeeze else terms.squared_norm,
        learning_rates=np.array(terms.learning_rates),
        step=np.array(terms.step),
        **other,
    )


def read_terms(path: Path) -> StepTerms:
    """Read one step's terms.

    Raises:
        FileDamaged: The file is not what was written.
    """
    found = read_arrays(path)
    try:
        return StepTerms(
            int(found["step"]),
            tuple(found["learning_rates"].tolist()),
            column(np.atleast_2d(found["dot"])),
            column(np.atleast_2d(found["squared_norm"])),
            bool(found.get("own_risk", True)),
        )
    except (ValueError, TypeError, KeyError) as problem:
        raise damaged(path, f"it does not hold step terms: {problem}") from problem
