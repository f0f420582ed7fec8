"""What a network does with its parameters, call by call.

While `Watching` lasts (around the forward pass alone), every function of PyTorch that is called is seen on its way. A
call that is linear in a parameter and has a closed form is handed, in the backward pass, to a visitor together with
the gradient of its output.
Modules are never asked what they are, so subclasses, functional code and other people's layers are seen alike.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from moso.gradients.layers import OPERATIONS, Call, Layout, Operation, Place, Rows
from moso.gradients.layers.attention import attention

Visit = Callable[[Call, torch.Tensor], None]
_ROLES = ("weight", "bias")


class Watching(TorchFunctionMode):
    """Shows `visit(call, b)` each call with one of these parameters, and the gradient `b` of its output.

    `uses` counts the calls that each place was in. Without a visitor it only counts, and keeps the calls' shapes.
    """

    def __init__(
        self, parameters: Mapping[str, torch.Tensor], batch: int, layouts: Mapping[str, Layout], visit: Visit | None
    ) -> None:
        super().__init__()
        self.places = {id(value): Place(name) for name, value in parameters.items()}
        self.batch, self.layouts, self.visit = batch, layouts, visit
        self.uses: Counter[Place] = Counter()
        self.shapes: dict[str, list[torch.Size]] = {}
        # What an output hangs on that nothing before it is differentiated for.
        self._anchor = torch.zeros((), requires_grad=True)
        self._parts: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let everything pass, and look at the calls that have a closed form."""
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            result = attention(self._linear, *args, **kwargs)
            return func(*args, **kwargs) if result is None else result
        operation = OPERATIONS.get(func)
        return func(*args, **kwargs) if operation is None else self._seen(operation, func, args, kwargs)

    def _seen(self, operation: Operation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {**dict(zip(operation.arguments, args, strict=False)), **kwargs}
        places = {role: self.places[id(given.get(role))] for role in _ROLES if id(given.get(role)) in self.places}
        if not places or not operation.holds(given):
            return func(*args, **kwargs)
        output = func(*args, **kwargs)
        for place in places.values():
            self.uses[place] += 1
            self.shapes.setdefault(place.name, []).append(given["input"].shape)
        if self.visit is None:
            return output
        a, layout = given["input"].detach(), self.layouts[next(iter(places.values())).name]
        if layout == "shared":
            # What is the same for all samples is given to each of them, so that each has a gradient of its own.
            one = len(output) == 1 and output.ndim > 1
            a, output = (_given_to_all(x if one else x[None], self.batch) for x in (a, output))
            output = output.contiguous()
        call = Call(operation, func, {**given, "input": a}, places, self.batch, layout == "second")
        return _watched(output, self._anchor, _Visitor(self.visit, call, a._version))

    def _linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, rows: Rows | None
    ) -> torch.Tensor:
        if rows is not None:
            weight, bias = self._part(weight, rows), None if bias is None else self._part(bias, rows)
        output: torch.Tensor = self._seen(OPERATIONS[F.linear], F.linear, (x, weight, bias), {})
        return output

    def _part(self, parameter: torch.Tensor, rows: Rows) -> torch.Tensor:
        part = parameter[slice(*rows)]
        if id(parameter) in self.places:
            self.places[id(part)] = Place(self.places[id(parameter)].name, rows)
        self._parts.append(part)  # while it lives, its id is its own
        return part


def _given_to_all(x: torch.Tensor, batch: int) -> torch.Tensor:
    return x.expand(batch, *x.shape[1:])


class _Visitor:
    """Calls `visit` with a call whose input is still what it was."""

    def __init__(self, visit: Visit, call: Call, version: int) -> None:
        self.visit, self.version = visit, version
        self.call: Call | None = call

    def __call__(self, b: torch.Tensor) -> None:
        # The graph outlives its backward pass; the call's input must not.
        call, self.call = self.call, None
        if call is None:
            raise RuntimeError("a backward pass that is watched can be taken only once")
        if call.a._version != self.version:
            names = ", ".join(place.name for place in call.places.values())
            raise RuntimeError(f"the input that met {names} was overwritten before its gradient was needed")
        with torch.no_grad():
            self.visit(call, b)


class _Watch(torch.autograd.Function):
    """The identity, without a copy; its backward pass is the visitor's."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, anchor: torch.Tensor, visitor: _Visitor) -> torch.Tensor:
        ctx.visitor = visitor
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, b: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # Let go of the call's input as soon as it has been seen, as autograd does with what it keeps.
        visitor, ctx.visitor = ctx.visitor, None
        visitor(b)
        return b, None, None


def _watched(output: torch.Tensor, anchor: torch.Tensor, visitor: _Visitor) -> torch.Tensor:
    if output._is_view():
        # Marked as changed, a view would drag its base along.
        if output.requires_grad:
            output.register_hook(visitor)  # type: ignore[no-untyped-call]
            return output
        output = output.clone()
    watched: torch.Tensor = _Watch.apply(output, anchor, visitor)  # type: ignore[no-untyped-call]
    return watched
