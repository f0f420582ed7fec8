"""The view of samples and networks in scoring, chosen on held-out training data, clean and with label noise.

A tenth of CIFAR-100's training split is held out for the evaluation; the test split is never opened here.
"""

from moso.experiments.declaration import Arm, Experiment
from moso.experiments.declared.presets import BALANCED, CPU, MOSO

_NAMES = {"evaluation": "as they are", "training": "as training saw them"}

VIEW_CHOICE = Experiment(
    "view-choice",
    "beyond the paper",
    "MoSo from samples and networks as they are, and as training saw them, on held-out training data",
    "The mean gradient is that of the loss which training descends only where samples are augmented and normalised as "
    "training has them. Does it matter?",
    "ratios",
    {
        "cpu": tuple(
            Arm(
                "cifar100-held-out",
                {**CPU, "view": view, "label_noise": noise},
                (BALANCED, *MOSO),
                (0.8,),
                1,
                name=f"{name}, {noise:.0%} noise" if noise else name,
                all_data=False,
            )
            for noise in (0.0, 0.2)
            for view, name in _NAMES.items()
        )
    },
)
