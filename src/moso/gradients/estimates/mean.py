"""The mean gradient `G` alone: ordinary backward passes, with batch-norm folded into the convolutions before it.

Folded convolutions are differentiated with respect to their folded weight, and one vector-Jacobian product at the very
end leads from there to the gradients of the convolution and its batch-norm. Gradients accumulate in `.grad`, so that
only one gradient of the size of the network exists.
"""

import torch
from torch.overrides import BaseTorchFunctionMode

from moso import errors
from moso.batch import Batch
from moso.gradients.fitting import Fitting, TooLargeError
from moso.gradients.point import Batches, Point, Tensors, through
from moso.gradients.probe import first_samples
from moso.gradients.trust import TOLERANCE
from moso.gradients.watching.folding import Fold, Folding, folded_values, folds_of


def mean_gradient(point: Point, batches: Batches) -> Tensors:
    """Compute `G`, the gradient of the mean loss over all batches.

    Args:
        point: The network.
        batches: Returns an iterable over the batches; called again if memory runs out.

    Returns:
        The gradient, by parameter name.

    Raises:
        DataEmpty: There is no sample.

    Example:
        >>> from moso.tasks import cross_entropy
        >>> model = torch.nn.Linear(2, 2)
        >>> mean = mean_gradient(Point.of(model, cross_entropy), lambda: [(torch.eye(2), torch.tensor([0, 1]))])
        >>> mean["weight"].shape
        torch.Size([2, 2])
    """
    fitting = Fitting()
    while True:
        try:
            return _summed(point, batches, fitting)
        except TooLargeError:
            # An unfinished batch has already changed the sums: begin again, in smaller pieces.
            continue


def _summed(point: Point, batches: Batches, fitting: Fitting) -> Tensors:
    sums, count = None, 0
    for batch in through(point, batches):
        sums = sums or Sums(point, _folds(point, batch))
        for piece in fitting.parts(batch):
            with fitting.refusing(piece):
                count += sums.add(piece)
    if sums is None or count == 0:
        raise errors.DataEmpty("there is no sample to take the mean gradient of")
    return {name: (value / count).to(point.trained[name]) for name, value in sums.finish().items()}


def _folds(point: Point, batch: Batch) -> dict[str, Fold]:
    """Return the folds, if folding does not change the gradient of a few samples."""
    probe = first_samples(batch)
    folds = folds_of(point, probe)
    if not folds:
        return {}
    results = []
    for sums in (Sums(point, {}), Sums(point, folds)):
        try:
            sums.add(probe)
        except RuntimeError:  # a network may depend on the memory format of its activations
            return {}
        results.append(sums.finish())
    plain, folded = results
    largest = max(float(value.abs().max()) for value in plain.values())
    apart = max(float((plain[name] - folded[name]).abs().max()) for name in plain)
    return folds if apart <= TOLERANCE * largest else {}


class Sums:
    """Gradients of the summed loss, accumulated batch by batch, in at least float32."""

    def __init__(self, point: Point, folds: dict[str, Fold]) -> None:
        self.point, self.folds = point, folds
        with torch.no_grad():
            changed = folded_values(folds, {**point.fixed, **point.trained})
        self.leaves = {name: value.detach().requires_grad_() for name, value in {**point.trained, **changed}.items()}
        self._own = {*point.trained, *point.fixed}
        self._wide: Tensors = {}

    def add(self, batch: Batch) -> int:
        """Add one batch; return its number of samples."""
        with Folding(self.folds, self.leaves) if self.folds else BaseTorchFunctionMode():
            losses = self.point.losses({name: leaf for name, leaf in self.leaves.items() if name in self._own}, batch)
        if losses.requires_grad:
            losses.sum().backward()  # type: ignore[no-untyped-call]
        for name, leaf in self.leaves.items():
            if leaf.grad is not None and leaf.dtype.itemsize < 4:  # half precision would round away what is added late
                own = self._wide.setdefault(name, torch.zeros_like(leaf, dtype=torch.float32))
                own += leaf.grad
                leaf.grad = None
        return len(losses)

    def finish(self) -> Tensors:
        """Return the gradient by parameter name; ownership of its tensors passes to the caller."""
        found = {name: leaf.grad for name, leaf in self.leaves.items() if leaf.grad is not None} | self._wide
        result = {
            name: found.pop(name) if name not in self.folds and name in found else torch.zeros_like(value)
            for name, value in self.point.trained.items()
        }
        for name, gradient in self._unfolded(found).items():
            result[name] = result[name] + gradient
        return result

    def _unfolded(self, found: Tensors) -> Tensors:
        """Map gradients of folded weights and biases to gradients of the parameters that they were computed from."""
        names = {part for name, fold in self.folds.items() for part in (name, *fold.names())} & {*self.point.trained}
        if not names:
            return {}
        values = {name: self.point.trained[name].detach().requires_grad_() for name in names}
        made = folded_values(self.folds, {**self.point.fixed, **self.point.trained, **values})
        used = [name for name, value in made.items() if name in found and value.requires_grad]
        torch.autograd.backward([made[name] for name in used], [found[name].to(made[name]) for name in used])
        return {name: value.grad for name, value in values.items() if value.grad is not None}
