"""Every layer people use, against autograd one sample at a time in float64."""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from moso.gradients import Point, cross_entropy, time_step
from moso.gradients.directional import backward_derivative
from moso.gradients.layers import OPERATIONS, Call, Place, convolution
from moso.gradients.sweep import sweep_batch
from moso.gradients.trust import knowledge_of, plan_for

COUNT = 6


class Head(nn.Module):
    """Some layers, then a mean over positions and three classes."""

    def __init__(self, *layers: nn.Module, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, 3)

    def forward(self, inputs):
        hidden = self.layers(inputs)
        return self.classifier(hidden.flatten(2).mean(2) if hidden.ndim > 2 else hidden)


class Sequence(nn.Module):
    """Tokens, an embedding, layers over [batch, positions, width], the mean over positions."""

    def __init__(self, *layers: nn.Module, width: int = 8, padding: int | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, width, padding_idx=padding)
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, 3)

    def forward(self, tokens):
        return self.classifier(self.layers(self.embedding(tokens)).mean(1))


class Attention(nn.Module):
    """Scaled dot-product attention out of linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(len(x), -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Multihead(nn.Module):
    """PyTorch's own attention module, whose weights belong to no submodule that is called."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=False)[0]


class Mixing(nn.Module):
    """Attention of tokens to others, with masks, in PyTorch's order: positions first, samples second."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)
        self.to_keys = nn.Linear(8, 8)

    def forward(self, x):
        x = x.transpose(0, 1)
        keys = self.to_keys(x[:3])
        hidden = torch.zeros(x.shape[1], 3, dtype=torch.bool)
        hidden[:, 2] = True
        order = torch.ones(len(x), 3, dtype=torch.bool).triu(2)
        return (x + self.attention(x, keys, keys, key_padding_mask=hidden, attn_mask=order)[0]).transpose(0, 1)


class Positions(nn.Module):
    """A table of positions that all samples look up together, as encoders of text have it."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 8)
        self.batched = batched

    def forward(self, x):
        numbers = torch.arange(x.shape[1])
        return x + self.table(numbers[None] if self.batched else numbers)


class Windows(nn.Module):
    """Positions folded into the batch, as windowed attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(self.norm(x.flatten(0, 1))).view_as(x)


class Frames(nn.Module):
    """Frames of a video folded into the batch of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.convolution(x.flatten(0, 1)[:, None])).unflatten(0, (len(x), -1)).mean(1)


class Scale(nn.Module):
    """A learned factor a channel, as LayerScale has it."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return x * self.factor


class Half(nn.Module):
    """Layers half of which is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.first.weight.requires_grad_(False)
        self.second.bias.requires_grad_(False)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Functional(nn.Module):
    """No layers at all: parameters and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(3, 2, 3, 3))
        self.gain, self.shift = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))

    def forward(self, x):
        return F.group_norm(F.conv2d(input=x, weight=self.kernel, padding=1), 1, self.gain, self.shift)


class LowRank(nn.Module):
    """A frozen layer with a trainable adapter, as LoRA has it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


class Twice(nn.Module):
    """One layer used twice in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(torch.tanh(self.inner(x)))


class Raw(nn.Module):
    """A parameter that belongs to no layer, as class tokens and positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 5, 8))

    def forward(self, x):
        return x + self.position


class Loud(nn.BatchNorm2d):
    """A subclass that does something else than the layer it descends from."""

    def forward(self, x):
        return torch.tanh(super().forward(x)) * self.weight.sum()


def image(channels: int = 2, size: int = 7) -> torch.Tensor:
    return torch.randn(COUNT, channels, size, size, dtype=torch.float64)


def rows() -> torch.Tensor:
    return torch.randn(COUNT, 8)


def tokens() -> torch.Tensor:
    return torch.randint(0, 11, (COUNT, 5))


