"""Self-supervised training (SimCLR) of a network, and the features of the trained network.

Believes that two views of one picture should lie near each other and far from all other pictures: with z the outputs of
a small projector in place of the classifier, scaled to length 1, every view of a batch of B pictures has to find its
twin among the 2B - 1 others,

    loss(i) = - log  exp(z_i . z_j / temperature) / sum_{k != i} exp(z_i . z_k / temperature)        (NT-Xent)

The training loop is the same as everywhere: optimiser, schedule, checkpoints and addressed random draws. Features are
the inputs of the projector, in evaluation mode, for the pictures themselves.

Source: Chen et al., A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020, equation 1.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
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
from moso.training.step_plan import StepPlan, TrainingData
from moso.training.two_views import Distortion, TwoViews, inputs_of

RECIPE = TrainingRecipe(
    optimizer="adamw", epochs=20, batch_size=128, learning_rate=2e-3, schedule="cosine", warmup_epochs=1.0,
    weight_decay=1e-4, channels_last=True,
)  # fmt: skip
TEMPERATURE = 0.2


def nt_xent(temperature: float = TEMPERATURE) -> Loss:
    """Return the NT-Xent loss of batches `(first, second)` of views: one loss per picture, the mean over its two views.

    Example:
        >>> torch.round(nt_xent()(nn.Flatten(), (torch.eye(2), torch.eye(2))), decimals=3)
        tensor([0.0130, 0.0130])
    """

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
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
    """Settings of self-supervised training: the training recipe, the views, the loss and the projector.

    Attributes:
        recipe: Recipe of the training.
        distortion: How views differ from their pictures.
        temperature: Temperature of NT-Xent.
        hidden: Width of the projector's hidden layer.
        projected: Width of the projector's output.

    Example:
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
    """Train a network without labels on these samples and return its features, shape `[positions, width]`.

    Args:
        network: Name of a network, or a module of which a copy is trained from its present weights.
        data: Training data whose view is the evaluation view; the random views are added here.
        how: Settings; by default those of `Unlabelled`.
        seed: Seed of initialisation, batches and views.
        checkpoints: Callback that writes checkpoints.
        loader_workers: Processes that load batches ahead.
        progress: Called with the progress of the training.

    Raises:
        PicturesRequired: The inputs are not pictures.
        ModelUnsuitable: The network is only a classifier, or gives no row of features per sample.
        ValuesNotFinite: A feature is not finite.

    Example:
        >>> from moso.data.samples import StoredSamples
        >>> samples = StoredSamples.from_arrays(np.zeros((8, 1, 8, 8), dtype=np.uint8), np.arange(8) % 2)
        >>> data = TrainingData(samples.evaluation_view(), np.arange(8), samples.keys)
        >>> quick = Unlabelled(recipe=RECIPE.changed(epochs=1))
        >>> self_supervised_features("convnet-w4", data, quick, seed=0).shape
        (8, 8)
    """
    callbacks: list[Callback] = [] if checkpoints is None else [checkpoints]
    callbacks.append(ShowProgress(progress))
    encoder = learn_without_labels(network, data, how, seed=seed, callbacks=callbacks, loader_workers=loader_workers)
    return features_of(encoder, data.view, data.positions, loader_workers)


def learn_without_labels(
    network: nn.Module | str,
    data: TrainingData,
    how: Unlabelled | None = None,
    *,
    seed: int,
    callbacks: Sequence[Callback] = (),
    loader_workers: int = 0,
) -> nn.Module:
    """Train a network without labels and return it without its classifier, for use with `features_of`.

    The arguments are those of `self_supervised_features`; `callbacks` are those of the training loop.
    """
    how = how or Unlabelled()
    encoder = without_classifier(network, data.view, seed)
    views = replace(data, view=TwoViews(data.view, data.keys, seed, how.distortion))
    with seeded(seed, "projector"):
        learner = nn.Sequential(encoder, _projector(_width(encoder, views), how))
    train(
        learner.to(next(encoder.parameters()).device),
        StepPlan(views, how.recipe, seed),
        loss=nt_xent(how.temperature),
        callbacks=callbacks,
        loader_workers=loader_workers,
        label="embedding without labels",
    )
    return encoder


def without_classifier(network: nn.Module | str, view: View, seed: int) -> nn.Module:
    """Return a network that outputs the input of its classifier; a module is copied and not changed.

    Args:
        network: Name of a network, or a module.
        view: Samples from which a named network learns its input shape.
        seed: Seed of a named network's initialisation.

    Raises:
        ModelUnsuitable: The network is only a classifier.

    Example:
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
    """Return the outputs of a network without its classifier in evaluation mode, shape `[positions, width]`.

    Raises:
        ValuesNotFinite: A feature is not finite.
    """
    found = predict(encoder, view, positions, loader_workers=loader_workers)
    features: NDArray[np.float32] = found.flatten(1).numpy()
    if not np.isfinite(features).all():
        raise errors.ValuesNotFinite("the features of some samples are not finite numbers; training may have diverged")
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
