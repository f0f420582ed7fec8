"""`select` and `select_weighted`: from scores in memory to the sorted positions of the kept samples."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array, take
from moso.scores.score import Hard
from moso.selection.budget import kept_count
from moso.selection.decided import with_decisions
from moso.selection.feature_rows import Features
from moso.selection.kept_positions import Kept
from moso.selection.minimum import with_minimum
from moso.selection.problem import Problem
from moso.selection.registry import find_selector
from moso.selection.selector import Selector
from moso.selection.share import Keep, asked_ratio
from moso.settings import Settings


def select(
    scores: Any,
    *,
    ratio: float | str | None = None,
    keep: float | int | str | Keep | None = None,
    labels: Any = None,
    selector: str | Selector | None = None,
    seed: int = 0,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    features: Any = None,
    probability: Any = None,
    class_error: Mapping[Any, float] | Sequence[float] | NDArray[Any] | None = None,
    hard: Hard | None = None,
    influences: Any = None,
    evidence: Mapping[str, Any] | None = None,
    min_per_class: int = 0,
    always_keep: Sequence[int] | NDArray[np.int64] = (),
    always_drop: Sequence[int] | NDArray[np.int64] = (),
    settings: Mapping[str, Any] | None = None,
    **more_settings: Any,
) -> NDArray[np.int64]:
    """Return the ascending positions of the samples that are kept when the share `ratio` is removed.

    Args:
        scores: One float per sample, high means keep, shape ``[samples]``; None if the selector needs no scores.
        ratio: Share of samples to remove, in ``[0, 1)``: 0.4 or "40%".
        keep: What stays, in place of `ratio`: a share (0.6, "60%") or a number of samples (3000).
        labels: One class per sample, numbers or names.
        selector: Name of a selector, or a `Selector`; by default `balanced` with labels and `top` without.
        seed: Seed of the selector's random draws.
        ids: One unique id per sample, used to break ties and to address random draws; by default the position.
        features: One row of numbers per sample, shape ``[samples, dimension]``; may be a memory map.
        probability: Mean probability of each sample's label during training, in ``[0, 1]``.
        class_error: Error of each class on held-out data, in ``[0, 1]``: by label, or in the order of the sorted
            labels.
        hard: The end of the scores where the hard samples are, ``"high"`` or ``"low"``.
        influences: Influence of each sample on the parameters, shape ``[samples, dimension]``; may be a memory map.
        evidence: Other rows of numbers per sample, by the name under which the selector needs them.
        min_per_class: Number of samples that every class keeps at least (or all its samples, if it has fewer).
        always_keep: Positions that are kept whatever the selector chooses, within the same budget.
        always_drop: Positions that are removed whatever the selector chooses.
        settings: Settings of the selector by name.
        **more_settings: Further settings of the selector; they override `settings`.

    Raises:
        EvidenceMissing: The selector needs something that was not given.
        RatioOutOfRange: `ratio` is outside ``[0, 1)`` or keeps no sample.
        LengthMismatch: The columns have different lengths.
        SettingInvalid: A setting or value is out of range.
        ValuesNotFinite: A score is NaN, or a feature is not finite.
        MethodImpossible: The selector compares more samples with each other than it can.
        BudgetImpossible: The budget cannot satisfy `min_per_class`, `always_keep`, `always_drop` or the number of
            classes.

    Example:
        >>> select([0.1, 0.9, 0.5, 0.7], keep=2)
        array([1, 3])
        >>> select([0.1, 0.9, 0.5, 0.7], ratio=0.5, labels=[0, 1, 0, 1])
        array([1, 2])
        >>> select([0.1, 0.9, 0.5, 0.7], ratio=0.5, selector="coverage", hard="high", cut=0.25, strata=2)
        array([0, 2])
    """
    return select_weighted(
        scores,
        ratio=ratio,
        keep=keep,
        labels=labels,
        selector=selector,
        seed=seed,
        ids=ids,
        features=features,
        probability=probability,
        class_error=class_error,
        hard=hard,
        influences=influences,
        evidence=evidence,
        min_per_class=min_per_class,
        always_keep=always_keep,
        always_drop=always_drop,
        settings={**(settings or {}), **more_settings},
    ).positions


class SelectArguments(TypedDict, total=False):
    """The arguments of `select` by name, with the same meanings and defaults."""

    ratio: float | str | None
    keep: float | int | str | Keep | None
    labels: Any
    selector: str | Selector | None
    seed: int
    ids: Sequence[Any] | NDArray[Any] | None
    features: Any
    probability: Any
    class_error: Mapping[Any, float] | Sequence[float] | NDArray[Any] | None
    hard: Hard | None
    influences: Any
    evidence: Mapping[str, Any] | None
    min_per_class: int
    always_keep: Sequence[int] | NDArray[np.int64]
    always_drop: Sequence[int] | NDArray[np.int64]
    settings: Mapping[str, Any] | None


def select_weighted(scores: Any, **given: Unpack[SelectArguments]) -> Kept:
    """Return the samples that `select` keeps, with their weights.

    Args:
        scores: As `select` takes them.
        **given: The other arguments of `select`; settings of the selector go into `settings`.

    Returns:
        Ascending positions, and one weight per position: how many samples it stands for. The weights are None for a
        selector without weights. A sample of `always_keep` stands for itself, with weight 1.

    Raises:
        MosoError: Those of `select`.

    Example:
        >>> from moso.selection import Selector
        >>> first = Selector("first", "the first, for all", lambda part: Kept(np.array([0]), np.array([len(part)])))
        >>> kept = select_weighted([0.1, 0.9, 0.5], keep=1, selector=first)
        >>> kept.positions, kept.weights
        (array([0]), array([3.]))
        >>> select_weighted([0.1, 0.9, 0.5], keep=1).weights is None
        True
    """
    labels, selector = given.get("labels"), given.get("selector")
    if selector is None:
        selector = "top" if labels is None else "balanced"
    chosen = find_selector(selector) if isinstance(selector, str) else selector
    _check_positions(given.get("keep"))
    resolved = chosen.fitting(given.get("settings") or {}, given.get("labels") is not None)
    problem = _problem(scores, given, chosen, resolved)
    chosen.check_samples(resolved, problem.labels, len(problem))
    order, problem = _by_id(problem, given.get("ids"))
    least = given.get("min_per_class", 0)

    def plain(part: Problem) -> Kept:
        return chosen(part, resolved)

    def choose(part: Problem) -> Kept:
        return with_minimum(part, least, plain) if least > 0 else plain(part)

    keep, drop = given.get("always_keep", ()), given.get("always_drop", ())
    if len(keep) or len(drop):
        stay, go = (_positions(one, len(problem), order) for one in (keep, drop))
        kept = with_decisions(problem, stay, go, choose)
    else:
        kept = choose(problem)
    return (kept if order is None else kept.within(order)).ascending()


def _problem(scores: Any, given: SelectArguments, chosen: Selector, resolved: Settings) -> Problem:
    """Check what was given, and return the problem in the user's order."""
    labels, ids, hard, error = given.get("labels"), given.get("ids"), given.get("hard"), given.get("class_error")
    probability = given.get("probability")
    tables = {"features": given.get("features"), "influences": given.get("influences"), **(given.get("evidence") or {})}
    there = {"scores": scores, "labels": labels, "probability": probability, **tables}
    there |= {"class-error": error, "hard": hard}
    chosen.check(resolved, frozenset(name for name, value in there.items() if value is not None))
    rows = {name: Features(table) for name, table in tables.items() if table is not None}
    found = None if scores is None else _numbers(scores, "score")
    count = _count(found, *rows.values(), labels, ids)
    values = np.zeros(count) if found is None else found
    chances = None if probability is None else _numbers(probability, "probability", upper=1.0)
    # Labels may be names or any numbers; selectors get class numbers without gaps.
    names, classes = (None, None) if labels is None else _renumbered(np.asarray(labels))
    columns = {"labels": classes, "ids": ids, **{f"rows of {name}": table for name, table in rows.items()}}
    _check_lengths(count, "samples" if found is None else "scores", {**columns, "probabilities": chances})
    _check_options(hard, given.get("min_per_class", 0))
    for name in rows.keys() & chosen.needed(resolved):
        rows[name].check_finite(name)
    mistakes = None if error is None or names is None else _class_errors(error, names)
    budget = kept_count(count, asked_ratio(given.get("ratio"), given.get("keep"), count))
    seed = given.get("seed", 0)
    return Problem(values, budget, classes, rows, chances, mistakes, hard, seed, label_names=names)


