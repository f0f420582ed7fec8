"""The double loop over single samples, which is how the authors' code works.

One pass adds up the gradients of all samples, a second takes each sample's product with them, one sample at a time.
"""

import numpy as np
from torch import nn

from benchmarks.scoring.engines.engine import Scores, one_at_a_time
from benchmarks.scoring.engines.per_sample import combined, gradients_of, plain_mean_gradient, real, trained
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss


def batch_of_one(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    return loop_of_one(model, loss, one_at_a_time(batches))


def loop_of_one(model: nn.Module, loss: Loss, singles: Batches) -> Scores:
    """`a_t(z)` of every sample, each given as a batch of its own."""
    mean, leaves = plain_mean_gradient(model, loss, singles), trained(model)
    products, norms = np.zeros(len(singles)), np.zeros(len(singles))
    for z, single in enumerate(singles):
        for name, part in gradients_of(loss(model, single).sum(), leaves).items():
            own = real(part).flatten()
            products[z] += float(own @ real(mean[name]).flatten())
            norms[z] += float(own @ own)
    return combined(products, norms)
