"""What surrogates say of a sample: those that were not trained on it (`unseen:COLUMN`), and its own (`seen:COLUMN`).

Columns are those of `final` (`evidence/outputs.py`), computed network by network in evaluation mode at the end of
training; `unseen` is their mean over the I - 1 surrogates of the other partitions, ``[samples]``.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.outputs import CHANGES, COLUMNS, describe, iter_logits
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings


class SurrogateOutputs(EvidenceKind[NDArray[np.float32]]):
    """One number per sample and column, from the surrogates that did or did not see the sample."""

    network = "surrogates"
    moment = "final"
    columns = tuple(name for name in COLUMNS if name not in CHANGES)
    about_classes = True
    decided_by = ("partitions",)
    missing = "the surrogates were not asked"

    def __init__(self, *, trained_on: bool) -> None:
        self.trained_on = trained_on
        self.name = "seen" if trained_on else "unseen"
        who = "the surrogate of its own partition says" if trained_on else "surrogates of other partitions say"
        self.description = f"what {who} of a sample"
        self.file = f"predictions/{self.name}/{{column}}.npy"

    def measure(self, given: Measuring) -> None:
        """Run every surrogate forward over the samples that it was, or was not, trained on."""
        train, classes = given.train, len(given.train.classes)
        view, everything = train.evaluation_view(), np.arange(len(train))
        found = {name: np.zeros(len(train)) for name in given.columns}
        counts = np.zeros(len(train), dtype=np.int64)
        for part, own in enumerate(given.partitions):
            asked = own if self.trained_on else np.setdiff1d(everything, own)
            batches = iter_logits(given.network(part), given.loss, view, asked, classes, given.loader_workers)
            for positions, logits in batches:
                for name, values in describe(logits, train.labels[positions], given.columns).items():
                    found[name][positions] += values
            counts[asked] += 1
        for name, total in found.items():
            with writing(self.path(given.home, 0, name), total.shape, np.float32) as file:
                file[:] = total / counts

    def price(self, settings: RunSettings) -> Price:
        """Return the price: one forward pass per sample and network that is asked about it."""
        return Price(looks=1 if self.trained_on else settings.partitions - 1)

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why 1 partition is too few (its only surrogate is trained on all samples), or None."""
        if settings.partitions > 1:
            return None
        return (
            f"method {method!r} asks surrogates that did not see a sample, and with 1 partition the only one sees "
            "all; use 2 partitions or more"
        )


SEEN, UNSEEN = SurrogateOutputs(trained_on=True), SurrogateOutputs(trained_on=False)
