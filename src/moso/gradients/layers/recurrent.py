"""`nn.LSTM`, `nn.GRU`, `nn.RNN`, unrolled into their linear maps.

PyTorch runs a recurrent network as one function, inside which the uses of its parameters cannot be watched. Unrolled, a
layer is one linear map of all inputs, and one linear map of the hidden state per step. The second map is collected over
the steps: at each step, zeros are added to its output. The gradient of the zeros is the output gradient of all steps,
so that one closed form handles all steps together.

A packed sequence is a batch whose samples end one after the other: at step t only the first `sizes[t]` remain.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from moso.gradients.layers.operation import Function

# Replaces `F.linear(x, weight, bias)` by a watched call.
Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
# Returns zeros ``[steps, samples, width]`` whose gradient belongs to the linear map of inputs that are filled in later.
Collect = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor], torch.Tensor]

_GATES: dict[Function, int] = {torch.lstm: 4, torch.gru: 3, torch.rnn_tanh: 1, torch.rnn_relu: 1}
RECURRENT = frozenset(_GATES)


@dataclass(frozen=True)
class Unrolled:
    """One call of a recurrent function, with its input ``[steps, samples, width]``, or packed ``[rows, width]``.

    Attributes:
        function: The recurrent function, such as `torch.lstm`.
        linear: Applies the watched linear map of the inputs.
        collect: Returns the zeros that collect the output gradients of the hidden-state map.
        hold: Detaches a parameter.
        x: The input.
        sizes: Number of samples per step.
        packed: Whether the input is a packed sequence.
    """

    function: Function
    linear: Linear
    collect: Collect
    hold: Callable[[Any], Any]
    x: torch.Tensor
    sizes: list[int]
    packed: bool

    def run(
        self, hidden: tuple[torch.Tensor, ...], weights: list[Any], biases: bool, layers: int, both: bool
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Return the outputs of the last layer, and the final hidden states of all layers."""
        x, each = self.x, 4 if biases else 2
        ends: list[tuple[torch.Tensor, ...]] = []
        for layer in range(layers):
            outputs = []
            for way in range(2 if both else 1):
                number = layer * (2 if both else 1) + way
                own = weights[number * each : (number + 1) * each]
                state = tuple(part[number] for part in hidden)
                output, end = self._layer(x, state, own, bool(way))
                outputs.append(output)
                ends.append(end)
            x = torch.cat(outputs, -1) if both else outputs[0]
        return x, tuple(torch.stack([end[part] for end in ends]) for part in range(len(hidden)))

    def _layer(
        self, x: torch.Tensor, state: tuple[torch.Tensor, ...], weights: list[torch.Tensor], back: bool
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        to_gates, from_hidden, *rest = weights
        bias, hidden_bias = rest if rest else (None, None)
        incoming = self.linear(x, to_gates, bias)
        steps = list(torch.split(incoming, self.sizes)) if self.packed else list(incoming)
        # The hidden state before each step is written to `begun` while the steps run; the closed form reads it
        # afterwards.
        order = range(len(steps) - 1, -1, -1) if back else range(len(steps))
        begun = torch.zeros(len(steps), self.sizes[0], from_hidden.shape[1], dtype=x.dtype, device=x.device)
        slack = self.collect(begun, from_hidden, hidden_bias, incoming)
        fixed, fixed_bias = self.hold(from_hidden), self.hold(hidden_bias)
        whole, outputs = state, list[torch.Tensor](steps)
        for t in order:
            count = self.sizes[t]
            own = tuple(part[:count] for part in whole)
            begun[t, :count] = own[0].detach()
            added = torch.nn.functional.linear(own[0], fixed, fixed_bias) + slack[t, :count]
            moved = self._step(steps[t], added, own)
            outputs[t] = moved[0]
            whole = moved if count == len(whole[0]) else tuple(
                torch.cat([new, old[count:]]) for new, old in zip(moved, whole, strict=True)
            )  # fmt: skip
        return torch.cat(outputs) if self.packed else torch.stack(outputs), whole

    def _step(
        self, incoming: torch.Tensor, added: torch.Tensor, state: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        if self.function is torch.lstm:
            into, keep, new, out = (incoming + added).chunk(4, -1)
            cell = torch.sigmoid(keep) * state[1] + torch.sigmoid(into) * torch.tanh(new)
            return torch.sigmoid(out) * torch.tanh(cell), cell
        if self.function is torch.gru:
            reset, update, new = incoming.chunk(3, -1)
            own_reset, own_update, own_new = added.chunk(3, -1)
            gate = torch.sigmoid(update + own_update)
            moved = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
            return ((1 - gate) * moved + gate * state[0],)
        moved = incoming + added
        return (torch.tanh(moved) if self.function is torch.rnn_tanh else torch.relu(moved),)


def unrolled(
    function: Function,
    linear: Linear,
    collect: Collect,
    hold: Callable[[Any], Any],
    *args: Any,
    **kwargs: Any,
) -> tuple[torch.Tensor, ...] | None:
    """Return what a recurrent function returns; None for options not supported here (projections, dropout, keywords).

    Args:
        function: The recurrent function, such as `torch.lstm`.
        linear: Applies the watched linear map of the inputs.
        collect: Returns the zeros that collect the output gradients of the hidden-state map.
        hold: Detaches a parameter.
        args: Positional arguments of the recurrent function.
        kwargs: Keyword arguments of the recurrent function.
    """
    if kwargs or len(args) != 9:
        return None
    packed = isinstance(args[3], list | tuple)
    if packed:
        x, sizes, hidden, weights, biases, layers, dropout, training, both = args
        first = False
    else:
        x, hidden, weights, biases, layers, dropout, training, both, first = args
        if x.ndim != 3:
            return None
    hidden = tuple(hidden) if isinstance(hidden, list | tuple) else (hidden,)
    if (dropout and training) or len(weights) != layers * (2 if both else 1) * (4 if biases else 2):
        return None
    x = x.transpose(0, 1) if first else x
    rows = sizes.tolist() if packed else [x.shape[1]] * len(x)
    call = Unrolled(function, linear, collect, hold, x, rows, packed)
    output, ends = call.run(hidden, list(weights), biases, layers, both)
    return (output.transpose(0, 1) if first else output), *ends
