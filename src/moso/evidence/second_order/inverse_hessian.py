"""Influence on a risk: the change of the risk if a sample had been left out of training, by the inverse Hessian.

At the end of training, with g_z the gradient of a sample's loss, G the mean over the N samples, H the Hessian of the
mean loss with the weight decay and a damping added to its diagonal, and R the risk:

    change(z) = 1 / (N - 1)  grad R^T  (H + damping)^-1  (g_z - G)

At a minimum this is the derivative of the risk by the weight of the sample in the mean of all others, which the adjoint
of the training run (`adjoint/`) has without assuming a minimum. Koh & Liang leave G out and divide by N: another
constant and another factor, the same order.

One linear system is solved for all samples. For the last layer under cross-entropy the Hessian is known exactly from
two factors per sample (`curvature.py`): it is formed and factorised up to FORMED weights, and multiplied by conjugate
gradients above. For all parameters, or another loss, conjugate gradients take Hessian-vector products by automatic
differentiation. Both refuse where they do not converge, or meet a direction in which the loss curves downwards.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.data.views import View, load, split_evenly
from moso.evidence.second_order.curvature import Curvature
from moso.gradients import (
    PROBES,
    Factored,
    Loss,
    Point,
    Risk,
    batch_size_for,
    cross_entropy,
    directional_derivatives,
    gradient_sums,
    last_layer_gradients,
    mean_of,
    risk_gradient,
    to_device,
)
from moso.gradients.estimates.last_layer import head_of
from moso.gradients.point import Batches, Tensors, through

Scope = Literal["head", "all"]
Product = Callable[[torch.Tensor], torch.Tensor]

DAMPING = 0.01
ITERATIONS = 200
TOLERANCE = 1e-4  # of the residual, relative to the right-hand side
FORMED = 1 << 12  # most weights of a last layer whose Hessian is formed
_FACTORS = 1 << 29  # most numbers of the two factors of all samples that are kept in memory
_ROWS = 4096


@dataclass(frozen=True)
class Solver:
    """How the linear system is solved.

    Attributes:
        scope: Parameters whose change is followed: those of the last layer (`head`), or `all`.
        damping: What is added to the diagonal of the Hessian, besides the weight decay.
        weight_decay: Weight decay of the training.
        iterations: Most iterations of conjugate gradients.
        tolerance: Size of the residual at which they stop, relative to the right-hand side.
    """

    scope: Scope = "head"
    damping: float = DAMPING
    weight_decay: float = 0.0
    iterations: int = ITERATIONS
    tolerance: float = TOLERANCE

    @property
    def added(self) -> float:
        """What is added to the diagonal of the Hessian in all.

        Raises:
            SettingInvalid: Nothing is, so directions in which the loss is flat have no inverse.
        """
        found = self.damping + self.weight_decay
        if found <= 0:
            raise errors.SettingInvalid(
                "damping = 0 without weight decay leaves directions in which the loss is flat, whose inverse is "
                f"unbounded; use a damping such as {DAMPING}"
            )
        return found


def risk_influences(
    model: nn.Module,
    view: View,
    positions: NDArray[np.int64],
    *,
    loss: Loss = cross_entropy,
    risk: Risk | None = None,
    solver: Solver | None = None,
    batch_size: int | None = None,
    loader_workers: int = 0,
) -> NDArray[np.float64]:
    """Return the change of the risk if each sample were left out, to first order, shape ``[positions]``.

    Args:
        model: The network at the end of its training on these positions.
        view: Samples, as the network meets them.
        positions: Positions of the training samples.
        loss: One loss per sample of a batch, shape ``[batch]``.
        risk: The risk that samples are judged by; None for the mean loss of the training samples.
        solver: How the linear system is solved.
        batch_size: Samples per batch; by default a size that suits network and device.
        loader_workers: Processes that load batches ahead.

    Raises:
        TooFewSamples: There are fewer than 2 positions.
        NotDifferentiable: Conjugate gradients do not converge, or the loss curves downwards.
        SettingInvalid: Neither damping nor weight decay makes the Hessian invertible.

    Example:
        >>> from moso.data.views import as_view
        >>> view = as_view((np.eye(3, dtype=np.float32), [0, 1, 1]))
        >>> risk_influences(nn.Linear(3, 2), view, np.arange(3)).shape
        (3,)
    """
    if len(positions) < 2:
        raise errors.TooFewSamples(f"{len(positions)} samples cannot leave one out; at least 2 are needed")
    how = solver or Solver()
    whole = Point.of(model, loss)
    point = head_of(whole) if how.scope == "head" else whole
    size = batch_size or batch_size_for(point, to_device(view.batch(positions[:PROBES], 0), point.device))

    def batches() -> Iterable[Batch]:
        return load(view, split_evenly(positions, size), 0, loader_workers)

    total, _ = gradient_sums(point, batches)
    mean = mean_of(point, total, len(positions))
    wanted = mean if risk is None else risk_gradient(point, risk)
    solution = _solved(point, batches, _flat(wanted), how, len(positions))
    direction = _shaped(solution, point.trained)
    along = directional_derivatives(point, batches, direction)[0]
    found = (along - float(_flat(mean) @ solution)) / (len(positions) - 1)
    if not np.isfinite(found).all():
        bad = int(positions[np.argmin(np.isfinite(found))])
        raise errors.ValuesNotFinite(f"the influence of sample {bad} is not finite; look at its input and its loss")
    return np.asarray(found)


def conjugate_gradients(product: Product, wanted: torch.Tensor, how: Solver) -> torch.Tensor:
    """Solve `(H + added) x = wanted`, shape ``[parameters]``.

    Args:
        product: Returns `H v` without what is added to the diagonal.
        wanted: The right-hand side, float64.
        how: Damping, tolerance and most iterations.

    Raises:
        NotDifferentiable: They do not converge, or the matrix is not positive along a direction.

    Example:
        >>> matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        >>> wanted = torch.tensor([1.0, 2.0], dtype=torch.float64)
        >>> found = conjugate_gradients(lambda v: matrix @ v, wanted, Solver(damping=1.0))
        >>> ((matrix + torch.eye(2)) @ found).round(decimals=6).tolist()
        [1.0, 2.0]
    """
    added, size = how.added, float(wanted.norm())
    solution, residual = torch.zeros_like(wanted), wanted.clone()
    direction, squared = residual.clone(), float(residual @ residual)
    for _ in range(how.iterations):
        if squared**0.5 <= how.tolerance * size:
            return solution
        moved = product(direction) + added * direction
        curvature = float(direction @ moved) / float(direction @ direction)
        if not curvature > 0:
            raise errors.NotDifferentiable(
                f"the loss curves downwards ({curvature:.3g} along a direction, with damping = {how.damping:g} added), "
                "so the network is not at a minimum; train it longer, or use a damping above "
                f"{how.damping - curvature:.2g} (influence.damping)"
            )
        step = squared / float(direction @ moved)
        solution += step * direction
        residual -= step * moved
        before, squared = squared, float(residual @ residual)
        direction = residual + squared / before * direction
    if squared**0.5 <= how.tolerance * size:
        return solution
    raise errors.NotDifferentiable(
        f"conjugate gradients left {squared**0.5 / size:.2g} of the right-hand side after {how.iterations} iterations "
        f"with damping = {how.damping:g}, where {how.tolerance:g} is allowed; use a larger damping (influence.damping) "
        "or more iterations (influence.iterations)"
    )


def _solved(point: Point, batches: Batches, wanted: torch.Tensor, how: Solver, samples: int) -> torch.Tensor:
    if not float(wanted.norm()) > 0:
        return torch.zeros_like(wanted)  # nothing changes the risk
    width = sum(value.shape[-1] + value.shape[0] for value in point.trained.values() if value.ndim == 2)
    if how.scope == "head" and point.loss is cross_entropy and samples * width <= _FACTORS:
        factors = last_layer_gradients(point, batches)
        count = factors.b.shape[1] * (factors.a.shape[1] + factors.bias)
        if count <= FORMED:
            return _formed(factors, wanted, how.added)
        return conjugate_gradients(_of_factors(factors), wanted, how)
    return conjugate_gradients(_by_differentiation(point, batches, samples), wanted, how)


def _formed(factors: Factored, wanted: torch.Tensor, added: float) -> torch.Tensor:
    """Solve by a Cholesky factor of the whole matrix; `wanted` is the weight and then the bias, flat."""
    wide = Factored(factors.a.double(), factors.b.double(), factors.bias)
    curvature = Curvature.of(wide, exact=True, damping=0.0, weight_decay=added)
    solution = curvature.solve(_with_bias(wanted, wide).to(wide.a)[None])[0]
    return _without_bias(solution, wide).to(wanted)


def _of_factors(factors: Factored) -> Product:
    """Return `v -> mean_z (diag(p) - p p^T) V a a^T`, in blocks of samples and float64."""

    def product(v: torch.Tensor) -> torch.Tensor:
        along = _with_bias(v.cpu(), factors)
        found = torch.zeros_like(along)
        for part in factors.blocks(_ROWS):
            a, b = part.a.double(), part.b.double()
            p = b + torch.nn.functional.one_hot(b.argmin(1), b.shape[1])
            a = torch.cat([a, torch.ones_like(a[:, :1])], 1) if factors.bias else a
            outputs = a @ along.T
            curved = p * (outputs - (p * outputs).sum(1, keepdim=True))
            found += curved.T @ a
        return _without_bias(found / len(factors), factors).to(v)

    return product


def _with_bias(flat: torch.Tensor, factors: Factored) -> torch.Tensor:
    out, width = factors.b.shape[1], factors.a.shape[1]
    weight = flat[: out * width].view(out, width)
    return torch.cat([weight, flat[out * width :, None]], 1) if factors.bias else weight


def _without_bias(matrix: torch.Tensor, factors: Factored) -> torch.Tensor:
    width = factors.a.shape[1]
    return torch.cat([matrix[:, :width].flatten(), matrix[:, width:].flatten()])


def _by_differentiation(point: Point, batches: Batches, samples: int) -> Product:
    """Return `v -> H v` of the mean loss by differentiating its gradient along v, batch by batch."""

    def product(v: torch.Tensor) -> torch.Tensor:
        along, found = _shaped(v, point.trained), torch.zeros_like(v)
        for batch in through(point, batches):
            leaves = {name: value.detach().clone().requires_grad_() for name, value in point.trained.items()}
            total = point.losses(leaves, batch).sum() / samples
            first = torch.autograd.grad(total, list(leaves.values()), create_graph=True)
            # A parameter whose gradient is constant leaves nothing to differentiate.
            parts = [(one * along[name]).sum() for name, one in zip(leaves, first, strict=True) if one.requires_grad]
            if parts:
                second = torch.autograd.grad(torch.stack(parts).sum(), list(leaves.values()), materialize_grads=True)
                found += torch.cat([one.flatten() for one in second]).to(found)
        return found

    return product


def _flat(tensors: Tensors) -> torch.Tensor:
    return torch.cat([value.flatten() for value in tensors.values()]).double()


def _shaped(flat: torch.Tensor, like: Tensors) -> Tensors:
    parts = torch.split(flat, [value.numel() for value in like.values()])
    return {name: part.view(value.shape).to(value) for part, (name, value) in zip(parts, like.items(), strict=True)}
