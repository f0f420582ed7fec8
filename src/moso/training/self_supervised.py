"""A network that is trained without labels, and the features it then gives.

Believes that two views of one picture should lie near each other and far from all other pictures: with z the outputs of
a small projector in place of the classifier, scaled to length 1, every view of a batch of B pictures has to find its
twin among the 2B - 1 others,

    loss(i) = - log  exp(z_i . z_j / temperature) / sum_{k != i} exp(z_i . z_k / temperature)        (NT-Xent)

It is the one training loop that runs: optimiser, schedule, saved positions and addressed draws are those of every other
training. Features are what the projector is given, in evaluation mode and of the pictures themselves.

Source: Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020, equation 1.
"""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.data.views import View
from moso.gradients import Loss
from moso.models import build_model, classifier_head
from moso.progress import Progress, silent
from moso.randomness import seeded
from moso.training.callback import Callback
from moso.training.checkpoints import Checkpoints
from moso.training.loop import predict, train
from moso.training.recipe import TrainingRecipe
from moso.training.recording import ShowProgress
from moso.training.steps import StepPlan, TrainingData
from moso.training.two_views import Distortion, TwoViews, inputs_of

RECIPE = TrainingRecipe(
    optimizer="adamw", epochs=20, batch_size=128, learning_rate=2e-3, schedule="cosine", warmup_epochs=1.0,
    weight_decay=1e-4, channels_last=True,
)  # fmt: skip
TEMPERATURE = 0.2


def nt_xent(temperature: float = TEMPERATURE) -> Loss:
    """The loss of batches `(first, second)` of views: one number a picture, the mean of its two views'.

    >>> torch.round(nt_xent()(nn.Flatten(), (torch.eye(2), torch.eye(2))), decimals=3)
    tensor([0.0130, 0.0130])
    """

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        first, second = batch
        count = len(first)
        z = F.normalize(model(torch.cat([first, second])).float(), dim=1)
        likeness = (z @ z.T) / temperature
        likeness = likeness.masked_fill(torch.eye(2 * count, dtype=torch.bool, device=z.device), -torch.inf)
        twins = torch.arange(2 * count, device=z.device).roll(count)
        return F.cross_entropy(likeness, twins, reduction="none").view(2, count).mean(0)

    return loss


@dataclass(frozen=True)
class Unlabelled:
    """How a network learns without labels: the training recipe, the views, the loss and the projector.

    >>> Unlabelled().recipe.batch_size
    128
    """

    recipe: TrainingRecipe = RECIPE
    distortion: Distortion = field(default_factory=Distortion)
    temperature: float = TEMPERATURE
    hidden: int = 256
    projected: int = 128


def self_supervised_features(
    network: nn.Module | str,
    data: TrainingData,
    how: Unlabelled | None = None,
    *,
    seed: int,
    checkpoints: Checkpoints | None = None,
    loader_workers: int = 0,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """Features `[positions, width]` of a network that was trained on these very samples without their labels.

    `network` is a name, or a module of which a copy is trained from where it stands. `data.view` is the evaluation
    view: what is random about the training is added here.

    >>> from moso.data.samples import StoredSamples
    >>> samples = StoredSamples.from_arrays(np.zeros((8, 1, 8, 8), dtype=np.uint8), np.arange(8) % 2)
    >>> data = TrainingData(samples.evaluation_view(), np.arange(8), samples.keys)
    >>> quick = Unlabelled(recipe=RECIPE.changed(epochs=1))
    >>> self_supervised_features("convnet-w4", data, quick, seed=0).shape
    (8, 8)
    """
    encoder = learn_without_labels(
        network, data, how, seed=seed, checkpoints=checkpoints, loader_workers=loader_workers, progress=progress
    )
    return features_of(encoder, data.view, data.positions, loader_workers)


def learn_without_labels(
    network: nn.Module | str,
    data: TrainingData,
    how: Unlabelled | None = None,
    *,
    seed: int,
    checkpoints: Checkpoints | None = None,
    loader_workers: int = 0,
    progress: Progress = silent,
) -> nn.Module:
    """The network without its classifier, trained as `self_supervised_features` says; for `features_of` any data."""
    how = how or Unlabelled()
    encoder = without_classifier(network, data.view, seed)
    views = replace(data, view=TwoViews(data.view, data.keys, seed, how.distortion))
    with seeded(seed, "projector"):
        learner = nn.Sequential(encoder, _projector(_width(encoder, views), how))
    callbacks: list[Callback] = [] if checkpoints is None else [checkpoints]
    train(
        learner.to(next(encoder.parameters()).device),
        StepPlan(views, how.recipe, seed),
        loss=nt_xent(how.temperature),
        callbacks=[*callbacks, ShowProgress(progress)],
        loader_workers=loader_workers,
        label="embedding without labels",
    )
    return encoder


def without_classifier(network: nn.Module | str, view: View, seed: int) -> nn.Module:
    """A network that gives what its classifier would have been given; a module is copied and stays as it is.

    >>> without_classifier(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), None, 0)
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): Identity()
    )
    """
    if isinstance(network, str):
        encoder = build_model(network, tuple(inputs_of(view.batch(np.arange(1))).shape[1:]), 2, seed)
    else:
        encoder = copy.deepcopy(network)
    name, _ = classifier_head(encoder)
    if not name:
        raise errors.ModelUnsuitable(
            f"the network ({type(encoder).__name__}) is nothing but its classifier, so it has no features"
        )
    parent, _, own = name.rpartition(".")
    setattr(encoder.get_submodule(parent), own, nn.Identity())
    return encoder


def features_of(
    encoder: nn.Module, view: View, positions: NDArray[np.int64], loader_workers: int = 0
) -> NDArray[np.float32]:
    """What a network without its classifier gives for these samples, in evaluation mode, `[positions, width]`."""
    found = predict(encoder, view, positions, loader_workers=loader_workers)
    features: NDArray[np.float32] = found.flatten(1).numpy()
    if not np.isfinite(features).all():
        raise errors.ValuesNotFinite(
            "the features of some samples are not finite numbers; training may have gone astray"
        )
    return features


def _width(encoder: nn.Module, views: TrainingData) -> int:
    try:
        some = predict(encoder, views.view, views.positions[:1])
    except RuntimeError as problem:
        first = str(problem).splitlines()[0]
        raise errors.ModelUnsuitable(
            f"the network does not take views as large as these (side of a distortion): {first}"
        ) from problem
    if some.ndim != 2:
        raise errors.ModelUnsuitable(
            f"the network gives features of shape {tuple(some.shape[1:])}, not a row of numbers"
        )
    return int(some.shape[1])


def _projector(width: int, how: Unlabelled) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, how.hidden, bias=False),
        nn.BatchNorm1d(how.hidden),
        nn.ReLU(),
        nn.Linear(how.hidden, how.projected),
    )
