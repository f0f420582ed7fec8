"""Out-of-sample predictions: probabilities from the surrogates of the other partitions, ``[samples, classes]``."""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.evidence import read_out_of_sample, write_out_of_sample
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun


class OutOfSamplePredictions(EvidenceKind[NDArray[np.float32]]):
    """The mean softmax of the networks that were not trained on the sample."""

    name = "predictions"
    description = "out-of-sample predictions"
    network = "surrogates"
    moment = "final"
    file = "predictions/out-of-sample.npy"
    about_classes = True
    decided_by = ("partitions",)
    label = "out-of-sample predictions"

    def measure(self, given: Measuring) -> None:
        """Run every network forward over the samples that it was not trained on."""
        train = given.train
        check_out_of_sample(len(given.partitions))
        write_out_of_sample(
            self.path(given.home),
            ((given.network(part), positions) for part, positions in enumerate(given.partitions)),
            train.evaluation_view(),
            (len(train), len(train.classes)),
            loss=given.loss,
            loader_workers=given.loader_workers,
        )

    def read(self, given: SeedRun, column: str = "") -> NDArray[np.float32]:
        """Read the probabilities, ``[samples, classes]``, memory-mapped."""
        return read_out_of_sample(given.home)

    def price(self, settings: RunSettings) -> Price:
        """Return the price: one forward pass per sample and network except one."""
        return Price(looks=settings.partitions - 1)

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why 1 partition is too few (its only network is trained on all samples), or None."""
        if settings.partitions > 1:
            return None
        return (
            f"selector {selector!r} needs the error of each class on samples that a network did not "
            "see; with 1 partition it sees all: use 2 partitions or more"
        )


def check_out_of_sample(partitions: int) -> None:
    """Refuse out-of-sample predictions with fewer than 2 partitions.

    Raises:
        MosoError: ``evidence-missing``.
    """
    if partitions < 2:
        raise errors.EvidenceMissing(
            "out-of-sample predictions come from networks that did not see a sample, and with 1 partition the only "
            "network sees all; use 2 partitions or more"
        )


PREDICTIONS = OutOfSamplePredictions()