CASES = {
    "linear": (lambda: nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)), rows),
    "linear, few positions": (lambda: Sequence(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 8)), tokens),
    "linear, many positions": (lambda: Sequence(nn.Linear(8, 2), nn.Linear(2, 8, bias=False)), tokens),
    "linear, two leading dimensions": (
        lambda: Head(nn.Linear(7, 4), nn.Tanh(), width=2), lambda: image()),
    "conv1d": (lambda: Head(nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), width=4), lambda: torch.randn(COUNT, 2, 9)),
    "conv2d": (lambda: Head(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), width=4), image),
    "conv2d, few positions": (lambda: Head(nn.Conv2d(12, 14, 3), width=14), lambda: image(12, 4)),
    "conv2d, few positions, groups": (
        lambda: Head(nn.Conv2d(24, 28, 3, groups=2, bias=False), width=28), lambda: image(24, 4)),
    "conv2d, stride and dilation": (
        lambda: Head(nn.Conv2d(2, 4, (3, 2), stride=(2, 1), dilation=(1, 2)), width=4), image),
    "conv2d, groups": (lambda: Head(nn.Conv2d(4, 6, 3, groups=2, bias=False), width=6), lambda: image(4)),
    "conv2d, depthwise": (lambda: Head(nn.Conv2d(4, 4, 3, groups=4, padding=1, stride=2), width=4), lambda: image(4)),
    "conv2d, reflected": (lambda: Head(nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect"), width=4), image),
    "conv2d, circular, same": (
        lambda: Head(nn.Conv2d(2, 4, 4, padding="same", padding_mode="circular"), width=4), image),
    "conv2d, replicated": (lambda: Head(nn.Conv2d(2, 4, 3, padding=(1, 2), padding_mode="replicate"), width=4), image),
    "conv3d": (lambda: Head(nn.Conv3d(1, 3, 2, stride=(1, 2, 1)), width=3), lambda: torch.randn(COUNT, 1, 4, 5, 4)),
    "batch-norm": (lambda: Head(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), width=4), image),
    "batch-norm 1d": (lambda: nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)), rows),
    "group-norm": (lambda: Head(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), width=4), image),
    "instance-norm": (lambda: Head(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Tanh(), width=4), image),
    "layer-norm": (lambda: Sequence(nn.LayerNorm(8), nn.Linear(8, 8)), tokens),
    "layer-norm over two dimensions": (lambda: Head(nn.LayerNorm((7, 7)), nn.Conv2d(2, 3, 3), width=3), image),
    "layer-norm without bias": (lambda: Sequence(nn.LayerNorm(8, bias=False)), tokens),
    "rms-norm": (lambda: Sequence(nn.RMSNorm(8)), tokens),
    "embedding": (lambda: Sequence(), tokens),
    "embedding with padding": (lambda: Sequence(padding=3), tokens),
    "attention": (lambda: Sequence(nn.LayerNorm(8), Attention(), nn.LayerNorm(8)), tokens),
    "multi-head attention": (lambda: Sequence(Multihead()), tokens),
    "multi-head attention over others": (lambda: Sequence(Mixing()), tokens),
    "multi-head attention without bias": (lambda: Sequence(Mixing(bias=False)), tokens),
    "multi-head attention, rare options": (lambda: Sequence(Multihead(add_bias_kv=True)), tokens),
    "transformer layer": (lambda: Sequence(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)), tokens),
    "positions of all samples": (lambda: Sequence(Positions(True), Attention()), tokens),
    "positions without a batch": (lambda: Sequence(Positions(False), Attention()), tokens),
    "windows": (lambda: Sequence(Windows(), nn.Tanh()), tokens),
    "frames": (lambda: Head(Frames(), nn.ReLU(inplace=True), width=3), image),
    "scales": (lambda: Sequence(Scale(), nn.Linear(8, 8)), tokens),
    "half frozen": (lambda: Sequence(Half()), tokens),
    "functions without layers": (lambda: Head(Functional(), nn.ReLU(), width=3), image),
    "in-place after the first layer": (lambda: Head(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), width=4), image),
    "convolutions with a bias before batch-norm": (
        lambda: Head(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Conv2d(4, 4, 3, bias=False),
                     nn.BatchNorm2d(4), width=4), image),
    "conv2d, same": (lambda: Head(nn.Conv2d(2, 4, 3, padding="same", dilation=(1, 2)), width=4), image),
    "adapter": (lambda: Sequence(LowRank()), tokens),
    "used twice": (lambda: Sequence(Twice()), tokens),
    "raw parameter": (lambda: Sequence(Raw()), tokens),
    "a subclass of its own": (lambda: Head(nn.Conv2d(2, 4, 3), Loud(4), width=4), image),
    "transposed": (lambda: Head(nn.ConvTranspose2d(2, 3, 3), width=3), image),
}  # fmt: skip
SLOW = {"multi-head attention, rare options"}


def made(name: str):
    torch.manual_seed(0)
    build, draw = CASES[name]
    model = build().double()
    inputs = draw()
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    model.train()
    model(inputs)  # running statistics that are not those of initialisation
    return model.eval(), inputs, torch.randint(0, 3, (COUNT,))


def elsewhere(model: nn.Module) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The model with other weights and statistics, and the state it had: a point must use the state alone."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point():
                value.mul_(1.7).add_(0.1)
    return model, state


