"""Cells: what a declaration comes down to. One retraining each, with the key of everything that decides its value.

The key leaves out what does not decide a value: the experiment that asks, where the data lies, threads and device
(they change the last bits, not what is claimed), and whatever of the pipeline a method does not look at. So random
selection is one cell however surrogates are trained, and experiments share what they have in common.
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
from moso.results.retrainings import Retraining

# What of a configuration all evidence of surrogates was said to depend on when keys were made. The parameters
# that are scored have the name that a selector's have elsewhere, which are then a `selection`: keys must stay.
_OF_SURROGATES = ("partitions", "time_steps", "sampling", "form", "parameters", "estimator", "risk", "probes")


@dataclass(frozen=True, eq=False)
class Cell:
    """One retraining of an arm: its key, its pipeline, and what is kept (nothing is chosen for all data)."""

    key: str
    arm: Arm
    configuration: Configuration
    retraining: Retraining
    choice: ResolvedMethod | None

    @property
    def title(self) -> str:
        """What a person calls it."""
        arm = f"{self.arm.name}, " if self.arm.name else ""
        return f"{arm}{self.retraining.title()}, seed {self.retraining.seed}"


def cells_of(arms: Sequence[Arm], seeds: int | None = None) -> list[Cell]:
    """All cells of these arms, each once; seed by seed, and there the smallest kept shares first.

    `seeds` are how many every arm has, in place of its own number.

    >>> digits = {"model": "mlp-w8", "recipe": "quick", "partitions": 2, "time_steps": 2}
    >>> arm = Arm("digits", digits, (Contender("moso"), Contender("random")), (0.5, 0.8), seeds=1)
    >>> [cell.retraining.title() for cell in cells_of([arm])]
    ['moso/balanced at 0.8', 'random/random at 0.8', 'moso/balanced at 0.5', 'random/random at 0.5', 'on all data']
    """
    found: dict[str, Cell] = {}
    for arm in arms:
        for cell in _cells(arm, arm.seeds if seeds is None else seeds):
            found.setdefault(cell.key, cell)
    # Python's sort is stable: within a ratio, the order of the declaration.
    return sorted(found.values(), key=lambda cell: (cell.retraining.seed, -cell.retraining.ratio))


def _cells(arm: Arm, seeds: int) -> Iterator[Cell]:
    for seed in range(seeds):
        configuration = pipeline(arm, seed)
        network = arm.network or configuration.model
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
    """The run of an arm under one seed, before its data is found: contenders and ratios are asked of it one by one."""
    settings = tuple(sorted((name, json.dumps(value)) for name, value in arm.settings.items()))
    return _pipeline(arm.data, settings, seed)


@lru_cache(maxsize=512)
def _pipeline(data: str, settings: tuple[tuple[str, str], ...], seed: int) -> Configuration:
    dataset = data if data == "digits" else f"parquet:{data}"
    own = {name: json.loads(value) for name, value in settings}
    fixed = {"dataset": dataset, "methods": ["random"], "ratios": [0.5], "seed": seed, "seeds": 1}
    return Configuration.resolve({"threads": 1, **dict(place_of(data).settings), **own, **fixed})


def resolved(configuration: Configuration, contender: Contender) -> ResolvedMethod:
    """A contender with all its settings; refused where it cannot be in such a run."""
    if contender.method in DERIVED:
        choice = derived_choice(configuration, contender)
    else:
        selector = contender.selector or configuration.selector_of(contender.method)
        choice = resolve_method(contender.method, selector, {selector: contender.settings})
    problem = configuration.problem(choice)
    if problem is not None:
        raise errors.MethodImpossible(problem)
    return choice


def stated(settings: BaseModel) -> dict[str, Any]:
    """Settings other than their defaults: one that a later version adds changes no key of what was run before it."""
    return settings.model_dump(mode="json", exclude_defaults=True)


def deciding(
    configuration: Configuration, data: str, retraining: Retraining, choice: ResolvedMethod | None
) -> dict[str, Any]:
    """Everything that decides the value of a cell, and nothing else."""
    c, r = configuration, retraining
    found: dict[str, Any] = {"data": data, "method": r.method, "ratio": r.ratio, "seed": r.seed, "network": r.network}
    found |= {"retraining": stated(c.retraining)}
    found |= {"label_noise": c.label_noise, "resize": c.resize, "test_share": c.test_share}
    if c.validation_share:  # those samples are trained on by nobody
        found["validation_share"] = c.validation_share
    if r.method != FULL:
        found["match"] = r.match
    if choice is None:
        return found
    found |= {"selector": r.selector, "parameters": r.parameters, "score": choice.score_settings.model_dump()}
    needs = choice.needs()
    kinds = needed_kinds(needs)
    if any(kind.network != "none" for kind in kinds):
        found |= {"model": c.model, "surrogate": stated(c.surrogate)}
    if needs_surrogates(needs):
        found |= {"selection": r.parameters} if r.parameters != Retraining.parameters else {}
        found |= {name: getattr(c, name) for name in _OF_SURROGATES}
    for kind in kinds:
        found |= kind.decided(c)
    return found


def by_pipeline(cells: Iterable[Cell]) -> list[list[Cell]]:
    """The cells that share data, settings and seed, and so surrogates, references and scores."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(f"{cell.arm.data} {cell.configuration.digest()}", []).append(cell)
    return list(found.values())


WAVES = 3


def wave_of(cell: Cell) -> int:
    """What has to be there before a cell can be run: nothing, the surrogates of the partitions, or references too."""
    kinds = needed_kinds(() if cell.choice is None else cell.choice.needs())
    waves = {"none": 0, "surrogate": 1, "surrogates": 1}
    return max((waves.get(kind.network, 2) for kind in kinds), default=0)


_ONLY = ("arm", "method", "selector", "ratio", "seed")


def only(cells: Iterable[Cell], words: Sequence[str]) -> list[Cell]:
    """The cells that `NAME=VALUE` words leave: any of the values of a name, all of the names.

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
