"""Mean gradient, then the gradients of a batch's samples at once by `torch.func.vmap(grad)`."""

from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.scoring.engines.engine import Refused, Scores
from benchmarks.scoring.engines.per_sample import Gradients, Terms, plain_mean_gradient, trained
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss, map_tensors


class LossOf(nn.Module):
    """A model and its loss as one module, whose parameters `functional_call` can replace."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Any) -> torch.Tensor:
        """Losses `[batch]`."""
        return self.loss(self.model, batch)


def with_vmap(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    terms = Terms(plain_mean_gradient(model, loss, batches))
    whole = LossOf(model, loss)
    values = {name: value.detach() for name, value in trained(model).items()}

    def loss_of_one(values: Gradients, one: Any) -> torch.Tensor:
        single = map_tensors(lambda tensor: tensor[None], one)
        named = {f"model.{name}": value for name, value in values.items()}
        result: torch.Tensor = functional_call(whole, named, (single,)).sum()
        return result

    each = vmap(grad(loss_of_one), in_dims=(None, 0))
    for batch in batches:
        try:
            with sdpa_kernel(SDPBackend.MATH):  # the fused kernels of attention know no vmap
                gradients = each(values, batch)
        except RuntimeError as problem:
            if "data-dependent control flow" not in str(problem):
                raise
            raise Refused("data-dependent control flow in the network") from problem
        terms.begin_batch(len(next(iter(gradients.values()))))
        for name, value in gradients.items():
            terms.add(name, value)
    return terms.scores()
