"""`DynamicPruning`: skip easy samples during one's own training loop, without a bias (`training/soft_pruning.py`)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Sampler

from moso import errors
from moso.randomness import hash_order
from moso.training.soft_pruning import ON_EVERYTHING, RATIO, soft_weights


class DynamicPruning(Sampler[int]):
    """Skips easy samples at random in every epoch, and weighs those that are met so that no bias remains.

    It is a sampler for a `DataLoader`, and one call per batch: the call takes the losses of the batch's samples and
    returns them weighed. A sample whose last loss is below the mean is skipped with probability `ratio`; one that is
    met in spite of it counts for 1 / (1 - ratio) samples. The first epoch, and the last eighth of the epochs, are on
    everything. Nothing of PyTorch is patched; workers that load data ahead are fine, because a `DataLoader` returns
    batches in the order of its sampler.

    Args:
        dataset_size: Number of samples of the data set.
        ratio: Probability of skipping an easy sample, in ``[0, 1)``; the source takes 0.5.
        epochs: Epochs of the whole training, which decide when the last part begins.
        seed: Seed of the draws and of the order of samples.

    Raises:
        MosoError: ``setting-invalid``, ``ratio-out-of-range``.

    Example:
        >>> import torch.nn.functional as F
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> inputs = torch.arange(12.0)[:, None]
        >>> data = TensorDataset(inputs, (inputs[:, 0] > 5).long())
        >>> model = torch.nn.Linear(1, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> pruning = DynamicPruning(len(data), ratio=0.5, epochs=4, seed=0)
        >>> loader = DataLoader(data, batch_size=4, sampler=pruning)
        >>> for epoch in range(4):
        ...     for batch, labels in loader:
        ...         losses = F.cross_entropy(model(batch), labels, reduction="none")
        ...         optimizer.zero_grad()
        ...         pruning(losses).mean().backward()
        ...         optimizer.step()
        >>> pruning.epoch, 24 <= pruning.visits < 48
        (4, True)

    Attributes:
        epoch: Epochs that have begun.
        visits: Samples whose losses came so far, counted as often as they came.
    """

    def __init__(self, dataset_size: int, ratio: float = RATIO, epochs: int = 1, seed: int = 0) -> None:
        if dataset_size < 1 or epochs < 1:
            raise errors.SettingInvalid(
                f"dataset_size = {dataset_size} and epochs = {epochs} must be whole numbers of at least 1"
            )
        if not 0 <= ratio < 1:
            raise errors.RatioOutOfRange(
                f"ratio = {ratio} must be a probability from 0 to below 1; 0.5 skips half of the easy samples"
            )
        self.ratio, self.epochs, self.seed = ratio, epochs, seed
        self.epoch, self.visits = 0, 0
        self._keys = np.arange(dataset_size, dtype=np.uint64)
        self._losses = np.full(dataset_size, np.nan, dtype=np.float32)
        self._weights = np.ones(dataset_size, dtype=np.float32)
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._next, self._last_batch, self._is_begun = 0, 0, False

    def __len__(self) -> int:
        """Return the number of samples of the epoch in progress, or of the next one."""
        if self._is_begun and self._next < len(self._order):
            return len(self._order)
        return int(np.count_nonzero(self._weights_of(self.epoch)))

    def __iter__(self) -> Iterator[int]:
        """Begin the next epoch and return its samples in random order.

        Raises:
            MosoError: ``length-mismatch`` if losses of the epoch before did not come.
        """
        left = len(self._order) - self._next
        # A loader with drop_last keeps less than a batch back.
        if left and left >= self._last_batch:
            raise errors.LengthMismatch(
                f"epoch {self.epoch} had {len(self._order)} samples, and the losses of {self._next} came; call the "
                "object once per batch, or give the batch's indices"
            )
        self._weights = self._weights_of(self.epoch)
        kept = np.flatnonzero(self._weights)
        self._order = kept[hash_order(self._keys[kept], self.seed, "order", self.epoch)]
        self._next, self._is_begun, self.epoch = 0, True, self.epoch + 1
        return iter(self._order.tolist())

    def __call__(self, losses: torch.Tensor, indices: Any = None) -> torch.Tensor:
        """Remember the losses of a batch and return them weighed.

        Args:
            losses: One loss per sample of the batch, shape ``[batch]``, in the order of the batch.
            indices: Indices of the batch's samples, shape ``[batch]``. None takes the next samples of the epoch, which
                is right where every batch is trained on, in the order of the loader.

        Returns:
            The weighed losses, shape ``[batch]``, whose mean is to be differentiated.

        Raises:
            MosoError: ``loss-invalid`` without one loss per sample; ``length-mismatch`` if more losses come than the
                epoch has samples; ``sample-unknown`` for an index that the epoch does not have.
        """
        if losses.ndim != 1:
            raise errors.LossInvalid(
                f"losses are of shape {tuple(losses.shape)}; one loss per sample is needed (reduction='none')"
            )
        own = self._of_batch(len(losses)) if indices is None else self._given(indices, len(losses))
        self._next, self._last_batch = self._next + len(losses), max(self._last_batch, len(losses))
        self._losses[own] = losses.detach().float().cpu().numpy()
        self.visits += len(losses)
        return losses * torch.from_numpy(self._weights[own]).to(losses)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint between two epochs needs."""
        return {"epoch": self.epoch, "visits": self.visits, "losses": torch.from_numpy(self._losses.copy())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned, with the next epoch.

        Raises:
            MosoError: ``length-mismatch`` if it is of another number of samples.
        """
        losses = state["losses"].numpy().copy()
        if losses.shape != self._losses.shape:
            raise errors.LengthMismatch(
                f"the state is of {len(losses)} samples, and this object of {len(self._losses)}; make it of that size"
            )
        self.epoch, self.visits, self._losses = int(state["epoch"]), int(state["visits"]), losses
        self._order, self._next, self._is_begun = np.empty(0, dtype=np.int64), 0, False

    def _weights_of(self, epoch: int) -> NDArray[np.float32]:
        if epoch >= self.epochs - self.epochs // ON_EVERYTHING:
            return np.ones(len(self._keys), dtype=np.float32)
        return soft_weights(self._losses, self._keys, self.ratio, self.seed, epoch)

    def _of_batch(self, count: int) -> NDArray[np.int64]:
        if self._next + count > len(self._order):
            raise errors.LengthMismatch(
                f"{count} losses came where epoch {self.epoch} has {len(self._order) - self._next} samples left; use "
                "the object as the sampler of the loader, and call it once per batch"
            )
        return self._order[self._next : self._next + count]

    def _given(self, indices: Any, count: int) -> NDArray[np.int64]:
        own = np.asarray(indices.cpu() if isinstance(indices, torch.Tensor) else indices)
        if own.shape != (count,):
            raise errors.LengthMismatch(f"{count} losses came with indices of shape {own.shape}; give one per loss")
        if own.dtype.kind not in "iu" or not np.isin(own, self._order).all():
            raise errors.SampleUnknown(
                f"indices {own[:3].tolist()} and others are not all samples of epoch {self.epoch}; give what the "
                "sampler gave"
            )
        return own.astype(np.int64)
