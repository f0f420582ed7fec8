"""Mean gradient, then the gradients of a batch's samples by the hooks of Opacus' `GradSampleModule`."""

import warnings

from torch import nn

from benchmarks.scoring.engines.engine import Refused, Scores
from benchmarks.scoring.engines.per_sample import Terms, plain_mean_gradient, rows_for_every_sample, without_inplace
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss, batch_length


def with_opacus(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about privacy, and about hooks
        from opacus.grad_sample import GradSampleModule

        terms = Terms(plain_mean_gradient(model, loss, batches))
        without_inplace(model.modules())
        for module in model.modules():
            # It looks away from layers in evaluation mode; none with parameters of its own minds which one it is in.
            module.training = bool(module._parameters)
        if GradSampleModule.validate(module=model, strict=False):
            kinds = {type(module).__name__ for module in model.modules() if module._parameters and module._buffers}
            raise Refused(f"no trainable layers with buffers ({', '.join(sorted(kinds))})")
        wrapped = GradSampleModule(model, loss_reduction="sum")
        for batch in batches:
            terms.begin_batch(batch_length(batch))
            with rows_for_every_sample(model, batch_length(batch)):
                loss(wrapped, batch).sum().backward()  # type: ignore[no-untyped-call]
            for name, value in model.named_parameters():
                terms.add(name, value.grad_sample)  # type: ignore[attr-defined]
                value.grad_sample = value.grad = None  # type: ignore[attr-defined]
    return terms.scores()
