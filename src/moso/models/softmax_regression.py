"""Softmax regression: a convex problem, on which approximations can be compared with exact results."""

from math import prod

from torch import Tensor, nn


class SoftmaxRegression(nn.Module):
    """One linear layer over the flattened input.

    Example:
        >>> import torch
        >>> SoftmaxRegression((1, 8, 8), classes=10)(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(prod(input_shape), classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of inputs `[batch, ...]`."""
        logits: Tensor = self.classifier(inputs.flatten(1))
        return logits
