"""Class probabilities: the softmax of the trained reference network's outputs, ``[samples, classes]``.

With the features they are the last layer's gradients in factored form: the gradient of a sample's cross-entropy is the
outer product of (p - onehot(y)) and its features.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.outputs import iter_logits, log_probabilities
from moso.evidence_kinds.kind import EvidenceKind, Measuring, RunSettings


class ReferenceProbabilities(EvidenceKind[NDArray[np.float32]]):
    """Class probabilities of the first reference, in float32; small ones keep their relative precision."""

    name = "probabilities"
    description = "class probabilities of the trained network"
    network = "reference"
    moment = "final"
    file = "predictions/reference-00/probabilities.npy"
    about_classes = True
    missing = "the trained network was not asked"

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why gradients cannot be put together from an embedding and these probabilities, or None.

        The inputs of a linear head are its features, so that an embedding of them will do; elsewhere it will not.
        """
        if settings.features == "embedding" and settings.model != "linear":
            return (
                f"selector {selector!r} reads gradients of the last layer, which take the features of the network "
                "itself and not an embedding; set features to 'reference' (--features reference)"
            )
        return None

    def measure(self, given: Measuring) -> None:
        """Compute the probabilities in one forward pass."""
        train, classes = given.train, len(given.train.classes)
        view, everything = train.evaluation_view(), np.arange(len(train))
        batches = iter_logits(given.network(), given.loss, view, everything, classes, given.loader_workers)
        with writing(self.path(given.home), (len(train), classes), np.float32) as found:
            for positions, logits in batches:
                found[positions] = np.exp(log_probabilities(logits))


PROBABILITIES = ReferenceProbabilities()
