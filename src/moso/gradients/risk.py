"""The risk of the user's choice: the loss that a sample's usefulness is judged by.

The paper's risk is the mean loss of the training samples. A validation set, a class, a group or a weighted mixture is a
`SampleRisk` with other samples or other weights. Anything else is a function from the network to one differentiable
number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from moso import errors
from moso.data.views import Collate, View, as_view, load, split_evenly
from moso.gradients.losses import Loss, to_device
from moso.gradients.point import Point, Tensors, evaluation_mode
from moso.tasks import cross_entropy

RiskFunction = Callable[[nn.Module], torch.Tensor]


@dataclass(frozen=True)
class SampleRisk:
    """A weighted sum of samples' losses in evaluation mode.

    Attributes:
        view: The data.
        positions: The samples whose losses are summed, shape ``[positions]``.
        weights: Their weights, shape ``[positions]``; None for the mean.
        batch_size: Samples per forward pass.
        loader_workers: Number of data loader processes.

    Raises:
        DataEmpty: There are no positions.
        ShapeMismatch: There is not one weight per position.

    Example:
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
            raise errors.DataEmpty("a risk needs samples whose losses it is made of, and got none")
        if self.weights is not None and self.weights.shape != (len(self.positions),):
            raise errors.ShapeMismatch(
                f"a risk of {len(self.positions)} samples got weights of shape {self.weights.shape}; one each is needed"
            )

    @classmethod
    def of(
        cls,
        data: object,
        positions: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        *,
        loss: Loss | None = None,
        collate: Collate | None = None,
    ) -> "SampleRisk":
        """Create the risk of any data that `moso.score` takes.

        Args:
            data: The data.
            positions: The samples to use; by default all.
            weights: One weight per position; by default the mean.
            loss: The loss that samples are scored with, if it is the user's own: batches are then what the data and
                `collate` make them.
            collate: Makes a batch from a list of items, as in a `DataLoader`.

        Example:
            >>> len(SampleRisk.of((np.eye(3, dtype=np.float32), [0, 1, 0])).positions)
            3
        """
        view = as_view(data, collate, None if loss is cross_entropy else loss)
        chosen = np.arange(len(view)) if positions is None else np.asarray(positions, dtype=np.int64)
        return cls(view, chosen, None if weights is None else np.asarray(weights, dtype=np.float64))

    def weighted(self) -> NDArray[np.float64]:
        """Return the weight of every position, shape ``[positions]``."""
        count = len(self.positions)
        return np.full(count, 1 / count) if self.weights is None else np.asarray(self.weights, dtype=np.float64)


Risk = SampleRisk | RiskFunction


def risk_gradient(point: Point, risk: Risk) -> Tensors:
    """Compute the gradient of a risk with respect to a point's parameters, with the network in evaluation mode.

    Args:
        point: The network.
        risk: The risk to differentiate.

    Returns:
        The gradient, by parameter name; zeros where the risk does not depend on a parameter.

    Raises:
        RiskInvalid: The risk is a function that does not return one differentiable number.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> model = nn.Linear(2, 2)
        >>> risk_gradient(Point.of(model, cross_entropy), lambda network: network.weight.sum())["weight"]
        tensor([[1., 1.],
                [1., 1.]])
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in point.trained.items()}
    values = point.values(leaves)
    total = {name: torch.zeros_like(value) for name, value in leaves.items()}
    with evaluation_mode(point.model):
        for part in risk_parts(risk, point.loss, None, point.device):
            number = functional_call(Asked(point.model, part), values, (), tie_weights=False)[0]
            found = torch.autograd.grad(number, list(leaves.values()), allow_unused=True)
            for name, value in zip(leaves, found, strict=True):
                if value is not None:
                    total[name] += value
    return total


class Asked(nn.Module):
    """A network and a function of it as one module, so that `functional_call` can replace the network's tensors."""

    def __init__(self, model: nn.Module, question: RiskFunction) -> None:
        super().__init__()
        self.model, self.question = model, question

    def forward(self) -> torch.Tensor:
        """Return the value of the function."""
        return self.question(self.model)


def risk_parts(
    risk: Risk, loss: Loss, rows: NDArray[np.float64] | None, device: torch.device
) -> Iterator[RiskFunction]:
    """Split risks into functions of the network, one per batch, that return ``[risks]`` numbers and sum to the risks.

    Args:
        risk: The risk.
        loss: Returns one loss per sample.
        rows: Weights of several risks of the same samples, shape ``[risks, positions]``; None for the risk alone.
        device: Where the network is.
    """
    if not isinstance(risk, SampleRisk):
        yield _checked(risk)
        return
    weights = risk.weighted()[None] if rows is None else rows
    plan = split_evenly(np.arange(len(risk.positions)), risk.batch_size)
    batches = load(risk.view, [risk.positions[members] for members in plan], 0, risk.loader_workers)
    for members, batch in zip(plan, batches, strict=True):
        chosen, here = torch.from_numpy(weights[:, members]), to_device(batch, device)

        def numbers(model: nn.Module, chosen: torch.Tensor = chosen, here: object = here) -> torch.Tensor:
            losses = loss(model, here)
            return chosen.to(losses) @ losses

        yield numbers


def _checked(risk: RiskFunction) -> RiskFunction:
    def number(model: nn.Module) -> torch.Tensor:
        value = risk(model)
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
            raise errors.RiskInvalid("a risk must be a tensor of one number that depends on the network's parameters")
        return value.reshape(1)

    return number


def class_weights(labels: NDArray[np.int64], shares: Mapping[int, float]) -> NDArray[np.float64]:
    """Return the weights of a mixture of classes: the mean loss of each class times its share.

    Args:
        labels: The class of each sample, shape ``[samples]``.
        shares: The share of each class; other classes have weight 0.

    Raises:
        DataEmpty: A class of `shares` has no sample.

    Example:
        >>> class_weights(np.array([0, 1, 1]), {0: 0.5, 1: 0.5})
        array([0.5 , 0.25, 0.25])
    """
    found = np.zeros(len(labels))
    for label, share in shares.items():
        members = labels == label
        if not members.any():
            raise errors.DataEmpty(f"class {label} has no sample in the risk's set")
        found[members] = share / members.sum()
    return found
