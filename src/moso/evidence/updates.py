"""Updates of optimisers, seen through hooks: after `optimizer.step`, before any scheduler, whatever calls it.

An update that changes no weight does not count. When gradients overflow under mixed precision, a `GradScaler` does not
call the optimiser, or (fused optimisers) sets `found_inf`, and the kernel leaves the weights unchanged. Without any
gradient every optimiser leaves them unchanged.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from moso import errors

# Called with the optimiser, and with whether the same update ended once before (see `Watch._after`).
OnUpdate = Callable[[Optimizer, bool], None]
# Proxies of accelerate and Lightning forward each step to the optimiser inside, whose hooks run.
_PROXIES = frozenset({"AcceleratedOptimizer", "LightningOptimizer"})


class Watch:
    """Calls `on_update` after every update of the given optimisers, or of all in the process, until `remove`.

    Example:
        >>> import torch
        >>> seen = []
        >>> weight = nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> watch = Watch(lambda stepped, again: seen.append(stepped.param_groups[0]["lr"]), [optimizer])
        >>> optimizer.step()  # no gradient: nothing moves
        >>> weight.grad = torch.ones(1)
        >>> optimizer.step()
        >>> watch.remove()
        >>> optimizer.step()
        >>> seen
        [0.1]
    """

    def __init__(self, on_update: OnUpdate, optimizers: Iterable[Optimizer] | None = None) -> None:
        self._on_update = on_update
        self.called: WeakSet[Optimizer] = WeakSet()
        """The optimisers whose `step` was called, whether it moved anything or not."""
        self._begun: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()
        if optimizers is None:
            self._handles = [
                register_optimizer_step_pre_hook(self._before),
                register_optimizer_step_post_hook(self._after),
            ]
        else:
            self._handles = [
                handle
                for optimizer in optimizers
                for handle in (
                    optimizer.register_step_pre_hook(self._before),
                    optimizer.register_step_post_hook(self._after),
                )
            ]

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # An optimiser may clear gradients as it uses them, so they are looked for before and after the step; with a
        # closure, those before the step belong to the last batch.
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        self._begun[optimizer] = closure is None and _has_gradients(optimizer)
        self.called.add(optimizer)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # PyTorch hooks the `step` of every class, so a `step` that calls its parent's runs this hook twice.
        again = optimizer not in self._begun
        moves = self._begun.pop(optimizer, False) or _has_gradients(optimizer)
        if moves and not _was_skipped(optimizer):
            self._on_update(optimizer, again)


def _has_gradients(optimizer: Optimizer) -> bool:
    return any(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"])


def _was_skipped(optimizer: Optimizer) -> bool:
    # A GradScaler sets this tensor on a fused optimiser for the duration of one step.
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and bool(found_inf)


class Unread:
    """The updates that each optimiser of the process has made since they were last taken.

    The learning rate of an update is known for certain only at its end; afterwards a scheduler may have changed it.

    Example:
        >>> import torch
        >>> weight = nn.Parameter(torch.ones(1))
        >>> optimizer = torch.optim.SGD([weight], lr=0.1)
        >>> unread = Unread()
        >>> weight.grad = torch.ones(1)
        >>> optimizer.step()
        >>> optimizer.param_groups[0]["lr"] = 0.05
        >>> unread.take(optimizer), unread.take(optimizer)
        ((1, [0.1]), (0, []))
        >>> unread.remove()
    """

    def __init__(self) -> None:
        # Number of updates, and the learning rates of the last one.
        self._updates: WeakKeyDictionary[Optimizer, tuple[int, list[float]]] = WeakKeyDictionary()
        self._watch = Watch(self._note)

    def _note(self, optimizer: Optimizer, again: bool) -> None:
        before, _ = self._updates.get(optimizer, (0, []))
        self._updates[optimizer] = (max(before, 1) if again else before + 1, learning_rates(optimizer))

    def take(self, optimizer: Optimizer) -> tuple[int, list[float]]:
        """Return the number of updates since the last call and the learning rates of the last one."""
        return self._updates.pop(optimizer, (0, []))

    def missed(self, optimizer: Optimizer) -> bool:
        """Return whether the optimiser's state shows earlier updates although this watch has seen no call of `step`."""
        traces = bool(optimizer.state) or bool(getattr(optimizer, "_opt_called", False))
        return traces and optimizer not in self._watch.called

    def remove(self) -> None:
        """Stop watching."""
        self._watch.remove()


def learning_rates(optimizer: Optimizer) -> list[float]:
    """Return the learning rate of each parameter group."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def moving(group: Mapping[str, Any]) -> list[nn.Parameter]:
    """Return the parameters of a group that an update moves: frozen parameters without a gradient do not move."""
    return [one for one in group["params"] if one.requires_grad or one.grad is not None]


def inner_optimizer(given: Any) -> Optimizer:
    """Return the optimiser inside the proxies of accelerate and Lightning.

    Raises:
        WrongType: The argument is not an optimiser.
        RecorderMisused: The optimiser's step cannot be watched, or it has no learning rate.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
        >>> inner_optimizer(optimizer) is optimizer
        True
    """
    while any(kind.__name__ in _PROXIES for kind in type(given).__mro__):
        given = given.optimizer
    name = type(given).__name__
    if hasattr(given, "get_last_lr"):
        raise errors.WrongType(f"{name} is a learning-rate scheduler; give the optimiser that it steers")
    if isinstance(given, list | tuple):
        raise errors.WrongType(f"a {name} was given instead of an optimiser; write attach(model, *optimizers)")
    if not isinstance(given, Optimizer):
        raise errors.WrongType(f"{name} is not a torch.optim.Optimizer; write (model, optimizer), in this order")
    if "_optimizer_step_post_hooks" not in vars(given) or not getattr(type(given).step, "hooked", False):
        raise errors.RecorderMisused(
            f"{name} does not run the step hooks of torch.optim.Optimizer, so its updates cannot be seen; "
            "record the optimiser inside of it if there is one"
        )
    if any("lr" not in group for group in given.param_groups):
        raise errors.RecorderMisused(f"{name} has a parameter group without 'lr', so its learning rate is unknown")
    return given


def parameters_of(optimizers: Iterable[Optimizer]) -> set[int]:
    """Return the `id` of every parameter of these optimisers."""
    return {id(one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}
