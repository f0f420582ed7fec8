"""Networks of fully connected layers, for inputs of any shape."""

from math import prod

from torch import Tensor, nn


class MultilayerPerceptron(nn.Module):
    """Two hidden layers of `width` rectified units.

    Args:
        input_shape: Shape of one input.
        classes: Number of outputs.
        width: Units per hidden layer.

    Example:
        >>> import torch
        >>> MultilayerPerceptron((64,), classes=10, width=32)(torch.zeros(2, 64)).shape
        torch.Size([2, 10])
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        self.hidden1 = nn.Linear(prod(input_shape), width)
        self.relu1 = nn.ReLU()
        self.hidden2 = nn.Linear(width, width)
        self.relu2 = nn.ReLU()
        self.classifier = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of inputs `[batch, ...]`."""
        features = self.relu1(self.hidden1(inputs.flatten(1)))
        logits: Tensor = self.classifier(self.relu2(self.hidden2(features)))
        return logits


class _OneHiddenLayer(nn.Module):
    """One hidden layer of `width` units, and a classifier."""

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.hidden = nn.Linear(prod(input_shape), width)
        self.activation = activation
        self.classifier = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of inputs `[batch, ...]`."""
        logits: Tensor = self.classifier(self.activation(self.hidden(inputs.flatten(1))))
        return logits


class PerceptronHead(_OneHiddenLayer):
    """One hidden layer of `width` rectified units: a head for features that is not linear.

    Args:
        input_shape: Shape of one input.
        classes: Number of outputs.
        width: Units of the hidden layer.

    Example:
        >>> import torch
        >>> PerceptronHead((256,), classes=10, width=128)(torch.zeros(2, 256)).shape
        torch.Size([2, 10])
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__(input_shape, classes, width, nn.ReLU())


class TanhNetwork(_OneHiddenLayer):
    """One hidden layer of `width` tanh units; it is smooth, as leave-one-out studies need it.

    Args:
        input_shape: Shape of one input.
        classes: Number of outputs.
        width: Units of the hidden layer.

    Example:
        >>> import torch
        >>> TanhNetwork((64,), classes=10, width=16)(torch.zeros(2, 64)).shape
        torch.Size([2, 10])
    """

    def __init__(self, input_shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__(input_shape, classes, width, nn.Tanh())
