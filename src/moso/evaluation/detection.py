"""How well an order of samples finds the ones that are wrong: AUROC, and precision at the number there is to find."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors


@dataclass(frozen=True)
class Detection:
    """How well one order found the wrong labels.

    `auroc` is the chance that a wrong sample comes before a right one; `precision` the share of wrong ones among
    as many of the first as there are wrong ones in all. `flagged` are those that a detector called wrong by itself,
    with their own precision and recall; None for a plain order.
    """

    name: str
    auroc: float
    precision: float
    flagged: int | None = None
    flagged_precision: float | None = None
    flagged_recall: float | None = None


def auroc(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    """The area under the receiver operating characteristic: ties count half (Mann and Whitney's statistic).

    Args:
        suspicion: One finite number per sample, shape `[samples]`; high means suspicious.
        wrong: Whether each label is wrong, shape `[samples]`.

    Returns:
        The chance that a wrong sample is more suspicious than a right one, from 0 to 1.

    Raises:
        MosoError: If all labels are wrong or none is, or a suspicion is not finite.

    Example:
        >>> auroc(np.array([0.9, 0.2, 0.4]), np.array([True, False, False]))
        1.0
    """
    from sklearn.metrics import roc_auc_score  # takes half a second

    _check_truth(wrong)
    if not np.isfinite(suspicion).all():
        raise errors.ValuesNotFinite(
            f"sample {int(np.argmin(np.isfinite(suspicion)))} has a suspicion that is not finite"
        )
    return float(roc_auc_score(wrong, suspicion))


def precision_at(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_], count: int | None = None) -> float:
    """The share of wrong samples among the `count` most suspicious; by default as many as are wrong.

    Samples tied at the last place count by their average, whichever of them a sort would put first.

    >>> precision_at(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.75
    """
    _check_truth(wrong)
    count = int(wrong.sum()) if count is None else count
    if not 1 <= count <= len(wrong):
        raise errors.SettingInvalid(
            f"precision at {count} of {len(wrong)} samples makes no sense; give 1 to {len(wrong)}"
        )
    last = np.partition(suspicion, len(suspicion) - count)[len(suspicion) - count]
    above, tied = suspicion > last, suspicion == last
    share = wrong[tied].mean() * (count - int(above.sum()))
    return float((wrong[above].sum() + share) / count)


def detection(
    name: str,
    suspicion: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    flagged: NDArray[np.bool_] | None = None,
) -> Detection:
    """All of it for one order, `[samples]`, high means suspicious; `flagged` are a detector's own findings.

    >>> detection("mine", np.array([0.9, 0.2, 0.4]), np.array([True, False, False])).precision
    1.0
    """
    found = Detection(name, auroc(suspicion, wrong), precision_at(suspicion, wrong))
    if flagged is None:
        return found
    hits, count = int((flagged & wrong).sum()), int(flagged.sum())
    share = hits / count if count else float("nan")
    return Detection(name, found.auroc, found.precision, count, share, hits / int(wrong.sum()))


def _check_truth(wrong: NDArray[np.bool_]) -> None:
    if not 0 < int(wrong.sum()) < len(wrong):
        raise errors.NothingToMeasure(
            f"{int(wrong.sum())} of {len(wrong)} labels are wrong; detection needs some that are and some that are not"
        )
