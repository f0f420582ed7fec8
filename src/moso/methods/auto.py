"""`auto`: the method that is chosen on held-out training data, and the place of its selector until then.

Which score and selector `auto` stands for is decided late, per seed and ratio, after the evidence of all candidates is
measured (`configuration/candidates.py`, `run/choosing/`). Until then its selector is `CHOSEN`.
"""

import numpy as np
from numpy.typing import NDArray

from moso.selection import Selector

AUTO = "auto"


def _undecided(*_: object) -> NDArray[np.int64]:
    raise AssertionError("the stage that selects replaces `auto` by the candidate that was chosen")


# What candidates of a task with classes need; `configuration/candidates.py` replaces it by the needs of a run's own.
_NEEDS = frozenset({"labels", "terms", "cross-terms-all"})
CHOSEN = Selector("chosen", "what did best on held-out training data", _undecided, _NEEDS)
