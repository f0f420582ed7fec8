"""Observes the calls in which a network uses its parameters.

`Watching` is a `TorchFunctionMode`: while it is active (around the forward pass only), it sees every PyTorch function
that is called. If a parameter, or a tensor derived from parameters alone, meets a sample's tensor in a function with a
closed form, the call and the gradient of its output are handed to a visitor in the backward pass. The types of modules
are not looked at, so subclasses, functional code and third-party layers are all covered.

Parameters are detached where they meet samples, so the backward pass only carries gradients from layer to layer. If
autograd still brings a gradient to a parameter, the parameter was used on a path that was not watched.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from moso.gradients.layers import OPERATIONS, Call, Layout, Operation, Place, Rows, folded_convolution
from moso.gradients.layers.attention import attention
from moso.gradients.layers.elementwise import DIVISIONS, OVERWRITING, added, multiplied
from moso.gradients.layers.linear import linear
from moso.gradients.layers.operation import Arguments, Function, Positional
from moso.gradients.layers.recurrent import RECURRENT, unrolled
from moso.gradients.watching.folding import Fold, folded_arguments
from moso.gradients.watching.owners import FOLLOWED, Owners
from moso.gradients.watching.visits import Visit, Visitor, watched

Signature = dict[str, tuple[object, ...]]
_T = torch.Tensor
# Functions whose backward pass preserves the norm of a gradient.
_PROPERTY = type(_T.__dict__.get("shape", vars(torch._C.TensorBase)["shape"]).__get__)
_TRANSPOSED: list[Any] = [_T.T, _T.mT, _T.H, _T.mH]  # properties; mypy takes them for tensors
_ISOMETRIES: frozenset[Any] = frozenset(
    {*(own.__get__ for own in _TRANSPOSED), _T.t, _T.transpose, _T.permute, _T.view, _T.reshape, _T.unsqueeze,
     _T.squeeze, _T.flatten, _T.contiguous, _T.clone, _T.movedim, torch.transpose, torch.permute, torch.reshape,
     torch.unsqueeze,
     torch.squeeze, torch.flatten, torch.t, torch.movedim, torch.clone, torch.view_as_complex, torch.view_as_real,
     _T.swapaxes, torch.swapaxes, _T.view_as, _T.reshape_as, _T.narrow, torch.narrow, _T.float, _T.double}
)  # fmt: skip


_NOTHING: Arguments = {}


class Watching(TorchFunctionMode):
    """Hands each call in which one of the parameters meets samples to `visit(call, b)`, with its output gradient `b`.

    Attributes:
        uses: Number of calls per place.
        shapes: Output shapes of the calls, by parameter name.
        given_layouts: Parameters used in calls that know their own layout (selected rows, recurrent networks).
        changing: Parameters used after rows were selected by value; another batch may select other rows.
        rough: Whether some call was in half precision.
        normalises: Whether there was a batch-norm.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        batch: int,
        layouts: Mapping[str, Layout],
        visit: Visit | None,
        *,
        constants: Iterable[torch.Tensor] = (),
        growing: frozenset[str] | None = None,
        cut: bool = True,
        row_owners: Iterable[torch.Tensor] = (),
        folds: Mapping[str, Fold] | None = None,
        values: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Watch for `parameters`; without a visitor, only count calls and record output shapes.

        Args:
            parameters: By name. Parameters that tensors are derived from must require a gradient.
            batch: Number of samples.
            layouts: Where the samples are in the outputs of each parameter's calls.
            visit: Is called with each call in the backward pass.
            constants: Tensors that are the same for all samples, such as buffers.
            growing: Parameters whose calls with constants alone have one output per sample; None to find out.
            cut: Whether parameters are detached where they meet samples; a training step needs their gradients.
            row_owners: For batches that cannot be sliced, tensors that may hold the owner of each row.
            folds: Convolutions, by the name of their weight, with their batch-norm folded in.
            values: The tensors of the folded batch-norms.
        """
        super().__init__()
        self.places = {id(value): Place((name,)) for name, value in parameters.items()}
        self.direct = {place.name: place for place in self.places.values()}
        self.batch, self.layouts, self.visit, self.growing = batch, layouts, visit, growing
        self.cut, self.folds, self.values = cut, folds or {}, values or {}
        self.uses: Counter[Place] = Counter()
        self.shapes: dict[str, list[torch.Size]] = {}
        self.grown: set[str] = set()
        self.given_layouts: set[str] = set()
        self.changing: set[str] = set()
        self.rough = self.normalises = False
        self.owners = Owners(batch, row_owners)
        self._folded: dict[int, torch.Tensor] = {}
        # A dummy leaf that keeps an output in the graph when no earlier tensor requires a gradient.
        self._anchor = torch.zeros((), requires_grad=True)
        # Tensors that do not depend on samples. They are kept alive, because an id is unique only among living objects.
        self._constants = {id(tensor): tensor for tensor in constants}
        self._alive: list[Any] = list(parameters.values())

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Arguments | None = None
    ) -> Any:
        """Run every function, and watch the calls in which parameters meet samples."""
        kwargs = kwargs or {}
        if type(func) is _PROPERTY:  # a shape, a dtype, a device; rarely a tensor
            output = func(*args)
            if not isinstance(output, torch.Tensor):
                return output
        if func is F.multi_head_attention_forward:
            result = attention(self._attention_linear, *args, **kwargs)
            return func(*args, **kwargs) if result is None else result
        if func in RECURRENT and (found := self._recurrent(func, args, kwargs)) is not None:
            return found
        if func is F.batch_norm:
            self.normalises = True
            done = self._folded.pop(id(args[0] if args else kwargs["input"]), None)
            if done is not None:
                return done
        tensors = list(_tensors(args, kwargs) if kwargs else _tensors(args, _NOTHING))
        touched = [place for tensor in tensors if (place := self.places.get(id(tensor))) is not None]
        if not touched:
            output = func(*args, **kwargs)
            if all(id(tensor) in self._constants for tensor in tensors):
                self._keep_constant(output)
            elif isinstance(output, torch.Tensor) or func in FOLLOWED:
                self._forget_overwritten(func, args, output)
                self.owners.follow(func, args, kwargs, tensors, output)
            return output
        samples = any(id(tensor) not in self.places and id(tensor) not in self._constants for tensor in tensors)
        operation = OPERATIONS.get(func)
        if func is F.scaled_dot_product_attention and samples:
            return self._masked_attention(args, kwargs)
        if func in DIVISIONS and samples and len(args) == 2 and id(args[1]) in self.places and not kwargs:
            # Division by a parameter is multiplication by a tensor derived from it.
            inverse = self._derive(_T.reciprocal, args[1].reciprocal(), touched, ())
            given = {"input": args[0], "weight": inverse}
            return self._met(multiplied, func, args, kwargs, given, args[0] * self._held(inverse))
        bound = None if operation is None else operation.bind(args, kwargs, self._is_place)
        if bound is not None and (samples or self._grows(touched, func, args, kwargs)):
            return self._seen(*bound, func, args, kwargs)
        output = func(*args, **kwargs)
        if samples:
            self._forget_overwritten(func, args, output)
            return output
        return self._derive(func, output, touched, args)

    def _masked_attention(self, args: Positional, kwargs: Arguments) -> torch.Tensor:
        """Run attention whose mask is derived from parameters: broadcast the mask to every sample and watch that."""
        named = {**dict(zip(("query", "key", "value", "attn_mask"), args, strict=False)), **kwargs}
        mask, query = named["attn_mask"], named["query"]
        if mask.ndim == query.ndim and len(mask) != 1:
            return F.scaled_dot_product_attention(*args, **kwargs)
        leading = (1,) * (query.ndim - mask.ndim) + tuple(mask.shape)
        whole = self._held(mask).expand(len(query), *leading[1:]).clone()
        given = {"input": query, "weight": mask, "factor": 1}
        named["attn_mask"] = self._met(added, F.scaled_dot_product_attention, (query,), {}, given, whole)
        rest = args[4:]
        return F.scaled_dot_product_attention(
            named.pop("query"), named.pop("key"), named.pop("value"), named.pop("attn_mask"), *rest, **named
        )

    def _forget_overwritten(self, func: Function, args: Positional, output: Any) -> None:
        """Remove a tensor that samples were written into from the constants and places."""
        if func is _T.__setitem__:
            output = args[0]
        if isinstance(output, torch.Tensor):
            self._constants.pop(id(output), None)
            self.places.pop(id(output), None)

    def _held(self, value: Any) -> Any:
        """Detach an argument from the parameters that it is derived from."""
        if not self.cut:
            return value
        if isinstance(value, torch.Tensor):
            return value.detach() if id(value) in self.places else value
        if isinstance(value, list | tuple) and any(id(part) in self.places for part in value):
            return [self._held(part) for part in value]
        return value

    def _is_place(self, value: Any) -> bool:
        return id(value) in self.places

    def _keep_constant(self, output: Any) -> None:
        for tensor in _tensors((output,), {}):
            self._constants[id(tensor)] = tensor

    def _derive(self, func: Function, output: Any, touched: list[Place], args: Positional) -> Any:
        """Record tensors that were derived from parameters alone."""
        names = tuple(dict.fromkeys(name for place in touched for name in place.names))
        keeps = func in _ISOMETRIES or (func is _T.__getitem__ and _is_plain_index(args[1]))
        isometric = keeps and len(touched) == 1 and touched[0].isometric
        for tensor in _tensors((output,), {}):
            if tensor.requires_grad:
                self.places[id(tensor)] = Place(names, tensor, None, isometric)
                self._alive.append(tensor)
            else:
                self._constants[id(tensor)] = tensor
        return output

    def _grows(self, touched: list[Place], func: Function, args: Positional, kwargs: Arguments) -> bool:
        """Return whether a call with constants alone has one output per sample, as a position table may have."""
        name = touched[0].name
        if self.growing is not None:
            return name in self.growing
        with torch.no_grad():
            output = func(*args, **kwargs)
        grows = isinstance(output, torch.Tensor) and output.ndim > 1 and len(output) == self.batch
        if grows:
            self.grown.add(name)
        return grows

    def _seen(self, operation: Operation, given: Arguments, func: Function, args: Positional, kwargs: Arguments) -> Any:
        places = {role: self.places[id(given[role])] for role in operation.roles if id(given.get(role)) in self.places}
        if not places:
            return func(*args, **kwargs)
        fold = self.folds.get(places["weight"].name) if "weight" in places else None
        if fold is not None:
            return self._with_norm(fold, func, given, places)
        if func in OVERWRITING:
            given["input"] = given["input"].clone()
        output = func(*map(self._held, args), **{name: self._held(value) for name, value in kwargs.items()})
        return self._met(operation, func, args, kwargs, given, output)

    def _met(
        self, operation: Operation, func: Function, args: Any, kwargs: Any, given: Arguments, output: torch.Tensor
    ) -> torch.Tensor:
        """Watch the output of a call that has a closed form."""
        places = {role: self.places[id(given[role])] for role in operation.roles if id(given.get(role)) in self.places}
        if self.owners.idle:
            return self._watch(operation, func, given, places, output)
        rows = self.owners.of(_tensors(args, kwargs), output)
        names = {name for place in places.values() for name in place.names}
        self.changing |= names
        if rows is not None:
            self.given_layouts |= names
        result = self._watch(operation, func, given, places, output, "rows" if rows is not None else None, rows)
        if rows is not None:
            self.owners.mark(result, rows)
        return result

    def _watch(
        self, operation: Operation, func: Function, given: Arguments, places: dict[str, Place], output: torch.Tensor,
        layout: Layout | None = None, rows: torch.Tensor | None = None, filled_later: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        self.uses.update(places.values())
        self.rough = self.rough or output.dtype in (torch.float16, torch.bfloat16)
        if layout is None:
            names = self._note_shape(places, output)
            if self.visit is not None:
                layout = next((self.layouts[name] for name in names if name in self.layouts), None)
                if layout is None or not _fits(layout, output.shape, self.batch):
                    raise StructureError(names)
        if self.visit is None or layout is None:
            return output
        # A call may outlive its pass, and must not keep the autograd graph alive.
        given = {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
        a = given["input"]
        call = Call(operation, func, given, places, self.batch, layout, rows)
        return watched(output, self._anchor, Visitor(self.visit, call, None if filled_later else a._version))

    def _note_shape(self, places: Mapping[str, Place], output: torch.Tensor) -> tuple[str, ...]:
        """Record the output shape of a call for every parameter used in it; return the names of the parameters."""
        names = tuple(dict.fromkeys(name for place in places.values() for name in place.names))
        for name in names:
            self.shapes.setdefault(name, []).append(output.shape)
        return names

    def _with_norm(self, fold: Fold, func: Function, given: Arguments, places: dict[str, Place]) -> torch.Tensor:
        given = folded_arguments(fold, {name: _detached(value) for name, value in given.items()}, self.values)
        output = func(**{name: value for name, value in given.items() if name in folded_convolution.arguments})
        named = {"norm_weight": fold.weight, "norm_bias": fold.bias, "own_bias": fold.before}
        places = {"weight": places["weight"]} | {
            role: self.direct[name] for role, name in named.items() if name is not None and name in self.layouts
        }
        self.uses.update(places.values())
        names = self._note_shape(places, output)
        a = given["input"].detach()
        call = Call(folded_convolution, func, {**given, "input": a}, places, self.batch)
        assert self.visit is not None
        if not _fits("first", output.shape, self.batch):
            raise StructureError(names)
        output = watched(output, self._anchor, Visitor(self.visit, call, a._version))
        self._folded[id(output)] = output
        return output

    def _attention_linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, rows: Rows | None
    ) -> torch.Tensor:
        if rows is not None:
            weight, bias = self._part(weight, rows), None if bias is None else self._part(bias, rows)
        return self._linear(x, weight, bias)

    def _linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        output: torch.Tensor = self._seen(
            linear, {"input": x, "weight": weight, "bias": bias}, F.linear, (x, weight, bias), {}
        )
        return output

    def _part(self, parameter: torch.Tensor, rows: Rows) -> torch.Tensor:
        part = parameter[slice(*rows)]
        place = self.places.get(id(parameter))
        if place is not None:
            whole = place.tensor is None
            self.places[id(part)] = Place(place.names, part, rows if whole else None, whole)
        self._alive.append(part)
        return part

    def _recurrent(self, func: Function, args: Positional, kwargs: Arguments) -> tuple[torch.Tensor, ...] | None:
        if not any(id(tensor) in self.places for tensor in _tensors(args, kwargs)):
            return None
        packed = len(args) == 9 and isinstance(args[3], list | tuple)
        rows = self.owners.packed(args[0], args[1]) if packed else None
        layout: Layout = "rows" if packed else "second"

        def seen(
            x: torch.Tensor, weight: Any, bias: Any, layout: Layout, rows: Any, output: torch.Tensor, later: bool
        ) -> torch.Tensor:
            given = {"input": x, "weight": weight, "bias": bias}
            places = {role: self.places[id(v)] for role, v in given.items() if id(v) in self.places}
            if not places:
                return output
            self.given_layouts |= {name for place in places.values() for name in place.names}
            return self._watch(linear, F.linear, given, places, output, layout, rows, later)

        def through(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
            output = F.linear(x, self._held(weight), self._held(bias))
            return seen(x, weight, bias, layout, rows, output, False)

        def collect(begun: torch.Tensor, weight: Any, bias: Any, incoming: torch.Tensor) -> torch.Tensor:
            steps, count = begun.shape[:2]
            slack = torch.zeros(steps * count, incoming.shape[-1], dtype=incoming.dtype, device=incoming.device)
            flat = begun.view(steps * count, -1)
            owned = None if rows is None else rows[:count].repeat(steps)
            slack = seen(flat, weight, bias, "inner" if rows is None else "rows", owned, slack, True)
            return slack.view(steps, count, -1)

        result = unrolled(func, through, collect, self._held, *args, **kwargs)
        if result is not None and rows is not None:
            self.owners.mark(result[0], rows)
        return result

    def signature(self) -> Signature:
        """Return the output shapes of each parameter's calls, independent of the number of samples."""
        found: Signature = {}
        for name, shapes in self.shapes.items():
            second = self.layouts.get(name) == "second"
            found[name] = tuple(
                (shape[0], *shape[2:]) if second else (shape[0] / self.batch, *shape[1:]) for shape in shapes
            )
        return found


class StructureError(RuntimeError):
    """A parameter met samples in another way than when its closed form was probed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(f"{names[0]} meets samples in a way that was not seen before")
        self.names = names


def _fits(layout: Layout, shape: torch.Size, batch: int) -> bool:
    if layout == "second":
        return len(shape) > 1 and shape[1] == batch
    if layout == "rows":  # the call itself knows the owner of each row
        return False
    return len(shape) > 0 and shape[0] % batch == 0 and shape[0] > 0


def _tensors(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among a function's arguments, including those in (nested) lists and tuples."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value, {})


def _is_plain_index(index: Any) -> bool:
    """Return whether an index selects every number at most once, as slices do."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) and value.is_leaf else value
