"""The configuration: all settings that decide the results of a run, and none that only affect its speed.

`run.toml` holds the configuration; given to `moso run`, it reproduces the run byte for byte on the same machine.
"""

import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ConfigDict, ValidationError, ValidationInfo, field_validator

from moso import errors
from moso.configuration.candidates import LEAST_PARTITIONS, undecided
from moso.configuration.device import resolve_device
from moso.configuration.fields import (
    FORMAT,
    DataFields,
    NetworkFields,
    PlaceFields,
    ProofFields,
    ScoringFields,
    SelectionFields,
)
from moso.configuration.label_free import label_problem, settle_features, settle_task
from moso.configuration.network_settings import check_networks, fitting_networks, retraining_recipe
from moso.configuration.resolved_method import ResolvedMethod, all_needs, read_settings, resolve_method
from moso.errors import unknown_name
from moso.evaluation.baselines import BASELINES, FEWER_STEPS
from moso.evidence.estimators import IN_RUN
from moso.evidence_kinds.registry import about_classes, needed_kinds
from moso.methods import Method, find_method, methods, out_of_sample_names
from moso.methods.auto import AUTO, CHOSEN
from moso.models import Start
from moso.scores import Score
from moso.selection import Selector, check_ratio
from moso.selection.share import parse_share
from moso.settings import check_texts
from moso.training.in_run import check_in_run
from moso.training.recipe import TrainingRecipe, load_recipe, written_recipe

# Shortcuts for settings of a recipe, which `resolve` writes into the recipes of surrogates and retraining.
_BOTH = {"epochs", "batch_size", "learning_rate", "trunk_factor", "augmentation"}
_SHORTCUTS = {*_BOTH, "retrain_epochs", "memorization_subsets", "out_of_sample"}


