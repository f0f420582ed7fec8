"""The per-sample results of an adjoint sweep, stored as `adjoint/part-000.npz`, in the order of the positions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.checksums import damaged
from moso.files import read_arrays, write_arrays


@dataclass(frozen=True)
class AdjointTerms:
    """First-order changes of a risk when a sample is removed from training.

    Attributes:
        change: The change of the risk, float64, shape ``[samples]``.
        own_risk: Whether the risk is the mean loss of the training samples, so that Definition 1 leaves the sample out
            of the risk, too.
        own_change: The self term, shape ``[samples]``: the change of the sample's own loss, as the mean over probes;
            None if unknown.
        own_variance: The variance of that mean, shape ``[samples]``.
        probes: Number of probes; 0 if the self term is unknown.

    Example:
        >>> terms = AdjointTerms(np.array([0.2, 0.4]), own_risk=True, own_change=np.array([0.2, 0.0]), probes=2)
        >>> terms.scores()  # (N change - own) / (N - 1)
        array([0.2, 0.8])
    """

    change: NDArray[np.float64]
    own_risk: bool
    own_change: NDArray[np.float64] | None = None
    own_variance: NDArray[np.float64] | None = None
    probes: int = 0

    def scores(self) -> NDArray[np.float64]:
        """Return Definition 1 to first order, ``[samples]``; without probes, with the risk over all samples.

        A probed self term is shrunk towards its mean by the share of its spread that is noise. If the spread is all
        noise, the probes do not change the order of the scores.
        """
        if self.own_change is None:
            return self.change
        N, mean = len(self.change), self.own_change.mean()
        return np.asarray((N * self.change - mean - self.trust() * (self.own_change - mean)) / (N - 1))

    def trust(self) -> float:
        """Return the share of the self term's spread that is not noise of its probes, in ``[0, 1]``."""
        if self.own_change is None or self.own_variance is None or not np.isfinite(self.own_variance).all():
            return 1.0
        spread, noise = float(self.own_change.var()), float(self.own_variance.mean())
        return max(0.0, 1.0 - noise / spread) if spread > 0 else 1.0

    def score_variance(self) -> NDArray[np.float64]:
        """Return the variance of the scores due to the probes, ``[samples]``; zero without probes."""
        if self.own_variance is None:
            return np.zeros_like(self.change)
        return np.asarray(self.own_variance * (self.trust() / (len(self.change) - 1)) ** 2)


def write_adjoint(path: Path, terms: AdjointTerms) -> None:
    """Write the terms of a run atomically."""
    own = {} if terms.own_change is None else {"own_change": terms.own_change}
    own |= {} if terms.own_variance is None else {"own_variance": terms.own_variance}
    write_arrays(path, change=terms.change, own_risk=np.array(terms.own_risk), probes=np.array(terms.probes), **own)


def read_adjoint(path: Path) -> AdjointTerms:
    """Read the terms of a run.

    Raises:
        FileUnreadable: The file is missing.
        FileDamaged: The file is not what was written.
    """
    try:
        found = read_arrays(path)
    except OSError as problem:
        raise errors.FileUnreadable(f"{path} does not hold the adjoint of a run: {problem}") from problem
    try:
        own = found.get("own_change"), found.get("own_variance"), int(found["probes"])
        return AdjointTerms(found["change"], bool(found["own_risk"]), *own)
    except (ValueError, TypeError, KeyError) as problem:
        raise damaged(path, f"it does not hold the adjoint of a run: {problem}") from problem
