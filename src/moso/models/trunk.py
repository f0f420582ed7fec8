"""The frozen trunk of a network: what lies before everything that is trained, found from the network itself.

The network's forward pass is traced (torch.fx). A value depends on training if it is computed from a trainable
parameter, or by a layer that is random or keeps statistics in training. The cut is the last value that does not depend
on training and through which every path from the input to the output leads. Then

    network(x) = rest(trunk(x)),

the trunk is one fixed function, and its outputs can be computed once. Where no such value exists, or the pass cannot be
traced, the network is not cut.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from moso.models.freezing import is_held

# What forward passes of any kind do with a symbolic input that they cannot handle.
_UNTRACED = (
    fx.proxy.TraceError, TypeError, ValueError, AttributeError, LookupError, RuntimeError, AssertionError, NameError,
)  # fmt: skip


@dataclass(frozen=True)
class Cut:
    """A network in two parts: `rest(trunk(x))` is the network's output; both share its parameters.

    Attributes:
        trunk: The frozen part.
        rest: Everything after it, with the parameters' names in the network.
        after: Name of the last value of the trunk.
    """

    trunk: nn.Module
    rest: nn.Module
    after: str


def cut_frozen(model: nn.Module, inputs: torch.Tensor) -> Cut | None:
    """Cut a network behind its frozen trunk; None if it has none that can be cut off.

    Args:
        model: The network.
        inputs: A batch of at least two inputs, on which the cut is checked.

    Returns:
        The two parts, whose parameters are those of the network.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> cut_frozen(model, torch.randn(2, 4)) is None
        True
        >>> _ = model[0].requires_grad_(False)
        >>> cut = cut_frozen(model, torch.randn(2, 4))
        >>> [name for name, _ in cut.rest.named_parameters()]
        ['2.weight', '2.bias']
    """
    if all(parameter.requires_grad for parameter in model.parameters()):
        return None
    for whole_blocks in (False, True):
        graph = _traced(model, whole_blocks)
        if graph is None or _remembers_mode(graph):
            continue
        cut = _cut(model, graph)
        if cut is not None and _agrees(model, cut, inputs):
            return cut
    return None


class _Tracer(fx.Tracer):
    """Looks only into modules that hold trainable parameters: what is frozen may branch as it likes.

    With `whole_blocks` it looks only into lists of modules, because a trained block may branch as well.
    """

    def __init__(self, whole_blocks: bool) -> None:
        super().__init__()
        self.whole_blocks = whole_blocks

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        trained = any(parameter.requires_grad for parameter in m.parameters())
        block = self.whole_blocks and not isinstance(m, nn.Sequential | nn.ModuleList)
        return block or not trained or super().is_leaf_module(m, module_qualified_name)


def _traced(model: nn.Module, whole_blocks: bool) -> fx.Graph | None:
    try:
        graph = _Tracer(whole_blocks).trace(model)
    except _UNTRACED:
        return None
    _use_defaults(graph)
    return graph


def _use_defaults(graph: fx.Graph) -> None:
    """Put the default values of all arguments but the first in their place."""
    for node in [one for one in graph.nodes if one.op == "placeholder"][1:]:
        if node.args:
            for user in list(node.users):
                user.args = fx.map_arg(user.args, partial(_default_for, node))
                user.kwargs = fx.map_arg(user.kwargs, partial(_default_for, node))
            graph.erase_node(node)


def _default_for(argument: fx.Node, value: fx.Node) -> Any:
    return argument.args[0] if value is argument else value


def _remembers_mode(graph: fx.Graph) -> bool:
    """Return whether the trace holds a function whose argument says if the network trains: the trace fixes it."""
    names = [str(getattr(node.target, "__name__", node.target)) for node in graph.nodes if node.op == "call_function"]
    return any("dropout" in name or "batch_norm" in name for name in names)


def _cut(model: nn.Module, graph: fx.Graph) -> Cut | None:
    nodes = list(graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    output = next(node for node in nodes if node.op == "output")
    if len(inputs) != 1:
        return None
    dependent, reached = _trains(model, nodes), {inputs[0]}
    for node in nodes:
        if any(one in reached for one in node.all_input_nodes):
            reached.add(node)
    if output not in dependent:
        return None
    for node in reversed(nodes):
        if node in dependent or node not in reached or node is inputs[0]:
            continue
        behind = _before(output, stop=node)
        if inputs[0] not in behind:
            return Cut(_part(model, _before(node), node, None), _part(model, behind, output, node), node.name)
    return None


def _trains(model: nn.Module, nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return the values that depend on training."""
    parameters, modules = dict(model.named_parameters()), dict(model.named_modules())
    found: set[fx.Node] = set()
    for node in nodes:
        own = False
        if node.op == "get_attr":
            parameter = parameters.get(str(node.target))
            own = parameter is not None and parameter.requires_grad
        elif node.op == "call_module":
            own = _changes(modules[str(node.target)])
        if own or any(one in found for one in node.all_input_nodes):
            found.add(node)
    return found


def _changes(module: nn.Module) -> bool:
    """Return whether a module is trained, is random in training, or keeps statistics."""
    if any(parameter.requires_grad for parameter in module.parameters()):
        return True
    return not is_held(module) and any(
        _drops(inner) or next(inner.buffers(recurse=False), None) is not None for inner in module.modules()
    )


def _drops(module: nn.Module) -> bool:
    share = getattr(module, "p", getattr(module, "drop_prob", 1.0))
    return "drop" in type(module).__name__.lower() and bool(share)


def _before(node: fx.Node, stop: fx.Node | None = None) -> set[fx.Node]:
    """Return a node and all that it is computed from, up to `stop`, which is not looked behind."""
    found: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [] if one is stop else one.all_input_nodes
    return found


def _part(model: nn.Module, needed: set[fx.Node], end: fx.Node, start: fx.Node | None) -> nn.Module:
    """Return the part of a traced network between two nodes as a module of its own."""
    graph, values = fx.Graph(), dict[fx.Node, fx.Node]()
    whole = list(end.graph.nodes)
    if start is not None:
        values[start] = graph.placeholder("features")
    for node in whole:
        if node not in needed or node is start or node.op == "output":
            continue
        values[node] = graph.node_copy(node, lambda one: values[one])
    result: Any = end.args[0] if end.op == "output" else end
    graph.output(fx.map_arg(result, lambda one: values[one]))
    graph.lint()
    return fx.GraphModule(model, graph)


@torch.no_grad()
def _agrees(model: nn.Module, cut: Cut, inputs: torch.Tensor) -> bool:
    """Return whether the parts give the network's outputs, and the trunk one tensor per sample, whatever the batch."""
    modes = {module: module.training for module in model.modules()}
    parts = (cut.trunk, cut.rest)
    for part in (model, *parts):
        part.eval()
    try:
        features = cut.trunk(inputs)
        if not isinstance(features, torch.Tensor) or not features.is_floating_point():
            return False
        if features.ndim < 2 or len(features) != len(inputs):
            return False
        alone = torch.cat([cut.trunk(one[None]) for one in inputs])
        same = alone.shape == features.shape and torch.allclose(alone, features, rtol=1e-3, atol=1e-4)
        return bool(same and torch.equal(cut.rest(features), model(inputs)))
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return False
    finally:
        for module, mode in modes.items():
            module.training = mode
        for part in parts:
            part.training = model.training
