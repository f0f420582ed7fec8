"""Batch-norm with differentiable running statistics.

PyTorch updates running statistics in place and outside of autograd, and reads them in evaluation mode as constants.
While this mode is active, `F.batch_norm` is replaced by explicit formulas: in training mode

    y = (x - mean) / sqrt(var + eps) * weight + bias
    running' = (1 - momentum) * running + momentum * (mean, or var * n / (n - 1))

and in evaluation mode the same `y` with the running statistics in place of the batch's.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from moso.adjoint.batch_norm import Normalise

_NAMES = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_DEFAULTS = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}


class RunningStatistics(TorchFunctionMode):
    """Replaces batch-norm by a differentiable one; `after(tensor)` is the updated value of a running statistic.

    Example:
        >>> layer = torch.nn.BatchNorm1d(2)
        >>> with RunningStatistics() as statistics:
        ...     _ = layer(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
        >>> layer.running_mean.tolist(), statistics.after(layer.running_mean).detach()
        ([0.0, 0.0], tensor([0.1000, 0.2000]))
    """

    def __init__(self) -> None:
        super().__init__()
        # The buffer is kept alive with its new value, because an id is unique only among living objects.
        self._updated: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def after(self, statistic: torch.Tensor) -> torch.Tensor:
        """Return the value of a buffer after the calls so far; the buffer itself if no call updated it."""
        return self._updated.get(id(statistic), (statistic, statistic))[1]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not F.batch_norm:
            return func(*args, **(kwargs or {}))
        return self._batch_norm(**{**_DEFAULTS, **dict(zip(_NAMES, args, strict=False)), **(kwargs or {})})

    def _batch_norm(
        self,
        input: torch.Tensor,  # noqa: A002 - PyTorch's name
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        training: bool,
        momentum: float,
        eps: float,
    ) -> torch.Tensor:
        if training:
            channels = input.new_ones(input.shape[1])
            result, mean, var = Normalise.apply(  # type: ignore[no-untyped-call]
                input, channels if weight is None else weight, 0 * channels if bias is None else bias, eps
            )
            count = input.numel() // input.shape[1]
            if running_mean is not None:
                self._update(running_mean, mean, momentum)
            if running_var is not None:
                self._update(running_var, var * (count / (count - 1)), momentum)
            return result  # type: ignore[no-any-return]
        assert running_mean is not None, "evaluation mode has statistics to evaluate by"
        assert running_var is not None
        mean, var = self.after(running_mean), self.after(running_var)
        scale = torch.rsqrt(var + eps)
        if weight is not None:
            scale = scale * weight
        shape = (1, -1, *[1] * (input.ndim - 2))
        result = (input - mean.view(shape)) * scale.view(shape)
        return result if bias is None else result + bias.view(shape)

    def _update(self, statistic: torch.Tensor, value: torch.Tensor, momentum: float) -> None:
        self._updated[id(statistic)] = (statistic, torch.lerp(self.after(statistic), value, momentum))
