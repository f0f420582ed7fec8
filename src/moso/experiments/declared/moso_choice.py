"""Variants that could make MoSo better at high ratios: selectors over its scores, and other surrogates.

A tenth of CIFAR-100's training split is held out for the evaluation; the test split is never opened here. Findings have
to be confirmed on the test split afterwards, in `figure-1a`.
"""

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import BALANCED, CPU, MOSO, RANDOM, Settings

_RATIO = 0.8
_CUTS = (0.0, 0.1, 0.3, 0.5)
_SELECTED = (
    *RANDOM,
    *MOSO,
    *(Contender("moso", selector) for selector in ("top", "median", "softmax", "infomax")),
    *(
        Contender(score, "coverage", {"cut": cut, "classes": "balanced"})
        for score in ("moso", "moso-rank")
        for cut in _CUTS
    ),
)


def _other(name: str, settings: Settings) -> Arm:
    contenders = (BALANCED, *MOSO)
    return Arm("cifar100-held-out", {**CPU, **settings}, contenders, (_RATIO,), 1, name=name, all_data=False)


MOSO_CHOICE = Experiment(
    "moso-choice",
    "beyond the paper",
    "selectors over MoSo's scores and other surrogates at 80 % removed, on held-out training data",
    "Nothing is tuned on the test split: what makes MoSo better than random selection here is to be shown there.",
    "ratios",
    {
        "cpu": (
            Arm("cifar100-held-out", CPU, _SELECTED, (_RATIO,), 1, name="as in figure-1a", all_data=False),
            _other("1 partition", {"partitions": 1}),
            _other("surrogates of 40 epochs", {"surrogate": {"epochs": 40}}),
            _other("as many steps as on all data", {"match": "steps"}),
        )
    },
)
