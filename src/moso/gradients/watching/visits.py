"""The identity with a visitor in its backward pass: how a call's output gradient is seen without a copy of anything."""

from collections.abc import Callable
from typing import Any

import torch

from moso.gradients.layers import Call

Visit = Callable[[Call, torch.Tensor], None]


class Visitor:
    """Calls `visit` with a call whose input is still what it was."""

    def __init__(self, visit: Visit, call: Call, version: int | None) -> None:
        """`version` is that of the call's input; None where the input is filled in later."""
        self.visit, self.version = visit, version
        self.call: Call | None = call

    def __call__(self, b: torch.Tensor) -> None:
        """Show the call and the gradient of its output."""
        # The graph outlives its backward pass; the call's input must not.
        call, self.call = self.call, None
        if call is None:
            raise RuntimeError("a backward pass that is watched can be taken only once")
        if self.version is not None and call.a._version != self.version:
            names = ", ".join(place.name for place in call.places.values())
            raise RuntimeError(f"the input that met {names} was overwritten before its gradient was needed")
        self.visit(call, b)


class _Watch(torch.autograd.Function):
    """The identity, without a copy; its backward pass is the visitor's."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, anchor: torch.Tensor, visitor: Visitor) -> torch.Tensor:
        ctx.visitor = visitor
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, b: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # Let go of the call's input as soon as it has been seen, as autograd does with what it keeps.
        visitor, ctx.visitor = ctx.visitor, None
        visitor(b)
        return b, None, None


def watched(output: torch.Tensor, anchor: torch.Tensor, visitor: Visitor) -> torch.Tensor:
    """The output of a call, whose gradient the visitor is shown; `anchor` keeps it in the graph in any case."""
    if output._is_view():
        # Marked as changed, a view would drag its base along.
        if output.requires_grad:
            output.register_hook(visitor)  # type: ignore[no-untyped-call]
            return output
        output = output.clone()
    result: torch.Tensor = _Watch.apply(output, anchor, visitor)  # type: ignore[no-untyped-call]
    return result
