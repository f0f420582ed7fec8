"""Error norms and gradient norms of several initialisations early in training, `[initialisations, samples]`."""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.early import error_norms, gradient_norms, read_early, write_early
from moso.evidence.outputs import iter_logits
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


class EarlyAnswers(_Early):
    """Whether each network is right, 1 or 0."""

    name = "early-answers"
    description = "early answers of several initialisations"
    about_classes = True
    label = "early answers"
    column = "correct"
    file = "terms/reference-{index:02d}/early-answers.npz"

    def measure(self, given: Measuring) -> None:
        """Compare the likeliest class with the label in one forward pass."""
        train, classes = given.train, len(given.train.classes)
        view, everything = train.evaluation_view(), np.arange(len(train))
        right = np.empty(len(train), dtype=np.float32)
        for chosen, logits in iter_logits(given.network(), given.loss, view, everything, classes, given.loader_workers):
            right[chosen] = logits.argmax(axis=1) == train.labels[chosen]
        write_early(self.path(given.home, given.index), self.column, right, given.settings.early_epoch)

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why one network is too few to disagree, or None."""
        if settings.initialisations > 1:
            return None
        return f"method {method!r} asks several networks, and initialisations = 1 trains one; use 2 or more"


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


EARLY_ERRORS, EARLY_ANSWERS, EARLY_NORMS = EarlyErrors(), EarlyAnswers(), EarlyNorms()
