"""Answers of networks trained on random subsets of the data: right or wrong for every sample, `[subsets, samples]`.

Subset `r` holds SHARE of the samples (seven of ten folds). Folds are dealt by hash of (seed, block of ten subsets, id),
and subset `r` leaves out three folds in a row, starting at fold `3 r mod 10`: every block of ten leaves each sample out
three times, and four subsets are enough for every sample to be left out. Networks start from the recorded w_0 and
differ in their subset and in the order of batches. One file per subset, `memorization/subset-000.npy`: bit 0 says that
the network was right, bit 1 that it was trained on the sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.evidence.arrays import read, writing
from moso.evidence.outputs import iter_logits
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun
from moso.files import clear_away
from moso.randomness import hash_order, key
from moso.training.loop import StepPlan, TrainingData, train
from moso.training.recording import ShowProgress

FOLDS, LEFT_OUT = 10, 3
SHARE = 1 - LEFT_OUT / FOLDS
# With fewer subsets some samples are never left out.
LEAST_SUBSETS = -(-FOLDS // LEFT_OUT)
# Bits of a stored answer.
_CORRECT, _INSIDE = np.uint8(1), np.uint8(2)


@dataclass(frozen=True)
class WithMinusWithout:
    """Mean correctness with the sample minus without it, and its standard error, both ``[samples]``.

    The estimate is NaN where all networks or none were trained on the sample, the error where one was, or all but one.
    """

    estimate: NDArray[np.float64]
    standard_error: NDArray[np.float64]


@dataclass(frozen=True)
class SubsetAnswers:
    """Whether networks were right, and whether they were trained on the sample, both ``[networks, samples]``.

    Example:
        >>> correct, inside = np.array([[1, 1], [0, 1]], dtype=bool), np.array([[1, 1], [0, 0]], dtype=bool)
        >>> SubsetAnswers(correct, inside).difference().estimate
        array([1., 0.])
    """

    correct: NDArray[np.bool_]
    inside: NDArray[np.bool_]

    def difference(self) -> WithMinusWithout:
        """Return how much more often networks are right about a sample that they were trained on."""
        means, variances = [], []
        with np.errstate(invalid="ignore", divide="ignore"):
            for side in (self.inside, ~self.inside):
                count = side.sum(axis=0)
                mean = (self.correct & side).sum(axis=0) / count
                means.append(mean)
                # The unbiased variance of zeros and ones is n / (n - 1) p (1 - p), that of their mean 1 / n of it.
                variances.append(np.where(count > 1, mean * (1 - mean) / (count - 1), np.nan))
        return WithMinusWithout(means[0] - means[1], np.sqrt(variances[0] + variances[1]))


def subset_mask(keys: NDArray[np.uint64], seed: int, subset: int) -> NDArray[np.bool_]:
    """Return whether each sample belongs to a subset, shape ``[samples]``; a function of (seed, subset, id).

    Example:
        >>> keys = np.arange(20, dtype=np.uint64)
        >>> masks = np.stack([subset_mask(keys, 0, subset) for subset in range(10)])
        >>> masks.sum(axis=1).tolist() == [14] * 10, masks.sum(axis=0).tolist() == [7] * 20
        (True, True)
    """
    block, number = divmod(subset, FOLDS)
    fold = np.empty(len(keys), dtype=np.int64)
    fold[hash_order(keys, seed, "memorization", block)] = np.arange(len(keys)) % FOLDS
    return np.asarray((fold - LEFT_OUT * number) % FOLDS >= LEFT_OUT)


class SubsetTrainings(EvidenceKind[SubsetAnswers]):
    """One training and one forward pass over all samples per subset."""

    name = "subset-answers"
    description = "answers of networks trained on random subsets"
    network = "own"
    moment = "final"
    effort = "one network per random subset (70 % of the data), and a forward pass of each"
    file = "memorization/subset-{index:03d}.npy"
    about_classes = True
    decided_by = ("memorization_subsets",)
    missing = "no network was trained on this subset"
    label = "subset answers"

    def pieces(self, settings: RunSettings) -> int:
        """Return the number of subsets."""
        return settings.memorization_subsets

    def measure(self, given: Measuring) -> None:
        """Train the network of one subset and ask it about all samples."""
        samples, recipe = given.train, given.settings.surrogate
        own_seed = key(given.seed, "memorization", "training", given.index) % 2**31
        position = given.home / "state" / f"subset-{given.index:03d}" / "position.safetensors"
        positions = np.flatnonzero(subset_mask(samples.keys, given.seed, given.index))
        data = TrainingData(samples.training_view(recipe.augmentation, own_seed), positions, samples.keys)
        model = given.initial_network()
        train(
            model,
            StepPlan(data, recipe, own_seed),
            loss=given.loss,
            callbacks=[given.checkpoints(position), ShowProgress(given.progress)],
            loader_workers=given.loader_workers,
            label=f"subset {given.index + 1}/{given.settings.memorization_subsets}, seed {given.seed}",
        )
        view, classes = samples.evaluation_view(), len(samples.classes)
        everything = np.arange(len(samples))
        with writing(self.path(given.home, given.index), everything.shape, np.uint8) as file:
            file[positions] = _INSIDE
            for chosen, logits in iter_logits(model, given.loss, view, everything, classes, given.loader_workers):
                file[chosen] |= _CORRECT * (logits.argmax(axis=1) == samples.labels[chosen]).astype(np.uint8)
        clear_away(position.parent)

    def read(self, given: SeedRun, column: str = "") -> SubsetAnswers:
        """Read the answers of all networks, and which samples each was trained on."""
        numbers = range(given.settings.memorization_subsets)
        found = np.stack([read(self.found(self.path(given.home, one))) for one in numbers])
        return SubsetAnswers(found & _CORRECT > 0, found & _INSIDE > 0)

    def price(self, settings: RunSettings) -> Price:
        """Return the price of one training on the subset."""
        epochs = SHARE * settings.surrogate.epochs
        what = "a network on 70 % of {samples} samples"
        return Price(looks=1, epochs=epochs, what=what, work="subsets", stage="train")

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why so few subsets leave some samples in all of them, or None."""
        if settings.memorization_subsets >= LEAST_SUBSETS:
            return None
        return (
            f"method {method!r}: {settings.memorization_subsets} random subsets of 70 % of the data do not leave every "
            f"sample out once; use {LEAST_SUBSETS} or more, or 0 for the surrogates (memorization.subsets)"
        )

    def provenance(self, given: SeedRun) -> dict[str, object]:
        """Return the standard error of the score, root mean square over samples."""
        error = self.read(given).difference().standard_error
        return {"standard_error": float(np.sqrt(np.nanmean(error**2))) if np.isfinite(error).any() else None}


SUBSETS = SubsetTrainings()
