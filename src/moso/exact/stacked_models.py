"""Copies of one network that train together: each parameter of all copies is one stacked tensor.

All copies start from the same state and see the same batches; each copy weighs the losses of a batch differently. An
update equals that of the training loop, applied to each copy.
"""

import copy
import logging

import torch
from torch import nn
from torch.func import functional_call, vmap

from moso.batch import Batch
from moso.evidence import State
from moso.evidence.moments import Moments
from moso.gradients import Loss, map_tensors, to_device
from moso.gradients.losses import LossModule
from moso.training.optimizers import Slots, Tensors, descend, held_moments, rate_factors
from moso.training.recipe import TrainingRecipe

# Memory of one stack of models; small stacks also make better use of the processor's caches.
BLOCK_BYTES = 128 * 2**20
_log = logging.getLogger(__name__)


def at_precision(model: nn.Module, loss: Loss, dtype: torch.dtype) -> tuple[nn.Module, Loss]:
    """Return a copy of the network in `dtype`, and the loss with its floating-point inputs cast to `dtype`.

    Example:
        >>> from moso.gradients import cross_entropy
        >>> network, loss = at_precision(nn.Linear(2, 2), cross_entropy, torch.float64)
        >>> loss(network, (torch.zeros(3, 2), torch.tensor([0, 1, 0]))).dtype
        torch.float64
    """

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    def converted_loss(network: nn.Module, batch: Batch) -> torch.Tensor:
        return loss(network, map_tensors(convert, batch))

    return copy.deepcopy(model).to(dtype), converted_loss


class StackedModels:
    """`count` copies of a network, trained together with `vmap`.

    Args:
        model: Gives architecture and initial state; not changed.
        loss: Loss per sample.
        count: Number of copies.
        recipe: Gives the update rule.
        together: False for a network that `vmap` does not support; there must then be a single copy.

    Example:
        >>> from moso.gradients import cross_entropy
        >>> recipe = TrainingRecipe(epochs=1, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> pair = StackedModels(nn.Linear(2, 2), cross_entropy, 2, recipe)
        >>> batch = (torch.eye(2), torch.tensor([0, 1]))
        >>> pair.step(batch, torch.tensor([[0.5, 0.5], [1.0, 0.0]]), learning_rate=0.1).shape
        torch.Size([2])
        >>> bool((pair.trained["weight"][0] == pair.trained["weight"][1]).all())
        False
    """

    def __init__(self, model: nn.Module, loss: Loss, count: int, recipe: TrainingRecipe, together: bool = True) -> None:
        """Stack the parameters and buffers of the network `count` times."""
        assert together or count == 1
        self.model = copy.deepcopy(model)
        self.count = count
        self.recipe = recipe
        self.together = together
        self.device = next(self.model.parameters()).device
        self._module = LossModule(self.model, loss)
        parameters, buffers = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        self.trained = {name: self._stacked(value) for name, value in parameters.items() if value.requires_grad}
        self.buffers = {name: self._stacked(value) for name, value in buffers.items()}
        self.factors = rate_factors(self.model, recipe)
        self._slots: Slots = {}
        self._counts: dict[str, int] = {}
        # A tensor shared under two names is trained once, but occurs twice in the state.
        names = {id(value): name for name, value in {**buffers, **parameters}.items()}
        kept = self.model.state_dict(keep_vars=True)
        self._names = {name: names[id(value)] for name, value in kept.items()}
        self._fixed = {name: value for name, value in parameters.items() if not value.requires_grad}

    def _stacked(self, value: torch.Tensor) -> torch.Tensor:
        return value.detach().expand(self.count, *value.shape).clone()

    def step(self, batch: Batch, weights: torch.Tensor, learning_rate: float) -> torch.Tensor:
        """Make one update of every network.

        Args:
            batch: The common batch.
            weights: Weight of each loss for each network, shape ``[models, batch]``.
            learning_rate: Learning rate of the update.

        Returns:
            The weighted losses before the update, shape ``[models]``.
        """
        self.model.train()
        leaves = {name: value.detach().requires_grad_() for name, value in self.trained.items()}
        losses, self.buffers = self._losses(leaves, to_device(batch, self.device))
        weighted = (weights.to(losses) * losses).sum(dim=1)
        # The networks share no parameters, so the gradient of the summed loss contains each network's own gradient.
        parts = torch.autograd.grad(weighted.sum(), list(leaves.values()), allow_unused=True)
        with torch.no_grad():
            self._descend(
                {name: part for name, part in zip(leaves, parts, strict=True) if part is not None}, learning_rate
            )
        return weighted.detach()

    @torch.no_grad()
    def losses(self, batch: Batch) -> torch.Tensor:
        """Return the losses of every network in evaluation mode, shape ``[models, batch]``."""
        self.model.eval()
        return self._losses(self.trained, to_device(batch, self.device))[0]

    def groups(self, rate: float) -> tuple[tuple[float, ...], tuple[tuple[str, ...], ...]]:
        """Return learning rates and parameters' names per group at a rate of the classifier; one group has no names."""
        if not self.factors:
            return (rate,), ()
        found: dict[float, list[str]] = {}
        for name in self.trained:
            found.setdefault(self.factors.get(name, 1.0), []).append(name)
        return tuple(rate * factor for factor in found), tuple(tuple(names) for names in found.values())

    def state(self, number: int) -> State:
        """Return the parameters and buffers of one network under the names of its `state_dict`."""
        values = {name: value[number] for name, value in {**self.trained, **self.buffers}.items()}
        values.update(self._fixed)
        return {name: values[own].detach().clone() for name, own in self._names.items()}

    def moments(self, number: int) -> Moments:
        """Return the moments of one network's optimiser after the last update."""
        own = {name: value[number] for name, value in self.trained.items()}
        slots = {slot: {name: one[number] for name, one in part.items()} for slot, part in self._slots.items()}
        return held_moments(self.recipe, self._counts, own, slots)

    def _losses(self, trained: Tensors, batch: Batch) -> tuple[torch.Tensor, Tensors]:
        def of_one(trained: Tensors, buffers: Tensors) -> tuple[torch.Tensor, Tensors]:
            state = {f"model.{name}": value for name, value in {**trained, **buffers}.items()}
            losses = functional_call(self._module, state, (batch,))
            return losses, {name: state[f"model.{name}"] for name in buffers}

        if self.together:
            # "same": dropout draws one mask for all networks, so that they differ by their loss weights only.
            losses, buffers = vmap(of_one, randomness="same")(trained, self.buffers)
            return losses, buffers
        losses, buffers = of_one(
            *({name: value[0] for name, value in stack.items()} for stack in (trained, self.buffers))
        )
        return losses[None], {name: value[None] for name, value in buffers.items()}

    def _descend(self, gradients: Tensors, learning_rate: float) -> None:
        state = (self._counts, self.trained, gradients, self._slots)
        moved, slots = descend(self.recipe, learning_rate, *state, copies=True, factors=self.factors)
        self.trained |= moved
        for slot, values in slots.items():
            self._slots.setdefault(slot, {}).update(values)
        self._counts |= {name: self._counts.get(name, 0) + 1 for name in moved}


