"""Shared parts of the declarations: the contenders, and the pipelines of the two presets."""

from collections.abc import Mapping
from typing import Any

from moso.evaluation.baselines import RS2
from moso.experiments.declaration import Contender

MOSO = (Contender("moso"), Contender("moso-standardised"), Contender("moso-rank"))
BALANCED = Contender("random", "balanced")
RANDOM = (Contender("random"), BALANCED)
PUBLISHED = tuple(map(Contender, ("herding", "forgetting", "grand", "el2n", "opt", "ssp", "moderate")))
# Beyond the paper: the lowest scores of each class cut off, the rest covered evenly.
COVERED = Contender("moso-rank", "coverage", {"cut": 0.3, "classes": "balanced"})
# Beyond the paper: Definition 1 by differentiating the training run, at the cost of several trainings per surrogate.
FAITHFUL = Contender("moso-adjoint", "balanced")
# Beyond the paper: samples judged at surrogates that did not see them.
CROSS = Contender("moso-cross")
# Beyond the paper: what does best on held-out training data, or random selection.
CHOSEN = Contender("auto")
BASELINES = (RS2,)

Settings = Mapping[str, Any]
# Chosen by calibration: on two busy cores, all experiments together take less than 20 hours, figure-1a less than 8.
CPU: Settings = {
    "model": "moso.experiments.networks:resnet8",
    "recipe": "cpu-reproduce",
    "partitions": 5,
    "time_steps": 10,
    "initialisations": 3,
    "early_epochs": 2,
    "view": "training",  # chosen on held-out training data (view-choice)
}
# A fifth of CIFAR-100's images, so a few more epochs; resized to CIFAR's 32 pixels, for a quarter of the time.
CPU_TINY: Settings = {**CPU, "resize": 32, "surrogate": {"epochs": 15}, "retraining": {"epochs": 20}}
CPU_SEEDS = 3
# Most of the paper's claims are about these ratios; at 0.2 a retraining takes four times as long as at 0.8.
CPU_RATIOS = (0.7, 0.8)
CPU_LOW_RATIO = 0.2
# Number of seeds of MoSo and random selection for the paper's main claim.
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
# A head on frozen features of a pretrained network, trained until it fits, with the paper's epochs, ratios and seeds.
FEATURES: Settings = {
    "model": "linear",
    "recipe": "features-reproduce",
    "partitions": 5,
    "time_steps": 10,
    "initialisations": 3,
    "trial_share": 0.25,  # 50 of 200 epochs
}
HEADS: Mapping[str, Settings] = {"linear head": FEATURES, "MLP head": {**FEATURES, "model": "mlp-head"}}
# Scored with a head on features, retrained from scratch on the images with the network and recipe of the preset `cpu`.
FROM_FEATURES: Settings = {
    **FEATURES,
    "embed": "features:cifar100-features",
    "prove": "network",
    "retrain_model": CPU["model"],
    "retrain_recipe": CPU["recipe"],
}
# A head that fits its samples, as in the first measurements of heads that choose for a network trained from scratch.
FITTED_HEAD: Settings = {"weight_decay": 5e-4, "batch_size": 64, "nesterov": False}
# Scored with a head on features, and the pretrained network fine-tuned whole on the images that are kept.
FINE_TUNED: Settings = {
    **FEATURES,
    "embed": "features:cifar100-features-10k",
    "prove": "network",
    "retrain_model": "moso.experiments.networks:efficientnet_lite0",
    "retrain_recipe": "finetune",
    "resize": 64,
}
# A small ResNet trained from scratch on 20 classes of CIFAR-100 until its training loss is below 0.1.
FITTED: Settings = {**CPU, "recipe": "fitted-reproduce", "early_epochs": 5}

# The paper does not state its number of seeds; the tables it is usually compared with have five.
PAPER_SEEDS = 5
PAPER_RATIOS = (0.2, 0.4, 0.6, 0.7, 0.8)
