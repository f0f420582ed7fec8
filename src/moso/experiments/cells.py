"""Cells: one retraining each, the units of work of a declaration, with the key of everything that decides the value.

The key leaves out what does not decide a value: the name of the experiment, the location of the data, threads and
device (they change the last bits, not the claim), and the settings of the pipeline that a method does not depend on. So
random selection is one cell however surrogates are trained, and experiments share their common cells.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from moso import errors
from moso.configuration import Configuration
from moso.configuration.resolved_method import ResolvedMethod, resolve_method
from moso.errors import unknown_name
from moso.evaluation.summary import FULL
from moso.evidence_kinds.registry import needed_kinds, needs_surrogates
from moso.experiments.declaration import Arm, Contender
from moso.experiments.derived import DERIVED, derived_choice
from moso.experiments.places import place_of
from moso.experiments.results import key_of
from moso.methods.auto import AUTO
from moso.results.retrainings import Retraining

# The settings in the keys of methods with surrogates, fixed when the first keys were made: keys must stay stable.
# `parameters` here are the scored parameters of the network; the selector's parameters, which elsewhere have that
# name, are then stored under `selection`.
_OF_SURROGATES = ("partitions", "time_steps", "sampling", "form", "parameters", "estimator", "risk", "probes")


@dataclass(frozen=True, eq=False)
class Cell:
    """One retraining of an arm: its key, its pipeline, and the resolved method (None for training on all data)."""

    key: str
    arm: Arm
    configuration: Configuration
    retraining: Retraining
    choice: ResolvedMethod | None

    @property
    def title(self) -> str:
        """The name for people."""
        arm = f"{self.arm.name}, " if self.arm.name else ""
        return f"{arm}{self.retraining.title()}, seed {self.retraining.seed}"


def cells_of(arms: Sequence[Arm], seeds: int | None = None) -> list[Cell]:
    """Return all cells of these arms, each once; ordered by seed, then by ratio, the largest ratio first.

    Args:
        arms: The arms of a preset.
        seeds: Number of seeds of every arm; by default the arm's own number.

    Example:
        >>> digits = {"model": "mlp-w8", "recipe": "quick", "partitions": 2, "time_steps": 2}
        >>> arm = Arm("digits", digits, (Contender("moso"), Contender("random")), (0.5, 0.8), seeds=1)
        >>> [cell.retraining.title() for cell in cells_of([arm])]
        ['moso/balanced at 0.8', 'random/random at 0.8', 'moso/balanced at 0.5', 'random/random at 0.5', 'on all data']
    """
    found: dict[str, Cell] = {}
    for arm in arms:
        for cell in _cells(arm, arm.seeds if seeds is None else seeds):
            found.setdefault(cell.key, cell)
    # The sort is stable, so cells of the same ratio keep the order of the declaration.
    return sorted(found.values(), key=lambda cell: (cell.retraining.seed, -cell.retraining.ratio))


def _cells(arm: Arm, seeds: int) -> Iterator[Cell]:
    for seed in range(seeds):
        configuration = pipeline(arm, seed)
        network = arm.network or configuration.retrained_network
        about = network, configuration.recipe, configuration.match
        for ratio in arm.ratios:
            for contender in arm.contenders:
                choice = resolved(configuration, contender)
                own = Retraining(choice.method, choice.selector.name, ratio, seed, *about, parameters=choice.parameters)
                yield _cell(arm, configuration, own, choice)
            for name in arm.baselines:
                yield _cell(arm, configuration, Retraining(name, "none", ratio, seed, *about), None)
        if arm.all_data:
            yield _cell(arm, configuration, Retraining(FULL, "none", 0.0, seed, *about), None)


def _cell(arm: Arm, configuration: Configuration, retraining: Retraining, choice: ResolvedMethod | None) -> Cell:
    decided = deciding(configuration, arm.data, retraining, choice)
    return Cell(key_of(decided), arm, configuration, retraining, choice)


def pipeline(arm: Arm, seed: int) -> Configuration:
    """Return the configuration of an arm under one seed, without the location of its data.

    Methods and ratios in it are placeholders; cells ask for theirs one by one.
    """
    settings = tuple(sorted((name, json.dumps(value)) for name, value in arm.settings.items()))
    return _pipeline(arm.data, settings, seed)


@lru_cache(maxsize=512)
def _pipeline(data: str, settings: tuple[tuple[str, str], ...], seed: int) -> Configuration:
    # The name decides the task and the kind of inputs; where the data lies is found out when it is opened.
    source = "features" if len(place_of(data).shape) == 1 else "parquet"
    dataset = data if data == "digits" else f"{source}:{data}"
    own = {name: json.loads(value) for name, value in settings}
    fixed = {"dataset": dataset, "methods": ["random"], "ratios": [0.5], "seed": seed, "seeds": 1}
    # Published cells have the reference's features, also where the embedding would be the same.
    usual = {"threads": 1, "view": "evaluation", "features": "reference"}
    return Configuration.resolve({**usual, **dict(place_of(data).settings), **own, **fixed})


def resolved(configuration: Configuration, contender: Contender) -> ResolvedMethod:
    """Return a contender's method with all its settings.

    Raises:
        MethodImpossible: The method cannot be part of such a run.
    """
    if contender.method == AUTO:
        choice = configuration.choice(AUTO)
    elif contender.method in DERIVED:
        choice = derived_choice(configuration, contender)
    else:
        selector = contender.selector or configuration.selector_of(contender.method)
        choice = resolve_method(contender.method, selector, {selector: contender.settings})
    problem = configuration.problem(choice)
    if problem is not None:
        raise errors.MethodImpossible(problem)
    return choice


def stated(settings: BaseModel) -> dict[str, Any]:
    """Return the settings that differ from their defaults, so that a setting added later changes no existing key."""
    return settings.model_dump(mode="json", exclude_defaults=True)


def deciding(
    configuration: Configuration, data: str, retraining: Retraining, choice: ResolvedMethod | None
) -> dict[str, Any]:
    """Return everything that decides the value of a cell, and nothing else, as plain values."""
    c, r = configuration, retraining
    found: dict[str, Any] = {"data": data, "method": r.method, "ratio": r.ratio, "seed": r.seed, "network": r.network}
    found |= {"retraining": stated(c.retraining)}
    found |= {"label_noise": c.label_noise, "resize": c.resize, "test_share": c.test_share}
    if c.noise_kind != "symmetric":
        found["noise_kind"] = c.noise_kind
    if c.validation_share:  # no network trains on these samples
        found["validation_share"] = c.validation_share
    if r.method != FULL:
        found["match"] = r.match
    if choice is None:
        return found
    found |= {"selector": r.selector, "parameters": r.parameters, "score": choice.score_settings.identity()}
    if choice.method == AUTO:
        found["trial_share"] = c.trial_share
    needs = choice.needs()
    kinds = needed_kinds(needs)
    if any(kind.network != "none" for kind in kinds):
        found |= {"model": c.model, "surrogate": stated(c.surrogate)}
        found |= {"embed": c.embed} if c.embed else {}
    if needs_surrogates(needs):
        found |= {"selection": r.parameters} if r.parameters != Retraining.parameters else {}
        found |= {name: getattr(c, name) for name in _OF_SURROGATES}
    for kind in kinds:
        found |= kind.decided(c)
    return found


def by_pipeline(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Group the cells that share data, settings and seed, and therefore surrogates, references and scores."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(f"{cell.arm.data} {cell.configuration.digest()}", []).append(cell)
    return list(found.values())


WAVES = 3


def wave_of(cell: Cell) -> int:
    """Return the wave of a cell, by what it needs: 0 nothing, 1 surrogates of the partitions, 2 also references."""
    kinds = needed_kinds(() if cell.choice is None else cell.choice.needs())
    waves = {"none": 0, "surrogate": 1, "surrogates": 1}
    return max((waves.get(kind.network, 2) for kind in kinds), default=0)


_ONLY = ("arm", "method", "selector", "ratio", "seed")


def only(cells: Iterable[Cell], words: Sequence[str]) -> list[Cell]:
    """Return the cells that match `NAME=VALUE` words: any of the values of a name, and all names.

    Args:
        cells: The cells to filter.
        words: Words such as ``ratio=0.8``; a word without ``=`` is a method.

    Raises:
        UnknownName: A name is not a part of a cell.
        SettingInvalid: No cell is left, or a value is not a number.

    Example:
        >>> only([], ["colour=red"])
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown part of a cell 'colour'; nearest: selector ...
    """
    asked: dict[str, set[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            name, value = "method", word
        if name not in _ONLY:
            raise unknown_name("part of a cell", name, _ONLY)
        asked.setdefault(name, set()).add(value)
    found = [cell for cell in cells if all(_is(cell, name, values) for name, values in asked.items())]
    if words and not found:
        raise errors.SettingInvalid(f"no cell of the experiment is left by --only {' --only '.join(words)}")
    return found


def _is(cell: Cell, name: str, values: set[str]) -> bool:
    parts = {"arm": cell.arm.name, "method": cell.retraining.method, "selector": cell.retraining.selector}
    numbers = {"ratio": cell.retraining.ratio, "seed": float(cell.retraining.seed)}
    if name in parts:
        return parts[name] in values
    return any(abs(_number(name, value) - numbers[name]) < 1e-9 for value in values)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError as problem:
        raise errors.SettingInvalid(f"--only {name}={value}: {name} is a number") from problem
