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

from moso.gradients.folding import Fold, folded_arguments
from moso.gradients.layers import OPERATIONS, Call, Layout, Operation, Place, Rows, folded_convolution
from moso.gradients.layers.attention import attention

Visit = Callable[[Call, torch.Tensor], None]
_ROLES = ("weight", "bias")


class Watching(TorchFunctionMode):
    """Shows `visit(call, b)` each call with one of these parameters, and the gradient `b` of its output.

    `uses` counts the calls that each place was in. Without a visitor it only counts, and keeps the calls' shapes.
    Convolutions in `folds` do their batch-norm's work, whose tensors are in `values`.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        batch: int,
        layouts: Mapping[str, Layout],
        visit: Visit | None,
        folds: Mapping[str, Fold] | None = None,
        values: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.places = {id(value): Place(name) for name, value in parameters.items()}
        self.folds, self.values = folds or {}, values or {}
        self._folded: dict[int, torch.Tensor] = {}
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
        if operation is None:
            return func(*args, **kwargs)
        if func is F.batch_norm and self._folded:
            done = self._folded.pop(id(args[0] if args else kwargs["input"]), None)
            if done is not None:
                return done
        return self._seen(operation, func, args, kwargs)

    def _seen(self, operation: Operation, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {**dict(zip(operation.arguments, args, strict=False)), **kwargs}
        places = {role: self.places[id(given.get(role))] for role in _ROLES if id(given.get(role)) in self.places}
        if not places or not operation.holds(given):
            return func(*args, **kwargs)
        fold = self.folds.get(places["weight"].name) if "weight" in places else None
        if fold is not None:
            return self._with_norm(fold, func, given, places)
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

    def _with_norm(self, fold: Fold, func: Any, given: dict[str, Any], places: dict[str, Place]) -> torch.Tensor:
        given = folded_arguments(fold, given, self.values)
        output = func(**{name: value for name, value in given.items() if name in folded_convolution.arguments})
        named = {"norm_weight": fold.weight, "norm_bias": fold.bias, "own_bias": fold.before}
        places = {"weight": places["weight"]} | {
            role: Place(name) for role, name in named.items() if name is not None and name in self.layouts
        }
        self.uses.update(places.values())
        a = given["input"].detach()
        call = Call(folded_convolution, func, {**given, "input": a}, places, self.batch)
        assert self.visit is not None
        output = _watched(output, self._anchor, _Visitor(self.visit, call, a._version))
        self._folded[id(output)] = output
        return output

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
