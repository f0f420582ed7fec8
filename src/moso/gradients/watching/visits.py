"""An identity function with a visitor in its backward pass: observes a call's output gradient without a copy."""

from collections.abc import Callable
from typing import Any

import torch

from moso.gradients.layers import Call

Visit = Callable[[Call, torch.Tensor], None]


class Visitor:
    """Calls `visit` with a call and its output gradient, after checking that the call's input was not overwritten."""

    def __init__(self, visit: Visit, call: Call, version: int | None) -> None:
        """Store the visit; `version` is that of the call's input, None if the input is filled in later."""
        self.visit, self.version = visit, version
        self.call: Call | None = call

    def __call__(self, b: torch.Tensor) -> None:
        """Pass the call and the gradient of its output to `visit`.

        Raises:
            RuntimeError: The backward pass ran before, or the call's input was overwritten.
        """
        # The graph outlives its backward pass; the call's input must be freed with the pass.
        call, self.call = self.call, None
        if call is None:
            raise RuntimeError("a backward pass that is watched can be taken only once")
        if self.version is not None and call.a._version != self.version:
            names = ", ".join(place.name for place in call.places.values())
            raise RuntimeError(f"the input that met {names} was overwritten before its gradient was needed")
        self.visit(call, b)


class _Watch(torch.autograd.Function):
    """The identity, in place; its backward pass calls the visitor."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, anchor: torch.Tensor, visitor: Visitor) -> torch.Tensor:
        ctx.visitor = visitor
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, b: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # Free the call's input as soon as it was visited, as autograd does with saved tensors.
        visitor, ctx.visitor = ctx.visitor, None
        visitor(b)
        return b, None, None


def watched(output: torch.Tensor, anchor: torch.Tensor, visitor: Visitor) -> torch.Tensor:
    """Return a call's output such that its gradient is passed to the visitor.

    Args:
        output: The output of the call.
        anchor: A dummy leaf that keeps the output in the graph when no earlier tensor requires a gradient.
        visitor: Is called with the gradient of the output.
    """
    if output._is_view():
        # Marking a view as changed in place would rewrite the graph of its base.
        if output.requires_grad:
            output.register_hook(visitor)  # type: ignore[no-untyped-call]
            return output
        output = output.clone()
    result: torch.Tensor = _Watch.apply(output, anchor, visitor)  # type: ignore[no-untyped-call]
    return result
