"""The value of faithful scores: pruning by Proposition 1.1 and by the adjoint, with training and validation risk.

A tenth of the training split is held out in every arm, so that both risks choose from the same samples. With label
noise the held-out labels stay right, as those of a validation set should be. Proposition 1.1 is computed in evaluation
mode here, as in the paper; view-choice is about the other view.
"""

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import COVERED, CPU, CPU_SEEDS, PAPER, PAPER_SEEDS, RANDOM, Settings

HELD_OUT = 0.1
NOISE = 0.2
_RISKS = {"train": "training risk", "validation": "validation risk"}
_CHOSEN = tuple(
    contender
    for score in ("moso", "moso-adjoint")
    for contender in (
        Contender(score, "top"),
        Contender(score, "balanced"),
        Contender(score, "coverage", COVERED.settings),
    )
)


def _arms(settings: Settings, noise: float, seeds: int) -> tuple[Arm, ...]:
    return tuple(
        Arm(
            "cifar100",
            {**settings, "validation_share": HELD_OUT, "risk": risk, "label_noise": noise, "view": "evaluation"},
            (*RANDOM, *_CHOSEN),
            (0.8,),
            seeds,
            name=f"{name}, {noise:.0%} noise" if noise else name,
            all_data=False,
        )
        for risk, name in _RISKS.items()
    )


ADJOINT_PRUNING = Experiment(
    "adjoint-pruning",
    "beyond the paper",
    "pruning by Proposition 1.1 and by the derivative of the run, with two risks",
    "The adjoint ranks like true leave-one-out where Proposition 1.1 does not. Is what it keeps better to train on? "
    "Does it find wrong labels?",
    "ratios",
    {
        "cpu": (*_arms(CPU, 0.0, CPU_SEEDS), *_arms(CPU, NOISE, 1)),
        "paper": (*_arms(PAPER, 0.0, PAPER_SEEDS), *_arms(PAPER, NOISE, PAPER_SEEDS)),
    },
)
