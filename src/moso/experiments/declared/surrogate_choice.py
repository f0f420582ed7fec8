"""How far surrogates on features should fit, chosen on held-out training data, clean and with label noise.

A tenth of the training rows of CIFAR-100's features is held out for evaluation; the test rows are never opened.
"""

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import BALANCED, CROSS, FEATURES

_DECAYS = (5e-4, 2e-3, 5e-3, 1e-2)

SURROGATE_CHOICE = Experiment(
    "surrogate-choice",
    "beyond the paper",
    "weight decay of surrogates on features, chosen on held-out training data",
    "A surrogate that has learned its samples by heart has no gradient left to judge them by.",
    "arms",
    {
        "features": tuple(
            Arm(
                "cifar100-features-held-out",
                {**FEATURES, "surrogate": {"weight_decay": decay}, "label_noise": noise},
                (BALANCED, Contender("moso"), Contender("moso-rank"), CROSS),
                (0.4, 0.8),
                2,
                name=f"weight decay {decay:g}, {noise:.0%} noise" if noise else f"weight decay {decay:g}",
                value=decay,
                series=f"{noise:.0%} noise" if noise else "clean",
                all_data=False,
            )
            for noise in (0.0, 0.2)
            for decay in _DECAYS
        )
    },
    axis="weight decay of surrogates",
)
