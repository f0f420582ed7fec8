"""The mix of classes that a selection keeps: equally many samples per class, or the mix of the data.

`balanced` (the authors' way) keeps equally many samples per class. On classes of equal size that is the mix of the
data. On uneven classes it removes mostly samples of large classes, whatever their scores, and the network is trained on
another mix than it is tested on. So where the largest class has more than 1.5 times the samples of the smallest,
methods that would take `balanced` take `proportional` (and random selection beside them), unless the user says
otherwise. Runs from before have no such setting, and keep `balanced`.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso.selection import kept_count
from moso.selection.quotas import balanced_quotas

ClassMix = Literal["equal", "as-is"]
# The largest ratio of class sizes at which classes count as even.
EVEN = 1.5


def fitting_mix(labels: NDArray[np.int64], by_class: bool = True) -> ClassMix:
    """Return the mix to keep by default: ``"as-is"`` on uneven classes, else ``"equal"``.

    Args:
        labels: Class index per sample, shape ``[samples]``.
        by_class: Whether samples have classes.

    Example:
        >>> fitting_mix(np.repeat([0, 1], [10, 15])), fitting_mix(np.repeat([0, 1], [10, 16]))
        ('equal', 'as-is')
    """
    if not by_class or not len(labels):
        return "equal"
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    return "as-is" if sizes.max() > EVEN * sizes.min() else "equal"


def mix_note(labels: NDArray[np.int64], classes: Sequence[str], ratio: float, mix: ClassMix) -> str:
    """Return one sentence on what a selection does to the mix of uneven classes; empty for even ones.

    Args:
        labels: Class index per sample, shape ``[samples]``.
        classes: Names of the classes.
        ratio: Share of samples to remove.
        mix: The mix that is kept.

    Example:
        >>> mix_note(np.repeat([0, 1], [20, 80]), ["cat", "dog"], 0.4, "equal")
        'Classes have 20 (cat) to 80 (dog) samples; balanced keeps 20 of cat (100 %) and 40 of dog (50 %) at ratio 0.4.'
    """
    if fitting_mix(labels, bool(classes)) == "equal":
        return ""
    sizes = np.bincount(labels, minlength=len(classes))
    there = np.flatnonzero(sizes)
    small, large = there[sizes[there].argmin()], there[sizes[there].argmax()]
    said = f"Classes have {sizes[small]:,} ({classes[small]}) to {sizes[large]:,} ({classes[large]}) samples"
    if mix == "as-is":
        return f"{said}; selections keep this mix (proportional)."
    kept = balanced_quotas(sizes, kept_count(len(labels), ratio))
    each = [f"{kept[one]:,} of {classes[one]} ({100 * kept[one] / sizes[one]:.0f} %)" for one in (small, large)]
    return f"{said}; balanced keeps {each[0]} and {each[1]} at ratio {ratio:g}."
