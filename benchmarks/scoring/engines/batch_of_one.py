"""The double loop over single samples, which is how the authors' code works.

One pass adds up the gradients of all samples, a second takes each sample's product with them, both a sample at a time.
"""

import numpy as np
import torch
from torch import nn

from benchmarks.scoring.engines.engine import Scores, one_at_a_time
from benchmarks.scoring.engines.per_sample import combined, plain_mean_gradient
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss


def batch_of_one(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    singles = one_at_a_time(batches)
    mean = list(plain_mean_gradient(model, loss, singles).values())
    products, norms = np.zeros(len(singles)), np.zeros(len(singles))
    for z, single in enumerate(singles):
        own = torch.autograd.grad(loss(model, single).sum(), list(model.parameters()))
        products[z] = sum(float(part.flatten() @ whole.flatten()) for part, whole in zip(own, mean, strict=True))
        norms[z] = sum(float(part.flatten() @ part.flatten()) for part in own)
    return combined(products, norms)
