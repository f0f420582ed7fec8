"""How well a ranking of samples finds wrong labels: AUROC, and precision at the number of wrong labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso import errors


@dataclass(frozen=True)
class Detection:
    """How well one ranking found the wrong labels.

    Attributes:
        auroc: Probability that a wrong sample ranks before a right one.
        precision: Share of wrong samples among the first k, with k the number of wrong samples.
        flagged: Number of samples that the detector called wrong; None for a plain ranking.
        flagged_precision: Share of wrong samples among the flagged; None for a plain ranking.
        flagged_recall: Share of flagged samples among the wrong; None for a plain ranking.
    """

    name: str
    auroc: float
    precision: float
    flagged: int | None = None
    flagged_precision: float | None = None
    flagged_recall: float | None = None


def auroc(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    """Return the area under the receiver operating characteristic; ties count half (Mann and Whitney's statistic).

    Args:
        suspicion: One finite number per sample, shape ``[samples]``; high means suspicious.
        wrong: Whether each label is wrong, shape ``[samples]``.

    Returns:
        The probability that a wrong sample is more suspicious than a right one, in ``[0, 1]``.

    Raises:
        NothingToMeasure: All labels are wrong, or none is.
        ValuesNotFinite: A suspicion is not finite.

    Example:
        >>> auroc(np.array([0.9, 0.2, 0.4]), np.array([True, False, False]))
        1.0
    """
    from sklearn.metrics import roc_auc_score  # imported here: it takes half a second

    _check_truth(wrong)
    if not np.isfinite(suspicion).all():
        raise errors.ValuesNotFinite(
            f"sample {int(np.argmin(np.isfinite(suspicion)))} has a suspicion that is not finite"
        )
    return float(roc_auc_score(wrong, suspicion))


def precision_at(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_], count: int | None = None) -> float:
    """Return the share of wrong samples among the `count` most suspicious.

    Samples tied at the last place count by their average, so the result does not depend on the order of ties.

    Args:
        suspicion: One number per sample, high means suspicious, shape ``[samples]``.
        wrong: Whether each label is wrong, shape ``[samples]``.
        count: Number of samples looked at; by default the number of wrong labels.

    Raises:
        NothingToMeasure: All labels are wrong, or none is.
        SettingInvalid: `count` is out of range.

    Example:
        >>> precision_at(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
        0.75
    """
    _check_truth(wrong)
    count = int(wrong.sum()) if count is None else count
    if not 1 <= count <= len(wrong):
        raise errors.SettingInvalid(
            f"precision at {count} of {len(wrong)} samples is not defined; give 1 to {len(wrong)}"
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
    """Measure one ranking by AUROC and precision, and a detector's flags by precision and recall.

    Args:
        name: Name of the ranking.
        suspicion: One finite number per sample, high means suspicious, shape ``[samples]``.
        wrong: Whether each label is wrong, shape ``[samples]``.
        flagged: Whether the detector called each label wrong, if it does.

    Raises:
        NothingToMeasure: All labels are wrong, or none is.
        ValuesNotFinite: A suspicion is not finite.

    Example:
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
