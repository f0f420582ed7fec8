"""The surrogate runs that estimators are compared on."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso.configuration import Configuration
from moso.data.dataset import DataSet, open_dataset
from moso.data.partitions import partition
from moso.models import build_model
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe

SHARED = Path(os.environ.get("MOSO_SHARED", Path(__file__).parents[3] / "shared")) / "data"


@dataclass(frozen=True)
class Setting:
    """A data set, how many of its samples make one partition, a network, and a share of labels drawn at random."""

    title: str
    dataset: str
    samples: int
    network: str
    epochs: int
    label_noise: float = 0.0


SETTINGS = {
    "digits-mlp": Setting("digits, perceptron without batch-norm", "digits", 288, "mlp-w64", 20, 0.2),
    "digits-convnet": Setting("digits, convnet with batch-norm", "digits", 288, "convnet", 20, 0.2),
    "cifar-resnet8": Setting(
        "CIFAR-100, ResNet-8 of width 16 with batch-norm", f"parquet:{SHARED / 'cifar100'}", 3000, "resnet8", 20, 0.2
    ),
}


def available() -> list[str]:
    """The problems whose data is on this machine."""
    return [name for name, one in SETTINGS.items() if ":" not in one.dataset or (SHARED / "cifar100").is_dir()]


@dataclass(frozen=True)
class Problem:
    """One partition's surrogate run: its data and recipe, and which labels were drawn at random."""

    setting: Setting
    data: DataSet
    positions: NDArray[np.int64]
    recipe: TrainingRecipe
    seed: int = 0

    @classmethod
    def open(cls, setting: Setting, seed: int = 0) -> "Problem":
        """The first partition of as many samples as the setting says."""
        data = open_dataset(setting.dataset, label_noise=setting.label_noise, seed=seed)
        train = data.train
        parts = max(1, round(len(train) / setting.samples))
        kind = setting.dataset.partition(":")[0]
        recipe = Configuration.resolve({"dataset": kind if kind == "digits" else setting.dataset}).surrogate
        positions = partition(train.keys, train.labels, parts, seed)[0]
        return cls(setting, data, positions, recipe.changed(epochs=setting.epochs), seed)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels of the partition."""
        return self.data.train.labels[self.positions]

    @property
    def wrong(self) -> NDArray[np.bool_] | None:
        """Which labels of the partition were drawn at random, if any were."""
        return None if self.data.noisy is None else self.data.noisy[self.positions]

    def model(self, name: str = "") -> nn.Module:
        """The network at its initialisation, or another one for the same data."""
        train = self.data.train
        return build_model(name or self.setting.network, train.shape, len(train.classes), self.seed)

    def training(self, count: int | None = None) -> TrainingData:
        """What the surrogate learns from, or the first samples of it."""
        train = self.data.train
        view = train.training_view(self.recipe.augmentation, self.seed)
        return TrainingData(view, self.positions[:count], train.keys)
