"""Class probabilities: the softmax of the trained reference network's outputs, ``[samples, classes]``.

With the features they are the last layer's gradients in factored form: the gradient of a sample's cross-entropy is the
outer product of (p - onehot(y)) and its features.
"""

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import writing
from moso.evidence.outputs import iter_logits, log_probabilities
from moso.evidence_kinds.kind import EvidenceKind, Measuring


class ReferenceProbabilities(EvidenceKind[NDArray[np.float32]]):
    """Class probabilities of the first reference, in float32; small ones keep their relative precision."""

    name = "probabilities"
    description = "class probabilities of the trained network"
    network = "reference"
    moment = "final"
    file = "predictions/reference-00/probabilities.npy"
    about_classes = True
    missing = "the trained network was not asked"

    def measure(self, given: Measuring) -> None:
        """Compute the probabilities in one forward pass."""
        train, classes = given.train, len(given.train.classes)
        view, everything = train.evaluation_view(), np.arange(len(train))
        batches = iter_logits(given.network(), given.loss, view, everything, classes, given.loader_workers)
        with writing(self.path(given.home), (len(train), classes), np.float32) as found:
            for positions, logits in batches:
                found[positions] = np.exp(log_probabilities(logits))


PROBABILITIES = ReferenceProbabilities()
