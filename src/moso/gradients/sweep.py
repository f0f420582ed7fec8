"""One sweep over the data: the mean gradient, and with it the squared norm of every sample's gradient.

The parameters of layers with a closed form are held fixed, so autograd only carries gradients from layer to layer;
each layer's form then gives norms and gradient from the layer's input and output gradient. Parameters that no form
covers, or covers wrongly, are differentiated the slow way; a probe of three samples, one at a time, finds them out.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso.errors import MosoError
from moso.gradients.layers import Form, form_of
from moso.gradients.losses import batch_length, map_tensors, one_of, wide
from moso.gradients.point import Point, Tensors

PROBES = 3
# Gradients of single samples that exist at one time where a layer has no closed form.
CHUNK_BYTES = 256 * 2**20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Site:
    """A layer with a closed form: its place in the model and those of its parameters that are differentiated."""

    name: str
    module: nn.Module
    form: Form

    def parameter(self, own: str) -> str:
        """The model's name of one of the layer's own parameters."""
        return f"{self.name}.{own}" if self.name else own


@dataclass(frozen=True)
class Plan:
    """How each differentiated parameter is treated: `sites` have closed forms, `others` do not."""

    sites: tuple[Site, ...]
    others: tuple[str, ...]
    slow: Callable[[Any], Iterator[Tensors]] | None

    @property
    def covered(self) -> set[str]:
        """The parameters with a closed form."""
        return {site.parameter(own) for site in self.sites for own, _ in site.module.named_parameters(recurse=False)}


def plan_for(point: Point, batch: Any) -> Plan:
    """Find the closed forms that hold for this network and loss, by trying them on the first samples of a batch."""
    probe = first_samples(batch)
    singles = [one_of(probe, number) for number in range(batch_length(probe))]
    _check_separate(point, probe, singles)
    truth = [_gradients_of_one(point, one) for one in singles]
    sites = _candidates(point, probe)
    wrong = _wrong(point, sites, probe, truth)
    sites = tuple(
        site
        for site in sites
        if not any(site.parameter(own) in wrong for own, _ in site.module.named_parameters(recurse=False))
    )
    covered = Plan(sites, (), None).covered
    others = tuple(name for name in point.trained if name not in covered)
    return Plan(sites, others, _slow_route(point.only(others), probe) if others else None)


def first_samples(batch: Any) -> Any:
    """A few samples of a batch, to try something on."""
    return map_tensors(lambda tensor: tensor[:PROBES], batch)


def _check_separate(point: Point, probe: Any, singles: list[Any]) -> None:
    """Refuse a loss in which samples mix: the gradient of one of them would not exist."""
    with torch.no_grad():
        together = wide(point.losses(point.trained, probe))
        apart = [wide(point.losses(point.trained, one)) for one in singles]
    if len(together) != len(singles) or any(len(one) != 1 for one in apart):
        raise MosoError(f"the loss gave {len(together)} values for {len(singles)} samples; it must give one a sample")
    difference = float((together - torch.cat(apart)).abs().max())
    if difference > 1e-3 * (1e-3 + float(together.abs().max())):
        raise MosoError(
            "the loss of a sample depends on the other samples of its batch, so it has no gradient of its own; give a "
            "loss that treats samples one by one (no normalisation over the batch, no pairs)"
        )


def _gradients_of_one(point: Point, one: Any) -> Tensors:
    """Plain autograd on a batch of one: what every other way is measured against."""
    leaves = {name: value.clone().requires_grad_() for name, value in point.trained.items()}
    loss = point.losses(leaves, one).sum()
    gradients = {name: torch.zeros_like(value) for name, value in point.trained.items()}
    if loss.requires_grad:  # a sample may be one that these parameters do not touch
        parts = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        gradients.update({name: part for name, part in zip(leaves, parts, strict=True) if part is not None})
    return gradients


def _candidates(point: Point, probe: Any) -> tuple[Site, ...]:
    """Layers that are called once in a forward pass and share no parameter with another."""
    owners: dict[int, int] = {}
    for module in point.model.modules():
        for value in module._parameters.values():
            if value is not None:
                owners[id(value)] = owners.get(id(value), 0) + 1
    found = []
    for name, module in point.model.named_modules():
        form = form_of(module)
        own = dict(module.named_parameters(recurse=False))
        if form is None or not own or any(owners[id(value)] > 1 for value in own.values()):
            continue
        site = Site(name, module, form)
        # A layer that is half frozen would need half a form; it is left to the slow way.
        if all(site.parameter(part) in point.trained for part in own):
            found.append(site)
    calls: dict[str, int] = {}
    with ExitStack() as hooks:
        for site in found:

            def count(*_: Any, name: str = site.name) -> None:
                calls[name] = calls.get(name, 0) + 1

            hooks.callback(site.module.register_forward_hook(count).remove)
        with torch.no_grad():
            point.losses(point.trained, probe)
    return tuple(site for site in found if calls.get(site.name) == 1)


def _wrong(point: Point, sites: tuple[Site, ...], probe: Any, truth: list[Tensors]) -> set[str]:
    """The parameters for which a closed form does not give what one sample at a time gives."""
    covered = Plan(sites, (), None).covered
    try:
        swept = sweep_batch(point, Plan(sites, (), None), probe)
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as problem:
        announce(f"{type(point.model).__name__}: closed forms of gradients fail here ({problem})")
        return covered
    wrong = set()
    for name in covered:
        expected = torch.stack([wide(one[name]).square().sum() for one in truth])
        total = torch.stack([wide(one[name]) for one in truth]).sum(0)
        if name not in swept.norms:
            wrong.add(name)
            continue
        scale = float(expected.max()) + 1e-30
        size = float(total.abs().max()) + 1e-30
        if (
            float((wide(swept.norms[name]) - expected).abs().max()) > 1e-3 * scale
            or float((wide(swept.total[name]) - total).abs().max()) > 1e-3 * size
        ):
            wrong.add(name)
    if wrong:
        announce(f"{type(point.model).__name__}: {sorted(wrong)[0]} has a closed form that does not hold here")
    return wrong


@dataclass(frozen=True)
class Swept:
    """What one batch gives: sums of gradients, and squared norms `[batch]`, by parameter."""

    total: Tensors
    norms: Tensors


def sweep_batch(point: Point, plan: Plan, batch: Any) -> Swept:
    """One forward and one backward pass: sums of gradients and squared norms of every planned parameter."""
    total: Tensors = {}
    norms: Tensors = {}
    leaves = {name: point.trained[name].clone().requires_grad_() for name in plan.others}

    def visit(site: Site, a: torch.Tensor, b: torch.Tensor, buffers: Tensors) -> None:
        for own, squared, gradient in site.form(site.module, a, b, buffers):
            norms[site.parameter(own)] = squared
            total[site.parameter(own)] = gradient

    with watching(plan, visit):
        losses = point.losses({**point.trained, **leaves}, batch)
        losses.sum().backward()  # type: ignore[no-untyped-call]
    for name, leaf in leaves.items():
        total[name] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    if plan.slow is not None:
        pieces: dict[str, list[torch.Tensor]] = {name: [] for name in plan.others}
        for gradients in plan.slow(batch):
            for name, gradient in gradients.items():
                pieces[name].append(wide(gradient.flatten(1)).square().sum(1))
        norms.update({name: torch.cat(values) for name, values in pieces.items()})
    return Swept(total, norms)


Visit = Callable[[Site, torch.Tensor, torch.Tensor, Tensors], None]


@contextmanager
def watching(plan: Plan, visit: Visit) -> Iterator[None]:
    """While this lasts, `visit(site, a, b, buffers)` sees each site's input, output gradient and buffers.

    It is called in the backward pass, when the network is its own again: the buffers are those of the forward pass.
    """
    visiting = False  # a visit may call the layer itself

    def watch(site: Site) -> Callable[[nn.Module, Any, Any], None]:
        def forward(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            if visiting:
                return
            a = inputs[0].detach()
            version = a._version
            buffers = dict(module.named_buffers(recurse=False))
            if not output.requires_grad:
                output.requires_grad_()  # the first layers: nothing before them is differentiated

            def backward(b: torch.Tensor) -> None:
                if a._version != version:
                    raise RuntimeError(f"the input of {site.name} was overwritten before its gradient was needed")
                nonlocal visiting
                visiting = True
                with torch.no_grad():
                    visit(site, a, b, buffers)
                visiting = False

            output.register_hook(backward)  # type: ignore[no-untyped-call]

        return forward

    with ExitStack() as hooks:
        for site in plan.sites:
            hooks.callback(site.module.register_forward_hook(watch(site)).remove)
        yield


def _slow_route(point: Point, probe: Any) -> Callable[[Any], Iterator[Tensors]]:
    """Gradients of single samples without a closed form: a chunk at a time if `vmap` can, else one by one."""
    per_sample = sum(value.numel() * value.element_size() for value in point.trained.values())
    chunk = max(1, CHUNK_BYTES // per_sample)

    def one_by_one(batch: Any) -> Iterator[Tensors]:
        for number in range(batch_length(batch)):
            gradients = _gradients_of_one(point, one_of(batch, number))
            yield {name: gradient[None] for name, gradient in gradients.items()}

    def chunked(batch: Any) -> Iterator[Tensors]:
        for start in range(0, batch_length(batch), chunk):
            part = map_tensors(lambda tensor: tensor[start : start + chunk], batch)  # noqa: B023 - used at once
            with sdpa_kernel(SDPBackend.MATH):  # the fused kernels of attention know no vmap
                yield together(point.trained, part)

    def loss_of_one(trained: Tensors, one: Any) -> torch.Tensor:
        return point.losses(trained, map_tensors(lambda tensor: tensor[None], one)).sum()

    together = vmap(grad(loss_of_one), in_dims=(None, 0))
    network, some = type(point.model).__name__, next(iter(point.trained))
    try:
        next(chunked(probe))
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        announce(f"{network}: gradients of {some} are taken one sample at a time, which is slow ({problem})")
        return one_by_one
    announce(f"{network}: {len(point.trained)} parameters, {some} among them, have no closed form and cost more")
    return chunked


@cache
def announce(message: str) -> None:
    """Say something once in the life of the process."""
    _log.warning(message.splitlines()[0])