class Configuration(PlaceFields, ProofFields, SelectionFields, ScoringFields, NetworkFields, DataFields):
    """The resolved settings of one run: data, network, training and scoring of surrogates, selection, evaluation.

    Example:
        >>> configuration = Configuration.resolve({"dataset": "digits", "ratios": [0.5], "epochs": 3})
        >>> configuration.surrogate.epochs, configuration.partitions, configuration.methods
        (3, 5, ('moso-rank',))
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    surrogate: TrainingRecipe
    retraining: TrainingRecipe

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic accepts true as the number 1.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("a truth value is no number and no text")
        return value

    @field_validator("methods", "selectors", "ratios", "baselines", mode="before")
    @classmethod
    def _each_once(cls, values: Any, info: ValidationInfo) -> Any:
        """Take a list, or one value for a list of one; ratios as people write them: 0.4, or 40% as a text."""
        listed = list(values) if isinstance(values, list | tuple) else [values]
        if info.field_name == "ratios":
            listed = [parse_share(value) if isinstance(value, str | int | float) else value for value in listed]
        for number, value in enumerate(listed):
            if value == "":
                raise ValueError("an empty name; leave it out")
            if value in listed[:number]:
                raise ValueError(f"{value!r} is named twice; name it once")
        return tuple(listed)

    @classmethod
    def resolve(cls, given: dict[str, Any]) -> "Configuration":
        """Return the configuration of a user's settings; the recipe and defaults supply the rest.

        Args:
            given: Settings by name, including shortcuts for those of the recipe (`epochs`, `batch_size`, ...).

        Raises:
            MosoError: ``unknown-name``, ``setting-invalid``, ``format-unknown``, and those of `check`.
        """
        values = {name: value for name, value in given.items() if value is not None}
        for name in ("ratios", "methods"):
            if values.get(name) == []:
                raise errors.SettingInvalid(f"{name} = []: name at least one, or leave it out")
        values = {name: value for name, value in values.items() if value != []}
        known = {*cls.model_fields, *_SHORTCUTS, "classless"}
        for name in values:
            if name not in known:
                raise unknown_name("setting", name, known)
        if values.get("format", FORMAT) != FORMAT:
            raise errors.FormatUnknown(
                f"format {values['format']} is not known to this version, which reads format {FORMAT}"
            )
        if "format" in values:
            # A run that was written before these settings existed, or with other defaults, keeps its meaning.
            values = {"view": "evaluation", "methods": ["moso", "moso-standardised", "moso-rank"], **values}
        shortcuts = {name: values.pop(name) for name in _SHORTCUTS if name in values}
        dataset = str(values.get("dataset", "digits"))
        settle_task(values, dataset)
        model, recipe = fitting_networks(values, dataset)
        values.setdefault("model", model)
        settle_features(values, dataset)
        # A file with a format was written by a run and holds its whole recipe; the named recipe may have changed since.
        named = None if "format" in values else load_recipe(str(values.setdefault("recipe", recipe)))
        for stage in ("surrogate", "retraining"):
            table = values.get(stage, {})
            if not isinstance(table, dict):
                raise errors.SettingInvalid(f"[{stage}] must be a table of a recipe's settings, not {table!r}")
            start = getattr(named, stage) if named is not None else written_recipe(table, f"[{stage}]")
            changes = {**table, **{name: value for name, value in shortcuts.items() if name in _BOTH}}
            if values.get("embed") and stage == "surrogate":
                changes.pop("augmentation", None)  # it is for pictures, and surrogates see features
            if stage == "retraining" and named is not None:
                start = retraining_recipe(values, dataset) or start
            if stage == "retraining" and "retrain_epochs" in shortcuts:
                changes["epochs"] = shortcuts["retrain_epochs"]
            values[stage] = start.changed(**changes)
        if named is not None:
            values.setdefault("match", named.match)
        for name in ("match", "also_match", "methods", "baselines"):
            check_texts(name, values.get(name, ""))
        if isinstance(values.get("match"), list | tuple):
            values["match"], *others = dict.fromkeys(values["match"])
            values["also_match"] = (*values.get("also_match", ()), *others)
        values["settings"] = read_settings(values.get("settings", {}))
        if "memorization_subsets" in shortcuts:
            subsets = [f"memorization.subsets={shortcuts['memorization_subsets']}"]
            values["settings"]["memorization"] = read_settings(subsets)["memorization"]
        every = "all" in values.get("methods", ())
        if every:
            values["methods"] = ()
        if "none" in values.get("baselines", ()):
            values["baselines"] = ()
        if values.get("estimator") == IN_RUN:
            values.setdefault("time_steps", max(1, values["surrogate"].epochs - 1))
        values["device"] = resolve_device(str(values.get("device", "auto")))
        configuration = cls._validated(values)
        if every:
            configuration = configuration.model_copy(update={"methods": configuration.possible_methods()})
        if shortcuts.get("out_of_sample"):
            configuration = configuration.model_copy(
                update={"methods": out_of_sample_names(configuration.methods, every)}
            )
        configuration.check()
        return configuration

    @classmethod
    def _validated(cls, values: dict[str, Any]) -> "Configuration":
        try:
            return cls.model_validate(values)
        except ValidationError as problem:
            error = problem.errors()[0]
            name = ".".join(str(part) for part in error["loc"])
            message = error["msg"][0].lower() + error["msg"][1:]
            raise errors.SettingInvalid(f"{name} = {error['input']!r}: {message}") from problem

    @classmethod
    def read(cls, path: Path) -> "Configuration":
        """Read the configuration in a TOML file.

        Raises:
            MosoError: ``file-unreadable``, and those of `resolve`.
        """
        return cls.resolve(read_toml(path))

    def check(self) -> None:
        """Refuse unknown names, invalid ratios and settings that exclude each other, before anything is loaded.

        Raises:
            MosoError: ``method-impossible``, ``setting-invalid``, ``settings-conflict``, ``ratio-out-of-range``,
                ``unknown-name``.
        """
        for choice in self.choices():
            problem = self.problem(choice)
            if problem is not None:
                raise errors.MethodImpossible(problem)
        if self.early_epochs > self.surrogate.epochs:
            raise errors.SettingInvalid(
                f"early_epochs = {self.early_epochs} is beyond the {self.surrogate.epochs} epochs of a surrogate"
            )
        for ratio in self.ratios:
            check_ratio(ratio)
        for name in self.baselines:
            if name not in BASELINES:
                raise unknown_name("baseline", name, BASELINES)
        check_networks(self)
        if self.estimator == IN_RUN:
            check_in_run(self.surrogate)
        if self.risk != "train" and self.estimator != "exact":
            raise errors.SettingsConflict(
                f"risk {self.risk!r} is differentiated exactly; it does not go with estimator {self.estimator}"
            )
        if self.optimizer_aware and self.estimator not in ("exact", "subsampled"):
            raise errors.SettingsConflict(
                f"optimizer_aware scores take estimator 'exact' or 'subsampled', not {self.estimator!r}"
            )
        if self.view == "training" and (self.estimator == IN_RUN or self.shard_size):
            other = (
                "estimator 'in-run', which is as training sees them anyway" if self.estimator == IN_RUN else "shards"
            )
            raise errors.SettingsConflict(f"view = 'training' does not go with {other}; leave one of the two out")
        if self.shard_size and (self.estimator != "exact" or self.risk != "train"):
            raise errors.SettingsConflict(
                f"shard_size = {self.shard_size} splits the exact scoring by the training risk; leave it out "
                f"with estimator {self.estimator!r} and risk {self.risk!r}"
            )
        alone = self.shard_size or self.probes or self.memorization_subsets
        if self.rounds > 1 and (self.estimator == IN_RUN or alone or AUTO in self.methods):
            raise errors.SettingsConflict(
                f"rounds = {self.rounds}: later rounds score samples that were not trained on, one method at a time; "
                "leave estimator 'in-run', shard_size, probes, memorization_subsets and method 'auto' out"
            )
        if self.risk != "train" and self.probes:
            raise errors.SettingsConflict(
                f"probes = {self.probes}: only the training risk has a self term to probe; leave it out"
            )

    def to_toml(self) -> str:
        """Return the whole configuration as TOML."""
        values = self.model_dump(mode="json", exclude_none=True)
        return tomli_w.dumps({name: value for name, value in values.items() if value != ""})

    def digest(self) -> str:
        """Return a short hash of all settings that decide what is computed; the tolerance is read afterwards."""
        text = json.dumps(self.model_dump(mode="json", exclude={"tolerance"}), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def difference(self, other: "Configuration") -> list[str]:
        """Return the names of the settings in which two configurations differ."""
        mine, theirs = self.model_dump(), other.model_dump()
        return [name for name in mine if mine[name] != theirs[name]]

    def pairs(self) -> list[tuple[str, str]]:
        """Return the (method, selector) pairs of this run, including the random baselines."""
        chosen = []
        for method in self.methods:
            # `auto` chooses its selector itself; one that is meant for no other method is refused (`problem`).
            named = () if method == AUTO and len(self.methods) > 1 else self.selectors
            chosen += [(method, selector) for selector in (named or (self.selector_of(method),))]
        mixed = [("random", self._by_class("balanced"))] if self.by_class else []
        baselines = [("random", "random"), *mixed]
        return list(dict.fromkeys([*chosen, *baselines]))

    def selector_of(self, method: str | Method) -> str:
        """Return the selector of a method; without classes, `top` replaces a selector that needs them.

        On uneven classes `proportional` replaces `balanced` (`class_mix`).
        """
        own = find_method(method) if isinstance(method, str) else method
        by_class = "labels" in own.find_selector().needed()
        if by_class and not self.by_class and own.score is not None:
            return "top"
        return self._by_class(own.selector)

    def _by_class(self, selector: str) -> str:
        return "proportional" if selector == "balanced" and self.class_mix == "as-is" else selector

    def choice(
        self, method: str | Method, selector: str | Selector | None = None, score: Score | None = None
    ) -> ResolvedMethod:
        """Resolve a method and a selector with the settings of this run.

        Args:
            method: Name or object.
            selector: Name or object; None takes the selector of the method.
            score: Score in place of that of the method.

        Raises:
            MosoError: ``unknown-name``, ``setting-invalid``.
        """
        own = find_method(method) if isinstance(method, str) else method
        if own.name == AUTO and selector in (None, CHOSEN, CHOSEN.name):
            return undecided(self)
        found = resolve_method(
            own, selector or self.selector_of(own), self.settings, self.min_per_class, score, by_class=self.by_class
        )
        return replace(found, features=self.features)

    def choices(self) -> list[ResolvedMethod]:
        """Return the pairs of this run, resolved."""
        return [self.choice(method, selector) for method, selector in self.pairs()]

    def needs(self) -> frozenset[str]:
        """Return the names of the evidence that the methods and selectors of this run need."""
        return all_needs(self.choices())

    def problem(self, choice: ResolvedMethod) -> str | None:
        """Return one sentence on why a choice is impossible in this run, or None if it is possible."""
        needs, score = choice.needs(), choice.score
        if choice.method == AUTO and (self.partitions < LEAST_PARTITIONS or choice.selector.name != CHOSEN.name):
            return (
                f"method {AUTO!r} tries candidates on partitions that no score has looked at, and finds the selector "
                f"itself; use {LEAST_PARTITIONS} partitions or more, and no selector with it"
            )
        unlabelled = label_problem(self, choice)
        if unlabelled is not None:
            return unlabelled
        if choice.min_per_class and not self.by_class:
            return "min_per_class counts samples of a class, but the samples have no classes"
        if choice.by_class() and not self.by_class:
            return (
                f"selector {choice.selector.name!r} chooses class by class, but the samples have no classes; use 'top'"
            )
        if not self.by_class and about_classes(needs):
            return f"method {choice.method!r} looks at predicted classes, but the samples have no classes"
        for kind in needed_kinds(needs):
            problem = kind.problem(self, choice.method, choice.selector.name)
            if problem is not None:
                return problem
        if score is not None and score.least_epochs > self.surrogate.epochs:
            return (
                f"score {score.name!r} compares epochs and needs at least {score.least_epochs}, but surrogates are "
                f"trained for {self.surrogate.epochs}; train longer (epochs)"
            )
        return choice.problem()

    def possible_methods(self) -> tuple[str, ...]:
        """Return every method that is possible in this run with all of its selectors.

        Raises:
            MosoError: ``method-impossible`` if there is none.
        """

        def can_be(name: str) -> bool:
            return all(self.problem(self.choice(name, one)) is None for one in self.selectors or (None,))

        found = tuple(name for name in methods() if name != AUTO and can_be(name))
        if not found:
            raise errors.MethodImpossible(f"no method goes with selector {', '.join(self.selectors)} here; name others")
        return found

    @property
    def start(self) -> Start:
        """The weights that the network of `model` starts from (with `embed`, that network), and what of it moves."""
        return Start(self.pretrained, self.weights, self.train)

    @property
    def retrained_network(self) -> str:
        """The name of the network that is retrained on kept samples."""
        return self.retrain_model or (self.embed if self.prove == "network" else self.model)

    @property
    def early_epoch(self) -> int:
        """The epoch after which early scores are computed; by default a tenth of training, at least 1."""
        return self.early_epochs or max(1, round(self.surrogate.epochs / 10))

    @property
    def matches(self) -> tuple[str, ...]:
        """Everything that retrainings keep equal, one after the other; the first is that of headline and verdict."""
        return tuple(dict.fromkeys((self.match, *self.also_match)))

    def retrained_baselines(self, match: str = "") -> list[str]:
        """Return the baselines to retrain; with equal steps, the one with fewer steps is left out.

        With equal steps pruning saves none, so that baseline would be the retraining on all data.

        Args:
            match: What retrainings keep equal; empty for `match` of the run.
        """
        return [name for name in self.baselines if not (name == FEWER_STEPS and (match or self.match) == "steps")]

    @property
    def memorization_subsets(self) -> int:
        """The number of random subsets that `memorization` trains networks on; 0 asks the surrogates."""
        return int(self.settings.get("memorization", {}).get("subsets", 0))

    @property
    def memory_limit_bytes(self) -> int:
        """The memory limit in bytes."""
        return int(self.memory_limit * 2**30)

    def all_seeds(self) -> list[int]:
        """Return the seeds of this run."""
        return list(range(self.seed, self.seed + self.seeds))


def read_toml(path: Path) -> dict[str, Any]:
    """Read the settings of a TOML file.

    Raises:
        MosoError: ``file-unreadable``.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise errors.FileUnreadable(f"{path} cannot be read as TOML: {problem}") from problem
