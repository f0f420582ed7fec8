"""How the recipes of the presets cpu and features were chosen: on a held-out tenth of CIFAR-100's training split.

The test split is never opened here. The criterion is class-balanced random selection at 80 % removed, which favours
none of our methods. There is one seed: large differences show, small ones do not. For heads on features the criterion
is training on all data, for which a user has a recipe; what the same recipes make of 20 % of the data stands beside it.
"""

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import BALANCED, CPU, FEATURES

# Batch size and highest learning rate; the best held-out accuracy is chosen, and the smaller rate among equals.
_TRIED = ((64, 0.1), (64, 0.2), (64, 0.4), (64, 0.8))

# Batch size and highest rate of heads, each with several weight decays.
_HEADS_TRIED = ((64, 0.05), (256, 0.05), (256, 0.1), (256, 0.2))
_DECAYS = (5e-4, 2e-3, 5e-3)

RECIPE_CHOICE = Experiment(
    "recipe-choice",
    "beyond the paper",
    "learning rate of the cpu preset's retraining, chosen on held-out training data",
    "Nothing is tuned on the test split.",
    "arms",
    {
        "cpu": tuple(
            Arm(
                "cifar100-held-out",
                {**CPU, "retraining": {"batch_size": batch_size, "learning_rate": rate}},
                (Contender("random", "balanced", label=f"random (balanced), batches of {batch_size}"),),
                (0.8,),
                1,
                name=f"batches of {batch_size}, rate {rate:g}",
                value=rate,
                all_data=False,
            )
            for batch_size, rate in _TRIED
        ),
        "features": tuple(
            Arm(
                "cifar100-features-held-out",
                {
                    **FEATURES,
                    "retraining": {"batch_size": batch_size, "learning_rate": rate, "weight_decay": decay},
                },
                (BALANCED,),
                (0.8,),
                1,
                name=f"batches of {batch_size}, rate {rate:g}, weight decay {decay:g}",
                value=rate,
                series=f"batches of {batch_size}, weight decay {decay:g}",
            )
            for batch_size, rate in _HEADS_TRIED
            for decay in _DECAYS
        ),
    },
    axis="highest learning rate",
)
