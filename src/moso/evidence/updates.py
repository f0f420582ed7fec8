"""Updates of optimisers, seen where they happen: after `optimizer.step`, before any scheduler, whoever calls it.

An update that changes no weight is no update. When gradients overflow under mixed precision, a `GradScaler` does not
call the optimiser, or (fused optimisers) hands it `found_inf`, and the kernel leaves the weights alone. Without any
gradient every optimiser does.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from moso import errors

# Called with the optimiser, and with whether this is the end of the same update again.
OnUpdate = Callable[[Optimizer, bool], None]
# Proxies of accelerate and Lightning: they pass steps on to the optimiser inside, whose hooks are the ones that run.
_PROXIES = frozenset({"AcceleratedOptimizer", "LightningOptimizer"})


class Watch:
    """Calls `on_update` after every update of the given optimisers, or of all in the process, until `remove`.

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
        """Watch no longer."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # An optimiser may drop gradients as it uses them, so they are looked for before and after; but before a closure
        # they are those of the last batch.
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        self._begun[optimizer] = closure is None and _has_gradients(optimizer)
        self.called.add(optimizer)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # PyTorch hooks the `step` of every class, so a class whose `step` calls that of its parent ends twice.
        again = optimizer not in self._begun
        moves = self._begun.pop(optimizer, False) or _has_gradients(optimizer)
        if moves and not _was_skipped(optimizer):
            self._on_update(optimizer, again)


def _has_gradients(optimizer: Optimizer) -> bool:
    return any(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"])


def _was_skipped(optimizer: Optimizer) -> bool:
    # A GradScaler gives a fused optimiser this tensor for the time of one step.
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and bool(found_inf)


class Unread:
    """The updates that every optimiser of the process made since they were last asked for.

    The rate of an update is known for certain only while it ends: whoever asks later may ask after a scheduler.

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
        # How many updates, and the rates of the last.
        self._updates: WeakKeyDictionary[Optimizer, tuple[int, list[float]]] = WeakKeyDictionary()
        self._watch = Watch(self._note)

    def _note(self, optimizer: Optimizer, again: bool) -> None:
        before, _ = self._updates.get(optimizer, (0, []))
        self._updates[optimizer] = (max(before, 1) if again else before + 1, learning_rates(optimizer))

    def take(self, optimizer: Optimizer) -> tuple[int, list[float]]:
        """How many updates there were, and the rates of the last; asked again, there are none."""
        return self._updates.pop(optimizer, (0, []))

    def missed(self, optimizer: Optimizer) -> bool:
        """Whether the optimiser bears traces of updates, in its state or for its scheduler, but none was seen."""
        traces = bool(optimizer.state) or bool(getattr(optimizer, "_opt_called", False))
        return traces and optimizer not in self._watch.called

    def remove(self) -> None:
        """Note no longer."""
        self._watch.remove()


def learning_rates(optimizer: Optimizer) -> list[float]:
    """The rate of each parameter group."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def moving(group: Mapping[str, Any]) -> list[nn.Parameter]:
    """The parameters of a group that an update moves: frozen ones without a gradient stay where they are."""
    return [one for one in group["params"] if one.requires_grad or one.grad is not None]


def inner_optimizer(given: Any) -> Optimizer:
    """The optimiser whose step is taken, out of the proxies of accelerate and Lightning.

    Raises:
        MosoError: What was given is no optimiser, or one whose step cannot be watched.

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
        raise errors.WrongType(f"a {name} was given for an optimiser; write attach(model, *optimizers)")
    if not isinstance(given, Optimizer):
        raise errors.WrongType(f"{name} is no torch.optim.Optimizer; write (model, optimizer), in this order")
    if "_optimizer_step_post_hooks" not in vars(given) or not getattr(type(given).step, "hooked", False):
        raise errors.RecorderMisused(
            f"{name} does not run the step hooks of torch.optim.Optimizer, so its updates cannot be seen; "
            "record the optimiser inside of it if there is one"
        )
    if any("lr" not in group for group in given.param_groups):
        raise errors.RecorderMisused(f"{name} has a parameter group without 'lr', so its learning rate is unknown")
    return given


def parameters_of(optimizers: Iterable[Optimizer]) -> set[int]:
    """The `id` of every parameter of these optimisers."""
    return {id(one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}
