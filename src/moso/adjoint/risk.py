"""The risk of the user's choice: whose loss, after training, a sample is judged by.

The paper's is the mean loss of the training samples. A validation set, a class, a group or a weighted mixture is a
`SampleRisk` of other samples or other weights; anything else is a function from the network to one number that can be
differentiated.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from moso.adjoint.state import TrainingState, differentiable
from moso.adjoint.statistics import RunningStatistics
from moso.data.views import View, load, split_evenly
from moso.errors import MosoError
from moso.gradients import Loss, evaluation_mode, to_device
from moso.gradients.point import Tensors

RiskFunction = Callable[[nn.Module], torch.Tensor]


@dataclass(frozen=True)
class SampleRisk:
    """A weighted sum of samples' losses in evaluation mode; without `weights: [positions]`, their mean.

    >>> from moso.data.views import as_view
    >>> view = as_view((np.eye(3, dtype=np.float32), [0, 1, 0]))
    >>> SampleRisk(view, np.array([0, 2])).weighted()  # the mean loss of class 0
    array([0.5, 0.5])
    """

    view: View
    positions: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None
    batch_size: int = 256
    loader_workers: int = 0

    def __post_init__(self) -> None:
        if len(self.positions) == 0:
            raise MosoError("a risk needs samples whose losses it is made of, and got none")
        if self.weights is not None and self.weights.shape != (len(self.positions),):
            raise MosoError(
                f"a risk of {len(self.positions)} samples got weights of shape {self.weights.shape}; one each is needed"
            )

    def weighted(self) -> NDArray[np.float64]:
        """The weight of every position."""
        count = len(self.positions)
        return np.full(count, 1 / count) if self.weights is None else np.asarray(self.weights, dtype=np.float64)


Risk = SampleRisk | RiskFunction


def risk_gradients(
    model: nn.Module, state: TrainingState, risk: Risk, loss: Loss, rows: NDArray[np.float64] | None = None
) -> list[tuple[Tensors, Tensors]]:
    """The derivatives of a risk by the parameters and buffers of a state.

    For a `SampleRisk`, `rows: [risks, positions]` are the weights of several risks of the same samples; without them
    there is one, the risk itself.
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in state.trained.items()}
    buffers = {name: value.detach().clone() for name, value in state.buffers.items()}
    moving = {name: value.requires_grad_() for name, value in differentiable(buffers).items()}
    sources = {**leaves, **moving}
    values = {f"model.{name}": value for name, value in {**buffers, **leaves}.items()}
    count = 1 if rows is None else len(rows)
    totals = [{name: torch.zeros_like(value) for name, value in sources.items()} for _ in range(count)]
    with evaluation_mode(model):
        for part in _parts(risk, loss, rows, next(iter(leaves.values())).device):
            with sdpa_kernel(SDPBackend.MATH), RunningStatistics():
                numbers = functional_call(_Asked(model, part), values, ())
            for row, total in enumerate(totals):
                found = torch.autograd.grad(
                    numbers[row], list(sources.values()), retain_graph=row < count - 1, allow_unused=True
                )
                for name, value in zip(sources, found, strict=True):
                    if value is not None:
                        total[name] += value
    return [({name: total[name] for name in leaves}, {name: total[name] for name in moving}) for total in totals]


class _Asked(nn.Module):
    """A network and a question about it as one module, so that `functional_call` can replace its parameters."""

    def __init__(self, model: nn.Module, question: RiskFunction) -> None:
        super().__init__()
        self.model, self.question = model, question

    def forward(self) -> torch.Tensor:
        return self.question(self.model)


def _parts(risk: Risk, loss: Loss, rows: NDArray[np.float64] | None, device: torch.device) -> Iterator[RiskFunction]:
    """Functions of the network that give `[risks]` numbers each, and add up to the risks."""
    if not isinstance(risk, SampleRisk):
        yield _checked(risk)
        return
    weights = risk.weighted()[None] if rows is None else rows
    order = np.arange(len(risk.positions))
    plan = split_evenly(order, risk.batch_size)
    batches = load(risk.view, [risk.positions[rows_of] for rows_of in plan], 0, risk.loader_workers)
    for rows_of, batch in zip(plan, batches, strict=True):
        chosen, here = torch.from_numpy(weights[:, rows_of]), to_device(batch, device)

        def numbers(model: nn.Module, chosen: torch.Tensor = chosen, here: object = here) -> torch.Tensor:
            losses = loss(model, here)
            return chosen.to(losses) @ losses

        yield numbers


def _checked(risk: RiskFunction) -> RiskFunction:
    def number(model: nn.Module) -> torch.Tensor:
        value = risk(model)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise MosoError("a risk must be a tensor of one number that depends on the network's parameters")
        return value.reshape(1)

    return number


def class_weights(labels: NDArray[np.int64], shares: Mapping[int, float]) -> NDArray[np.float64]:
    """Weights of a risk that is a mixture of classes, the mean loss of each times its share.

    >>> class_weights(np.array([0, 1, 1]), {0: 0.5, 1: 0.5})
    array([0.5 , 0.25, 0.25])
    """
    found = np.zeros(len(labels))
    for label, share in shares.items():
        members = labels == label
        if not members.any():
            raise MosoError(f"class {label} has no sample in the risk's set")
        found[members] = share / members.sum()
    return found
