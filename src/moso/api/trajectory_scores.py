"""`score`: the MoSo score of every sample along a trajectory of the user's own training."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.api.given_network import check_network, try_loss
from moso.api.progress_bars import shown_progress
from moso.configuration.device import available_device
from moso.data.views import Collate, as_view, check_repeatable
from moso.evidence import Estimator, EstimatorName, ParameterFilter, PartitionTerms, Trajectory
from moso.evidence.adam_directions import Similarity, similarity_terms
from moso.evidence.measure import risk_terms
from moso.evidence.moments import Moments
from moso.evidence.network_names import as_network
from moso.evidence.renewed_statistics import renewed_statistics
from moso.evidence.trajectory import Checkpoint
from moso.evidence_kinds.adam_similarities import ADAM_SIMILARITIES
from moso.evidence_kinds.step_terms import TERMS
from moso.gradients import Loss, Risk, SampleRisk, cross_entropy
from moso.progress import Progress
from moso.scores import Form, MemoryInput, Score, find_score, scores
from moso.scores.less import LESS

# The names that `score(method=...)` accepts: scores computed from step terms alone.
Combination = Literal["moso", "moso-standardised", "moso-rank", "grand-steps", "less"]
States = Iterable[Checkpoint]
_FROM_TERMS = frozenset({"terms", "norms"})


@overload
def score(
    model: nn.Module,
    data: Any,
    trajectory: Trajectory | States,
    *,
    loss: Loss = ...,
    batch_size: int | None = ...,
    method: Combination | Score = ...,
    form: Form = ...,
    total_steps: int | None = ...,
    parameters: ParameterFilter | None = ...,
    estimator: Estimator | EstimatorName = ...,
    risk: Risk | None = ...,
    optimizer_aware: bool = ...,
    renew_statistics: int | None = ...,
    collate: Collate | None = ...,
    device: str | None = ...,
    loader_workers: int = ...,
    progress: bool | Progress | None = ...,
) -> NDArray[np.float64]: ...


@overload
def score(
    model: nn.Module,
    data: Any,
    trajectory: Trajectory | States,
    *,
    loss: Loss = ...,
    batch_size: int | None = ...,
    method: Combination | Score = ...,
    form: Form = ...,
    total_steps: int | None = ...,
    parameters: ParameterFilter | None = ...,
    estimator: Estimator | EstimatorName = ...,
    risk: Mapping[str, Risk],
    optimizer_aware: bool = ...,
    renew_statistics: int | None = ...,
    collate: Collate | None = ...,
    device: str | None = ...,
    loader_workers: int = ...,
    progress: bool | Progress | None = ...,
) -> dict[str, NDArray[np.float64]]: ...


def score(
    model: nn.Module,
    data: Any,
    trajectory: Trajectory | States,
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    method: Combination | Score = "moso",
    form: Form = "paper",
    total_steps: int | None = None,
    parameters: ParameterFilter | None = None,
    estimator: Estimator | EstimatorName = "exact",
    risk: Risk | Mapping[str, Risk] | None = None,
    optimizer_aware: bool = False,
    renew_statistics: int | None = None,
    collate: Collate | None = None,
    device: str | None = None,
    loader_workers: int = 0,
    progress: bool | Progress | None = None,
) -> NDArray[np.float64] | dict[str, NDArray[np.float64]]:
    """Compute the MoSo score of every sample of `data` along a training trajectory.

    The model's weights, mode and gradients are left unchanged.

    Args:
        model: The trained network; weights come from the trajectory, except frozen ones that checkpoints lack.
        data: A pair of arrays, a frame, or a dataset as the network was trained on it, without random augmentation.
        trajectory: The trajectory of a `Recorder`, or checkpoints `(state_dict, learning_rate)`, perhaps with
            `optimizer_moments(model, optimizer)` as a third part; frozen parameters may be missing from the checkpoints
            (docs/library.md).
        loss: Per-sample loss, `loss(model, batch) -> [batch]`. The default takes `(input, label)` pairs, and mappings
            with an entry `label`, whose other tensors are the network's arguments.
        batch_size: Samples per batch; None finds a size that suits the network and the device.
        method: Name of a score that is computed from step terms, a `Score` that needs no other evidence, or `less`,
            which needs a risk and the optimiser's moments.
        form: Form of the MoSo score, `paper` or `centred`.
        total_steps: Number of updates of the run that the checkpoints were taken from; without it, the checkpoints
            count as all updates.
        parameters: Filter by parameter name, for example the last layer only.
        estimator: `exact`, a cheaper approximation (`subsampled`, `sketched`, `last-layer`), or a configured
            `Estimator`.
        risk: Risk to judge samples by in place of the mean loss over `data`: a `SampleRisk` (other samples or
            weights), or a function from the network to a scalar. A dictionary of risks gives one score per risk, in
            one pass over the data per time step.
        optimizer_aware: Compare gradients as the optimiser rescales them (docs/optimizer-aware.md); needs a trajectory
            with the optimiser's moments. With SGD it changes nothing.
        renew_statistics: Batch size, at least 2, with which batch-norm statistics are recomputed from `data` at every
            time step, because the running statistics of a checkpoint lag behind its weights (docs/view.md). The
            training batch size is best. None keeps the statistics of the checkpoints.
        collate: Makes a batch from a list of items, as in a `DataLoader`.
        device: Where to compute, on a copy of the network; None computes where the network is.
        loader_workers: Number of processes that load data; 0 loads in this process.
        progress: True shows a bar, False nothing; None shows one in notebooks and on terminals; or a callback.

    Returns:
        One float64 per sample, in dataset order, shape ``[samples]``; with several risks a dictionary of such arrays.

    Raises:
        MosoError: ``unknown-name``, ``evidence-missing``, ``setting-invalid``, ``wrong-type``, ``data-empty``,
            ``dataset-random``, ``trajectory-incomplete``, ``model-unsuitable``.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> data = (np.eye(2, dtype=np.float32), [0, 1])
        >>> score(model, data, [(model.state_dict(), 0.1)], total_steps=10).shape
        (2,)
        >>> both = score(model, data, [(model.state_dict(), 0.1)], risk={
        ...     "first": SampleRisk.of(data, [0]), "second": SampleRisk.of(data, [1])})
        >>> sorted(both)
        ['first', 'second']
    """
    wanted = _from_terms(method, estimator)
    if renew_statistics is not None and renew_statistics < 2:
        raise errors.SettingInvalid(
            f"renew_statistics={renew_statistics}: batch-norm's statistics need batches of at least 2"
        )
    points = trajectory_of(trajectory, total_steps)
    points = points.optimizer_aware() if optimizer_aware else points
    network = network_for(model, device)
    view = as_view(data, collate, None if loss is cross_entropy else loss)
    check_repeatable(view)
    named = _risks(risk)
    risks = list(named.values()) or None
    if wanted is LESS and risks is None:
        raise errors.SettingMissing(
            "method 'less' compares samples with a target; give risk=moso.SampleRisk.of(target)"
        )
    for point in points:
        point.check_recorded()
    try_loss(network, loss, view)
    positions = np.arange(len(view))
    steps = []
    with shown_progress(progress) as bars:
        for number, point in enumerate(points, 1):
            if renew_statistics is not None:
                point = renewed_statistics(
                    network, point, view, positions, loss=loss, batch_size=renew_statistics,
                    loader_workers=loader_workers,
                )  # fmt: skip
            if wanted is LESS:
                how = Similarity(batch_size=batch_size, loader_workers=loader_workers, parameters=parameters)
                steps.append(similarity_terms(network, point, view, positions, risks or [], loss=loss, how=how))
            else:
                steps.append(
                    risk_terms(
                        network,
                        point,
                        view,
                        positions,
                        risks,
                        loss=loss,
                        batch_size=batch_size,
                        parameters=parameters,
                        loader_workers=loader_workers,
                        estimator=estimator,
                    )
                )
            bars("scoring", number, len(points))

    def combined(number: int) -> NDArray[np.float64]:
        terms = PartitionTerms(total_steps or points.total_steps, [step[number] for step in steps])
        kind = ADAM_SIMILARITIES.name if wanted is LESS else TERMS.name
        return wanted(MemoryInput(len(view), evidence={kind: [terms]}, form=form))

    if isinstance(risk, Mapping):
        return {name: combined(number) for number, name in enumerate(named)}
    return combined(0)


def trajectory_of(given: object, total_steps: int | None) -> Trajectory:
    """Return a trajectory, or refuse what is none with what may have been meant."""
    if isinstance(given, Trajectory):
        return given
    if isinstance(given, str | Path):
        raise errors.WrongType(
            f"trajectory={str(given)!r} is a path; open what a Recorder wrote there with moso.Trajectory.open(path)"
        )
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Mapping):
        raise errors.WrongType(
            "the trajectory is one bare pair (state_dict, learning_rate); give a list of such pairs: [(state, rate)]"
        )
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise errors.WrongType(
            f"the trajectory is of type {type(given).__name__}; give a Trajectory or a list of pairs "
            "(state_dict, learning_rate)"
        )
    states = list(given)
    for number, one in enumerate(states):
        is_pair = isinstance(one, tuple | list) and len(one) in (2, 3)
        if is_pair and len(one) == 3 and not isinstance(one[2], Moments):
            raise errors.WrongType(
                f"checkpoint {number} of the trajectory has a third part of type {type(one[2]).__name__}; give what "
                "moso.optimizer_moments(model, optimizer) returned with it"
            )
        if not (is_pair and isinstance(one[0], Mapping) and isinstance(one[1], int | float | np.number)):
            found = f"{len(one)} parts" if isinstance(one, tuple | list) else type(one).__name__
            raise errors.WrongType(
                f"checkpoint {number} of the trajectory is {found} and no pair (state_dict, learning_rate)"
            )
    return Trajectory.from_states(states, total_steps)


def network_for(model: object, device: str | None) -> nn.Module:
    """Return the network inside of wrappers, or a copy of it on another device; refuse what is no network."""
    if not isinstance(model, nn.Module):
        raise errors.WrongType(
            f"model is of type {type(model).__name__} and no nn.Module; score needs the network itself"
        )
    network = as_network(model)
    check_network(network)
    if device is not None:
        return copy.deepcopy(network).to(available_device(device))
    places = sorted({str(one.device) for one in network.parameters()})
    if len(places) > 1:
        raise errors.ModelUnsuitable(
            f"the network lies on several devices ({', '.join(places)}); bring it to one, or give device="
        )
    return network


def _risks(risk: Any) -> dict[str, Risk]:
    if risk is None:
        return {}
    named = dict(risk) if isinstance(risk, Mapping) else {"risk": risk}
    if not named:
        raise errors.SettingInvalid("risk={} has no risk in it; leave it out, or give at least one")
    for name, one in named.items():
        if not isinstance(one, SampleRisk) and not callable(one):
            raise errors.WrongType(
                f"risk {name!r} is of type {type(one).__name__}; give moso.SampleRisk.of(data), or a function from the "
                "network to one number"
            )
    return named


def _from_terms(method: str | Score, estimator: Estimator | EstimatorName) -> Score:
    """Return the score, looked up by name or as given; refuse one that needs more than step terms."""
    wanted = find_score(method) if isinstance(method, str) else method
    if wanted is LESS:
        return wanted
    if isinstance(method, str) and not (wanted.needed() and wanted.needed() <= _FROM_TERMS):
        possible = [name for name, one in scores().items() if one.needed() and one.needed() <= _FROM_TERMS]
        raise errors.UnknownName(f"score(method=...) takes {', '.join((*possible, LESS.name))}, not {method!r}")
    missing = sorted(wanted.needed() - _FROM_TERMS)
    if missing:
        raise errors.EvidenceMissing(
            f"score {wanted.name!r} needs {', '.join(missing)}, which a trajectory does not have; use a run"
        )
    if "norms" in wanted.needed() and "subsampled" in (estimator, getattr(estimator, "name", None)):
        raise errors.EvidenceMissing(
            f"score {wanted.name!r} needs the gradient norms of all samples, which 'subsampled' leaves out"
        )
    return wanted
