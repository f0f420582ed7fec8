"""How the recipe of the cpu preset was chosen: on a held-out tenth of CIFAR-100's training split.

The test split is never opened here. The criterion is class-balanced random selection at 80 % removed, which favours
none of our methods. There is one seed: large differences show, small ones do not.
"""

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import CPU

# Batch size and highest learning rate; the best held-out accuracy is chosen, and the smaller rate among equals.
_TRIED = ((64, 0.1), (64, 0.2), (64, 0.4), (64, 0.8))

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
        )
    },
    axis="highest learning rate",
)
