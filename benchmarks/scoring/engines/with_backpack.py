"""Mean gradient, then the gradients of a batch's samples by BackPACK's `BatchGrad`, each used up where it is made."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from benchmarks.scoring.engines.engine import Refused, Scores
from benchmarks.scoring.engines.per_sample import Terms, plain_mean_gradient, rows_for_every_sample, without_inplace
from benchmarks.scoring.problem import Batches
from moso.gradients import Loss, batch_length


class OutOfPlace(TorchFunctionMode):
    """`x += y` in somebody's network makes a new tensor; on a hooked layer's output it would be an error."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return (torch.add if func is torch.Tensor.add_ else func)(*args, **(kwargs or {}))


def with_backpack(model: nn.Module, loss: Loss, batches: Batches) -> Scores:
    """`a_t(z)` of every sample."""
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad

    terms = Terms(plain_mean_gradient(model, loss, batches))
    without_inplace(model.modules())
    for module in model.modules():
        if module._parameters and not list(module.children()):
            extend(module)
    names = {id(value): name for name, value in model.named_parameters()}
    seen: set[str] = set()

    def use_up(module: nn.Module) -> None:
        for value in module._parameters.values():
            if value is not None and hasattr(value, "grad_batch"):
                terms.add(names[id(value)], value.grad_batch)
                seen.add(names[id(value)])
                del value.grad_batch
                value.grad = None

    with warnings.catch_warnings(), OutOfPlace(), backpack(BatchGrad(), extension_hook=use_up):
        warnings.simplefilter("ignore")  # it warns of layers that it leaves out; they are looked for below
        for batch in batches:
            terms.begin_batch(batch_length(batch))
            with rows_for_every_sample(model, batch_length(batch)):
                loss(model, batch).sum().backward()  # type: ignore[no-untyped-call]
            missing = [name for name in names.values() if name not in seen]
            if missing:
                owners = {type(model.get_submodule(name.rpartition(".")[0])).__name__ for name in missing}
                raise Refused(f"BatchGrad leaves out {', '.join(sorted(owners))}")
    return terms.scores()