def one_at_a_time(model, inputs, labels) -> torch.Tensor:
    trained = [value for value in model.parameters() if value.requires_grad]
    rows = []
    for z in range(len(labels)):
        loss = cross_entropy(model, (inputs[z : z + 1], labels[z : z + 1])).sum()
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, trained)]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", CASES)
def test_a_time_step_equals_one_sample_at_a_time(name, caplog):
    model, inputs, labels = made(name)
    truth = one_at_a_time(model, inputs, labels)
    model, state = elsewhere(model)
    point = Point.of(model, cross_entropy, state)
    batches = [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]
    with caplog.at_level(logging.WARNING):
        step = time_step(point, lambda: batches)
    np.testing.assert_allclose(step.squared_norm[0], truth.square().sum(1), rtol=1e-9)
    np.testing.assert_allclose(step.dot[0], truth @ truth.mean(0), rtol=1e-9, atol=1e-12)
    mean = torch.cat([step.mean_gradient[name].flatten() for name in point.trained])
    torch.testing.assert_close(mean, truth.mean(0), rtol=1e-9, atol=1e-12)
    assert bool(plan_for(point, batches[0]).others) == (name in SLOW)


@pytest.mark.parametrize("name", CASES)
def test_the_second_route_gives_the_same_derivatives(name):
    model, inputs, labels = made(name)
    truth = one_at_a_time(model, inputs, labels)
    model, state = elsewhere(model)
    point = Point.of(model, cross_entropy, state)
    direction = {name: torch.randn_like(value) for name, value in point.trained.items()}
    along = torch.cat([direction[name].flatten() for name in point.trained])
    batch = (inputs, labels)
    dots = backward_derivative(point, knowledge_of(point, batch), batch, direction, compared=False)
    torch.testing.assert_close(dots, truth @ along, rtol=1e-9, atol=1e-12)


def call_of(function, inputs: torch.Tensor, **given) -> Call:
    """A call as the engine sees it, both of whose parameters are differentiated."""
    places = {role: Place((role,)) for role in ("weight", "bias") if given.get(role) is not None}
    return Call(OPERATIONS[function], function, {"input": inputs, **given}, places, len(inputs))


def both_sums(call: Call, b: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Norms and totals by the products of positions and by the gradients themselves, which must be the same."""
    a, b = call.operation.split(call, b)
    direct = {role: (own.flatten(1).square().sum(1), own.sum(0)) for role, own in call.operation.each(call, a, b)}
    quick = call.operation.sums(call, a, b, torch.ones(len(b), dtype=b.dtype))
    for role, squared, total in quick or ():
        torch.testing.assert_close(squared, direct[role][0])
        torch.testing.assert_close(total, direct[role][1])
    return direct


@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_linear_forms_over_shapes(positions, inputs, outputs, batch):
    layer = nn.Linear(inputs, outputs).double()
    a, b = torch.randn(batch, positions, inputs).double(), torch.randn(batch, positions, outputs).double()
    gradients = torch.einsum("bto,bti->boi", b, a)
    parts = both_sums(call_of(F.linear, a, weight=layer.weight, bias=layer.bias), b)
    torch.testing.assert_close(parts["weight"][0], gradients.square().sum((1, 2)))
    torch.testing.assert_close(parts["weight"][1], gradients.sum(0))
    torch.testing.assert_close(parts["bias"][0], b.sum(1).square().sum(1))


@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.booleans(),
    st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_both_forms_of_a_convolution_over_shapes(groups, width, kernel, stride, padding, gram, dimensions):
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    layer = kind(2 * groups, width * groups, kernel, stride, padding, groups=groups).double()
    a = torch.randn(3, 2 * groups, *(6, 5, 4)[:dimensions]).double()
    b = torch.randn_like(layer(a))
    function = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[dimensions]
    call = call_of(function, a, weight=layer.weight, bias=layer.bias, stride=stride, padding=padding, groups=groups)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(convolution, "GRAM_SHARE", torch.inf if gram else 0.0)
        parts = both_sums(call, b)
    for z in range(3):
        weight = torch.autograd.grad((layer(a[z : z + 1]) * b[z : z + 1]).sum(), layer.weight)[0]
        torch.testing.assert_close(parts["weight"][0][z], weight.square().sum())
    whole = torch.autograd.grad((layer(a) * b).sum(), [layer.weight, layer.bias])
    torch.testing.assert_close(parts["weight"][1], whole[0])
    torch.testing.assert_close(parts["bias"][1], whole[1])


def test_embeddings_that_treat_their_gradient_have_no_form():
    table = torch.zeros(5, 2)
    holds = OPERATIONS[F.embedding].holds
    assert holds({"weight": table, "padding_idx": 1})
    assert not holds({"weight": table, "scale_grad_by_freq": True})
    assert not holds({"weight": table, "max_norm": 1.0})


def test_no_gradient_of_a_whole_batch_is_ever_formed():
    """No tensor as large as batch x parameters of the widest layer may appear."""
    model = Head(nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), width=64)
    inputs, labels = torch.randn(256, 16, 8, 8), torch.randint(0, 3, (256,))
    limit = 256 * 64 * 64 * 9
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    point = Point.of(model, cross_entropy)
    plan = plan_for(point, (inputs, labels))
    with Largest():
        sweep_batch(point, plan, (inputs, labels))
    assert 0 < largest < limit / 2