def _check_positions(keep: object) -> None:
    """Refuse positions given as `keep`, which said so in earlier versions.

    Raises:
        WrongType: `keep` is a list or array.
    """
    if isinstance(keep, Sequence | np.ndarray) and not isinstance(keep, str):
        raise errors.WrongType("keep= is how much stays (0.6, or 3000 samples); positions go into always_keep=")


def _check_lengths(count: int, what: str, columns: Mapping[str, Sized | None]) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != count:
            raise errors.LengthMismatch(f"there are {count} {what} but {len(column)} {name}")


def _check_options(hard: str | None, min_per_class: int) -> None:
    if hard not in (None, "high", "low"):
        raise errors.SettingInvalid(
            f"hard = {hard!r} must be 'high' or 'low', the end of the scores where the hard samples are"
        )
    if min_per_class < 0:
        raise errors.SettingInvalid(f"min_per_class = {min_per_class} must be a number of samples, 0 or more")


def _positions(
    given: Sequence[int] | NDArray[np.int64], count: int, order: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Convert positions in the user's order to positions in the problem's order, ascending, each once."""
    positions = np.unique(np.asarray(given, dtype=np.int64))
    if len(positions) and not 0 <= positions[0] <= positions[-1] < count:
        raise errors.SampleUnknown(
            f"there is no sample {positions[0] if positions[0] < 0 else positions[-1]} to keep or drop"
        )
    if order is None:
        return positions
    places = np.empty(count, dtype=np.int64)
    places[order] = np.arange(count)
    return np.sort(places[positions])


def _renumbered(labels: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the sorted distinct labels, and the index of each sample's label among them."""
    if labels.dtype != np.int64 or not len(labels) or labels.min() < 0 or labels.max() >= len(labels):
        return np.unique(labels, return_inverse=True)
    # Fast path for class indices, without a sort.
    present = np.bincount(labels) > 0
    names = np.flatnonzero(present)
    return names, labels if len(names) == len(present) else take(np.cumsum(present) - 1, labels)


def _count(*columns: Any) -> int:
    for column in columns:
        if column is not None:
            return len(column)
    raise errors.EvidenceMissing("nothing says how many samples there are; give scores, one number per sample")


def _numbers(given: object, name: str, upper: float | None = None) -> NDArray[np.float64]:
    values = np.asarray(given, dtype=np.float64)
    plural = "probabilities" if name == "probability" else f"{name}s"
    if values.ndim != 1 or len(values) == 0:
        raise errors.ShapeMismatch(f"{plural} must be one number per sample, not of shape {values.shape}")
    if np.isnan(values).any():
        first = int(np.argmax(np.isnan(values)))
        raise errors.ValuesNotFinite(f"the {name} of sample {first} is NaN; every sample needs a {name}")
    if upper is not None and ((values < 0) | (values > upper)).any():
        first = int(np.argmax((values < 0) | (values > upper)))
        raise errors.SettingInvalid(f"the {name} of sample {first} is {values[first]:g}, outside [0, {upper:g}]")
    return values


def _class_errors(given: Mapping[Any, float] | Sequence[float] | Array, names: Array) -> NDArray[np.float64]:
    if isinstance(given, Mapping):
        missing = [name for name in names.tolist() if name not in given]
        if missing:
            raise errors.ClassesMismatch(f"class_error has nothing for class {missing[0]!r}")
        shares = np.array([given[name] for name in names.tolist()], dtype=np.float64)
    else:
        shares = np.asarray(given, dtype=np.float64)
        whole = names.dtype.kind in "iu" and names.min() >= 0
        if whole and shares.ndim == 1 and len(shares) > names.max():
            shares = shares[names]  # given by class index, possibly with entries for classes without samples
    if shares.shape != names.shape:
        raise errors.ShapeMismatch(
            f"class_error must be one number per class: there are {len(names)} classes, not {shares.shape}"
        )
    if not ((shares >= 0) & (shares <= 1)).all():
        raise errors.SettingInvalid("class_error must be shares between 0 and 1, one per class")
    return shares


def _by_id(problem: Problem, ids: Sequence[object] | Array | None) -> tuple[NDArray[np.int64] | None, Problem]:
    """Sort the problem by id.

    Returns:
        The user's position of each sample of the sorted problem (None if the order is the same), and the problem.
    """
    if ids is None:
        return None, problem
    if _ascending(np.asarray(ids)):
        return None, replace(problem, ids=np.asarray(ids))
    unique, order = np.unique(np.asarray(ids), return_index=True)
    if len(unique) != len(problem):
        raise errors.IdsNotUnique(
            f"ids must be unique, but {len(problem)} samples have only {len(unique)} different ids"
        )
    return order, replace(problem, ids=np.asarray(ids)).subset(order, problem.budget)


def _ascending(ids: Array) -> bool:
    """Return whether the ids are strictly ascending."""
    return bool((ids[1:] > ids[:-1]).all())
