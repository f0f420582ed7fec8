"""Influences: how the parameters of a trained network would change without each sample, `[samples, numbers]`.

To first order around the end of training, with g_z the gradient of the sample's loss and H the Hessian of the mean loss
over the N samples,

    s_z = (w without z) - w = 1/N H^-1 g_z

The parameters are those of the last layer (`last-layer`), where H is exact, invertible and positive semidefinite; or
those of the whole network (`all`), through sketches (random projections). An array of size samples x parameters is
never formed: with P a matrix of `numbers` rows of random signs,

    last-layer    P H^-1 g_z = (H^-1 P^T)^T g_z      `numbers` systems are solved once, then one product per sample
    all           F^-1 P g_z,  F = mean P g_z (P g_z)^T      the empirical Fisher matrix of the sketches themselves

For a last layer, norms and inner products of influences are unbiased, with a relative error of about one over the
square root of `numbers`; a layer with at most `numbers` weights is not projected at all. For a last layer of more than
`SOLVED` weights the Hessian is approximated by a Kronecker product (`curvature.py`). For `all`, the inverse is taken
after the projection, so only the ranking of the norms can be trusted.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View, load, split_evenly
from moso.evidence.second_order.curvature import Curvature, with_one
from moso.gradients import (
    PROBES,
    Factored,
    Loss,
    Point,
    batch_size_for,
    cross_entropy,
    last_layer_gradients,
    sketches,
    to_device,
)
from moso.randomness import generator

Scope = Literal["last-layer", "all"]
Projected = Callable[[Factored], torch.Tensor]

NUMBERS = 512
DAMPING = 0.1  # share of the mean eigenvalue
CURVATURE_SAMPLES = 4096
SOLVED = 1 << 14  # most weights of a last layer whose Hessian is formed, which takes one gibibyte
_ROWS = 4096  # samples per block
_OUTER = 1 << 24  # most gradient entries in memory at one time


def influences(
    model: nn.Module,
    view: View,
    positions: NDArray[np.int64],
    *,
    loss: Loss = cross_entropy,
    state: Mapping[str, torch.Tensor] | None = None,
    parameters: Scope = "last-layer",
    numbers: int = NUMBERS,
    damping: float = DAMPING,
    weight_decay: float = 0.0,
    curvature_samples: int = CURVATURE_SAMPLES,
    seed: int = 0,
    batch_size: int | None = None,
    loader_workers: int = 0,
) -> NDArray[np.float32]:
    """Return the change of the parameters without each sample, shape `[positions, at most numbers]`.

    Args:
        model: The network at the end of its training on these positions, or the architecture for `state`.
        view: Samples, as the network meets them.
        positions: Positions of the training samples, which give the order of the rows.
        loss: One loss per sample of a batch, shape `[batch]`.
        state: Parameters and buffers to use in place of the model's own.
        parameters: `last-layer`, or `all` through sketches.
        numbers: Dimension of the random projection.
        damping: Share of the mean eigenvalue that is added to the Hessian's diagonal.
        weight_decay: Weight decay of the training.
        curvature_samples: Most samples that the last layer's Hessian is averaged over.
        seed: Seed of the projection and of the Hessian's samples.
        batch_size: Samples per batch; by default a size that suits network and device.
        loader_workers: Processes that load batches ahead.

    Raises:
        DataEmpty: There are no positions.
        ValuesNotFinite: A gradient is not finite.
        SettingInvalid: Neither damping nor weight decay makes the Hessian invertible.

    Example:
        >>> from moso.data.views import as_view
        >>> view = as_view((np.eye(3, dtype=np.float32), [0, 1, 1]))
        >>> influences(nn.Linear(3, 2), view, np.arange(3)).shape
        (3, 8)
    """
    if len(positions) == 0:
        raise errors.DataEmpty("there is no sample whose influence could be computed")
    point = Point.of(model, loss, state)
    size = batch_size or batch_size_for(point, to_device(view.batch(positions[:PROBES], 0), point.device))

    def batches(chosen: NDArray[np.int64]) -> Any:
        return lambda: load(view, split_evenly(chosen, size), 0, loader_workers)

    if parameters == "all":
        sketched = sketches(point, batches(positions), numbers=numbers, seed=seed)
        # Projecting to fewer numbers scales up a multiple of the identity, such as the weight decay.
        flat = weight_decay * sum(value.numel() for value in point.trained.values()) / sketched.shape[1]
        _check_finite(sketched.numpy(), positions)
        return _through_sketches(sketched, damping, flat).div_(len(positions)).numpy()
    some = generator(seed, "opt", "curvature", len(positions)).permutation(len(positions))[:curvature_samples]
    curvature = Curvature.of(
        last_layer_gradients(point, batches(positions[np.sort(some)])),
        exact=loss is cross_entropy,
        damping=damping,
        weight_decay=weight_decay,
    )
    out, width = curvature.shape
    project = (_solved if out * width <= SOLVED else _halves)(curvature, numbers, seed)
    found: NDArray[np.float32] | None = None
    for start in range(0, len(positions), _ROWS):
        chosen = positions[start : start + _ROWS]
        rows = project(last_layer_gradients(point, batches(chosen))) / len(positions)
        found = np.empty((len(positions), rows.shape[1]), dtype=np.float32) if found is None else found
        found[start : start + len(chosen)] = rows.numpy()
    assert found is not None
    _check_finite(found, positions)
    return found


def _solved(curvature: Curvature, numbers: int, seed: int) -> Projected:
    """Return a function for `(H^-1 P^T)^T g_z`; the linear systems are solved here, once."""
    out, width = curvature.shape
    if out * width <= numbers:
        signs = torch.eye(out * width)
    else:
        signs = _signs((numbers, out * width), seed, "both") / numbers**0.5
    directions = curvature.solve(signs.to(curvature.a).view(-1, out, width)).flatten(1).T.contiguous()

    def project(factors: Factored) -> torch.Tensor:
        rows = []
        for part in factors.blocks(max(1, _OUTER // (out * width))):
            gradients = part.b[:, :, None] * with_one(part)[:, None]
            rows.append(gradients.flatten(1) @ directions)
        return torch.cat(rows)

    return project


def _halves(curvature: Curvature, numbers: int, seed: int) -> Projected:
    """Return the same function with Kronecker products for both the Hessian and P, which keeps the factors apart."""
    out, width = curvature.shape
    left, right = curvature.sides()
    k = min(out, round(numbers**0.5))
    j = min(width, numbers // k)
    seen_left = left @ _signs((k, out), seed, "left").to(left).T / k**0.5
    seen_right = right @ _signs((j, width), seed, "right").to(right).T / j**0.5

    def project(factors: Factored) -> torch.Tensor:
        left_side, right_side = factors.b @ seen_left, with_one(factors) @ seen_right
        products: torch.Tensor = left_side[:, :, None] * right_side[:, None]
        return products.flatten(1)

    return project


def _through_sketches(sketched: torch.Tensor, damping: float, flat: float) -> torch.Tensor:
    """Return `F^-1 s_z` in place; `flat` is what the weight decay adds to every eigenvalue."""
    count, width = sketched.shape
    fisher = torch.zeros(width, width, dtype=torch.float64)
    for part in torch.split(sketched, _ROWS):
        fisher += part.double().T @ part.double() / count
    added = damping * float(fisher.trace()) / width + flat
    inverse = torch.linalg.inv(fisher + added * torch.eye(width, dtype=torch.float64)).to(sketched)
    for part in torch.split(sketched, _ROWS):
        part.copy_(part @ inverse)
    return sketched


def _signs(shape: tuple[int, int], seed: int, name: str) -> torch.Tensor:
    return torch.from_numpy(generator(seed, "opt", name).integers(0, 2, shape, dtype=np.int8)).float() * 2 - 1


def _check_finite(rows: NDArray[np.float32], positions: NDArray[np.int64]) -> None:
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        first = positions[np.argmax(bad)]
        raise errors.ValuesNotFinite(f"the gradient of sample {first} is not finite; look at its input and its loss")