def runs_together(model: nn.Module, loss: Loss, batch: Batch, recipe: TrainingRecipe) -> bool:
    """Return whether copies of this network can be stacked with `vmap`; log a warning if they cannot.

    Args:
        model: The network.
        loss: Loss per sample.
        batch: A batch to try.
        recipe: Gives the update rule.

    Example:
        >>> from moso.gradients import cross_entropy
        >>> recipe = TrainingRecipe(epochs=1, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> runs_together(nn.Linear(2, 2), cross_entropy, (torch.eye(2), torch.tensor([0, 1])), recipe)
        True
    """
    # Run one copy first: an error of the user's loss or network surfaces here, not as a failure of vmap.
    one = StackedModels(model, loss, 1, recipe, together=False)
    weights = torch.full_like(one.losses(batch), 0.5)
    one.step(batch, weights, learning_rate=0.0)
    try:
        StackedModels(model, loss, 2, recipe).step(batch, weights.expand(2, -1), learning_rate=0.0)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        reason = str(problem).splitlines()[0]
        _log.warning("%s: its copies train one by one, which is slow (%s)", type(model).__name__, reason)
        return False
    return True


def models_that_fit(model: nn.Module, loss: Loss, batch: Batch) -> int:
    """Return how many copies fit in `BLOCK_BYTES` when trained on such batches, measured on one forward pass.

    Example:
        >>> from moso.gradients import cross_entropy
        >>> models_that_fit(nn.Linear(2, 2), cross_entropy, (torch.eye(2), torch.tensor([0, 1]))) > 1_000
        True
    """
    saved = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal saved
        saved += tensor.numel() * tensor.element_size()
        return tensor

    network = copy.deepcopy(model).train()
    device = next(network.parameters()).device
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        loss(network, to_device(batch, device))
    own: int = sum(value.numel() * value.element_size() for value in network.state_dict().values())
    # State, gradient, momentum and two temporaries of an update make 5; the backward pass needs as much memory again
    # as the forward pass saved.
    return max(1, BLOCK_BYTES // (5 * own + 2 * saved))
