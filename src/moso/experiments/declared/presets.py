"""What the declarations have in common: the contenders, and the pipelines of the two presets."""

from collections.abc import Mapping
from typing import Any

from moso.evaluation.baselines import RS2
from moso.experiments.declaration import Contender

MOSO = (Contender("moso"), Contender("moso-standardised"), Contender("moso-rank"))
BALANCED = Contender("random", "balanced")
RANDOM = (Contender("random"), BALANCED)
PUBLISHED = tuple(map(Contender, ("herding", "forgetting", "grand", "el2n", "opt", "ssp", "moderate")))
# Beyond the paper: the worst of each class cut off, the rest covered evenly.
COVERED = Contender("moso-rank", "coverage", {"cut": 0.3, "classes": "balanced"})
# Beyond the paper: Definition 1 by the derivative of the run itself, several trainings of every surrogate.
FAITHFUL = Contender("moso-adjoint", "balanced")
BASELINES = (RS2,)

Settings = Mapping[str, Any]
# Chosen by calibration: all experiments together in less than 20 hours on two busy cores, figure-1a in less than 8.
CPU: Settings = {
    "model": "moso.experiments.networks:resnet8",
    "recipe": "cpu-reproduce",
    "partitions": 5,
    "time_steps": 10,
    "initialisations": 3,
    "early_epochs": 2,
    "view": "training",  # chosen on held-out training data (view-choice)
}
# A fifth of the images, so a few more epochs; at CIFAR's size, which is a quarter of the time.
CPU_TINY: Settings = {**CPU, "resize": 32, "surrogate": {"epochs": 15}, "retraining": {"epochs": 20}}
CPU_SEEDS = 3
# Most of the paper's claims are about these; at 0.2 a retraining takes four times as long as at 0.8.
CPU_RATIOS = (0.7, 0.8)
CPU_LOW_RATIO = 0.2
# The seeds that MoSo and random selection get where the paper's main claim is.
CPU_MORE_SEEDS = 5

PAPER: Settings = {
    "model": "resnet50",
    "recipe": "paper-cifar",
    "partitions": 5,
    "time_steps": 10,
    "sampling": "uniform",
    "initialisations": 10,
}
PAPER_TINY: Settings = {**PAPER, "recipe": "paper-tiny"}
PAPER_IMAGENET: Settings = {**PAPER, "recipe": "paper-imagenet", "resize": 224}
# The paper does not say how many; the tables it is usually put beside have five.
PAPER_SEEDS = 5
PAPER_RATIOS = (0.2, 0.4, 0.6, 0.7, 0.8)
