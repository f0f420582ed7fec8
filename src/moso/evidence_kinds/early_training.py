"""Error norms and gradient norms of several initialisations early in training, `[initialisations, samples]`."""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.early import error_norms, gradient_norms, read_early, write_early
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun


class _Early(EvidenceKind[NDArray[np.floating]]):
    """One file per initialisation, `terms/reference-00/NAME.npz`."""

    network = "initialisation"
    moment = "early"
    decided_by = ("initialisations", "early_epoch")
    column: str

    def read(self, given: SeedRun, column: str = "") -> NDArray[np.floating]:
        """Read the values of all initialisations, ``[initialisations, samples]``."""
        paths = [self.path(given.home, number) for number in range(given.settings.initialisations)]
        return np.stack([read_early(path, self.column) for path in paths])


class EarlyErrors(_Early):
    """Error norm |p - onehot|_2 of every sample."""

    name = "early-errors"
    description = "early error norms"
    about_classes = True
    label = "early errors"
    column = "error_norm"
    file = "terms/reference-{index:02d}/early-errors.npz"

    def measure(self, given: Measuring) -> None:
        """Compute the error norms in one forward pass."""
        train, view = given.train, given.train.evaluation_view()
        values = error_norms(given.network(), given.loss, view, train.labels, len(train.classes), given.loader_workers)
        write_early(self.path(given.home, given.index), self.column, values, given.settings.early_epoch)


class EarlyNorms(_Early):
    """Gradient norm |g|_2 of every sample over all parameters; stored squared."""

    name = "early-norms"
    description = "early gradient norms"
    label = "early norms"
    effort = "a pass of per-sample gradients"
    column = "squared_norm"
    file = "terms/reference-{index:02d}/early-norms.npz"

    def measure(self, given: Measuring) -> None:
        """Compute the squared norms in one pass of per-sample gradients."""
        c, train = given.settings, given.train
        values = gradient_norms(
            given.network(),
            given.loss,
            train.evaluation_view(),
            len(train),
            c.score_batch_size,
            given.loader_workers,
        )
        write_early(self.path(given.home, given.index), self.column, values, c.early_epoch)

    def read(self, given: SeedRun, column: str = "") -> NDArray[np.floating]:
        """Read the norms of all initialisations, ``[initialisations, samples]``."""
        return np.asarray(np.sqrt(super().read(given)))

    def price(self, settings: RunSettings) -> Price:
        """Return the price of one pass of per-sample gradients."""
        return Price(gradients=1, what="gradient norms of {samples} samples")


EARLY_ERRORS, EARLY_NORMS = EarlyErrors(), EarlyNorms()
