"""Out-of-sample losses: the mean loss of a sample at surrogates that were not trained on it, shape ``[samples]``.

Any task has them: the loss is that of the run, at the end of training, in evaluation mode, on the evaluation view. For
pairs the negatives are the bank of epoch 0, the same for every sample and surrogate.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.data.views import load, split_evenly
from moso.evidence.arrays import writing
from moso.evidence.outputs import BATCH_SIZE
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings
from moso.evidence_kinds.out_of_sample import check_out_of_sample
from moso.gradients import evaluation_mode, to_device


class UnseenLosses(EvidenceKind[NDArray[np.float32]]):
    """One number per sample: the mean loss over the I - 1 surrogates of the other partitions."""

    name = "unseen-losses"
    description = "out-of-sample losses"
    network = "surrogates"
    moment = "final"
    file = "predictions/unseen-losses.npy"
    decided_by = ("partitions",)
    missing = "the surrogates were not asked"
    label = "out-of-sample losses"

    def measure(self, given: Measuring) -> None:
        """Run every surrogate forward over the samples that it was not trained on.

        Raises:
            EvidenceMissing: There is 1 partition.
            ValuesNotFinite: A loss is not finite.
        """
        check_out_of_sample(len(given.partitions))
        samples, view = len(given.train), given.train.evaluation_view()
        total = np.zeros(samples)
        for part, own in enumerate(given.partitions):
            model, plan = given.network(part), split_evenly(np.setdiff1d(np.arange(samples), own), BATCH_SIZE)
            device = next(model.parameters()).device
            batches = load(view, plan, workers=given.loader_workers)
            with evaluation_mode(model), torch.no_grad():
                for positions, batch in zip(plan, batches, strict=True):
                    total[positions] += given.loss(model, to_device(batch, device)).double().cpu().numpy()
        if not np.isfinite(total).all():
            raise errors.ValuesNotFinite(
                f"the loss of sample {int(np.argmin(np.isfinite(total)))} at a surrogate that did not see it is not "
                "finite; look at its input"
            )
        with writing(self.path(given.home), (samples,), np.float32) as file:
            file[:] = total / (len(given.partitions) - 1)

    def price(self, settings: RunSettings) -> Price:
        """Return the price: one forward pass per sample and network except one."""
        return Price(looks=settings.partitions - 1)


UNSEEN_LOSSES = UnseenLosses()
