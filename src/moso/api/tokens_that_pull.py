"""`token_scores`: which tokens of a sample pull, in scores that sum to the sample's own.

The loss of a sample is a sum over its predicted tokens, so its gradient is one too, `g_z = sum_k g_k`, and so is every
product with it:

    dot_k  = G . g_k        sum_k dot_k  = G . g_z
    self_k = g_z . g_k      sum_k self_k = |g_z|^2
    score_k = T/N 1/K sum_t eta_t (N dot_k - self_k) / (N - 1)        sum_k score_k = M(z), the sample's score

For a target risk R, `score_k = T/N 1/K sum_t eta_t grad R . g_k`. A sample costs as much as it has predicted tokens, so
this is for a few samples at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.api.trajectory_scores import network_for, trajectory_of
from moso.batch import Batch
from moso.data.views import Collate, View, as_view, split_evenly
from moso.evidence.measure import ParameterFilter, prepared
from moso.evidence.trajectory import Checkpoint, Trajectory, TrajectoryPoint
from moso.gradients import Loss, Point, Risk, derivatives_along, gradient_sums, mean_of, risk_gradient, to_device
from moso.gradients.fallback import gradients_of_one
from moso.gradients.point import Tensors, evaluation_mode
from moso.tasks.classification import class_outputs
from moso.tasks.language import IGNORED, following, next_token_loss, sequences_of, token_shares

# Tokens of one sample whose derivatives are taken in one batch.
_AT_ONCE = 64


@dataclass(frozen=True)
class TokenScores:
    """The scores of the predicted tokens of one sample.

    Attributes:
        position: Position of the sample in the data.
        places: Positions of its predicted tokens in the sequence, ascending, shape ``[tokens]``.
        tokens: Their ids, shape ``[tokens]``.
        scores: Their scores, shape ``[tokens]``; the sum is the sample's score.
        dot: `G . g_k` at each time step, shape ``[steps, tokens]``, or the product with the risk's gradient; the sum
            over tokens is the sample's.
    """

    position: int
    places: NDArray[np.int64]
    tokens: NDArray[np.int64]
    scores: NDArray[np.float64]
    dot: NDArray[np.float64]


def token_scores(
    model: nn.Module,
    data: object,
    trajectory: Trajectory | Sequence[Checkpoint],
    positions: Sequence[int],
    *,
    loss: Loss = next_token_loss,
    risk: Risk | None = None,
    total_steps: int | None = None,
    optimizer_aware: bool = False,
    parameters: ParameterFilter | None = None,
    collate: Collate | None = None,
    batch_size: int | None = None,
) -> list[TokenScores]:
    """Return the scores of the predicted tokens of some samples of a language model's data.

    Args:
        model: The network.
        data: Any data that `moso.score` takes, whose batches are `(inputs, labels)` or mappings with `labels`.
        trajectory: A trajectory, or checkpoints `(state_dict, learning_rate)`.
        positions: Positions of the samples.
        loss: `next_token_loss`, or `masked_token_loss`.
        risk: Risk to judge by in place of the mean loss over `data`.
        total_steps: Number of updates of the run that the checkpoints were taken from.
        optimizer_aware: Compare gradients as the optimiser rescales them.
        parameters: Filter by parameter name.
        collate: Makes a batch from a list of items.
        batch_size: Samples per batch of the mean gradient.

    Returns:
        One entry per position, in their order.

    Raises:
        SampleUnknown: A position is not in the data.
        DataEmpty: A sample has no predicted token.
        MosoError: Those of `moso.score`.

    Example:
        >>> class Bigrams(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.table = nn.Embedding(5, 5)
        ...     def forward(self, input_ids):
        ...         return self.table(input_ids)
        >>> tokens = torch.tensor([[1, 2, 3], [2, 3, 4], [0, 3, 1]])
        >>> data = [{"input_ids": row, "labels": row} for row in tokens]
        >>> model = Bigrams()
        >>> [found] = token_scores(model, data, [(model.state_dict(), 0.1)], [0])
        >>> found.tokens
        array([2, 3])
        >>> import moso
        >>> whole = moso.score(model, data, [(model.state_dict(), 0.1)], loss=next_token_loss)
        >>> bool(np.isclose(found.scores.sum(), whole[0]))
        True
    """
    network = network_for(model, None)
    points = trajectory_of(trajectory, total_steps)
    points = points.optimizer_aware() if optimizer_aware else points
    view = as_view(data, collate, loss)
    for position in positions:
        if not 0 <= position < len(view):
            raise errors.SampleUnknown(f"there is no sample {position}: the data has {len(view)}")
    causal = loss is next_token_loss
    shares = causal_shares if causal else masked_shares
    found: dict[int, list[tuple[TrajectoryPoint, NDArray[np.float64], NDArray[np.float64]]]] = {}
    places = {position: _predicted(view, position, causal) for position in positions}
    for point in points:
        at, load = prepared(network, point, view, np.arange(len(view)), loss, batch_size, parameters, 0)
        direction = _direction(at, load, len(view), point, risk)
        fitted = point.fitted_to(network)
        for position in positions:
            rows = _products(at, shares, view, position, places[position][0], direction, fitted, risk is None)
            found.setdefault(position, []).append((fitted, *rows))
    T = total_steps or points.total_steps
    return [
        _combined(position, *places[position], found[position], len(view), T, risk is None) for position in positions
    ]


def causal_shares(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the share of one token of each row in its sample's loss, ``[rows]``; the batch names the token."""
    return _shares(model, batch, True)


def masked_shares(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the share of one masked token of each row in its sample's loss, ``[rows]``."""
    return _shares(model, batch, False)


def _shares(model: nn.Module, batch: Batch, causal: bool) -> torch.Tensor:
    whole, weights = batch
    inputs, labels = sequences_of(whole)
    logits = class_outputs(model, inputs)
    labels = labels[:, : logits.shape[1]]
    each = token_shares(logits, following(labels) if causal else labels)
    shares: torch.Tensor = (each * weights[:, : each.shape[1]].to(each)).sum(1)
    return shares


def _predicted(view: View, position: int, causal: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where a sample's predicted tokens are in its sequence, and their ids."""
    _, labels = sequences_of(view.batch(np.array([position])))
    row = labels[0].numpy()
    places = np.flatnonzero(row != IGNORED)
    places = places[places > 0] if causal else places
    if not len(places):
        raise errors.DataEmpty(f"sample {position} has no token to predict")
    return places, row[places]


def _direction(at: Point, load: object, samples: int, point: TrajectoryPoint, risk: Risk | None) -> Tensors:
    if risk is not None:
        return at.along(risk_gradient(at, risk))
    total, _ = gradient_sums(at, lambda: load(np.arange(samples)))  # type: ignore[operator]
    return at.along(mean_of(at, total, samples))


def _products(
    at: Point,
    shares: Loss,
    view: View,
    position: int,
    places: NDArray[np.int64],
    direction: Tensors,
    point: TrajectoryPoint,
    own_risk: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return `G . g_k` and `g_z . g_k` of a sample's tokens, ``[groups, tokens]`` each."""
    whole = to_device(view.batch(np.array([position]), point.epoch), at.device)
    shifted = places - 1 if shares is causal_shares else places
    token_point = Point.of(at.model, shares, {**at.fixed, **at.trained}, lambda name: name in at.trained)

    def batches() -> Iterator[Batch]:
        for some in split_evenly(shifted, _AT_ONCE):
            weights = torch.zeros(len(some), sequences_of(whole)[1].shape[1], device=at.device)
            weights[torch.arange(len(some)), torch.from_numpy(some)] = 1
            yield _repeated(whole, len(some)), weights

    directions = [direction]
    if own_risk:
        with evaluation_mode(at.model):
            directions.append(at.along(gradients_of_one(at, whole)[1]))
    found = derivatives_along(token_point, batches, directions, point.groups)
    return found[0], found[1] if own_risk else np.zeros_like(found[0])


def _repeated(batch: Batch, count: int) -> Batch:
    inputs, labels = sequences_of(batch)
    if isinstance(inputs, torch.Tensor):
        return inputs.expand(count, *inputs.shape[1:]), labels.expand(count, -1)
    own = {name: one.expand(count, *one.shape[1:]) for name, one in inputs.items() if isinstance(one, torch.Tensor)}
    return {**own, "labels": labels.expand(count, -1)}


def _combined(
    position: int,
    places: NDArray[np.int64],
    tokens: NDArray[np.int64],
    steps: list[tuple[TrajectoryPoint, NDArray[np.float64], NDArray[np.float64]]],
    N: int,
    T: int,
    own_risk: bool,
) -> TokenScores:
    total = np.zeros(len(places))
    for point, dot, own in steps:
        a = (N * dot - own) / (N - 1) if own_risk else dot
        total += (np.array(point.learning_rates)[:, None] * a).sum(0)
    dots = np.stack([dot.sum(0) for _, dot, _ in steps])
    return TokenScores(position, places, tokens, T / N * total / len(steps), dots)
