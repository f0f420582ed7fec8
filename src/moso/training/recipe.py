"""Recipes: how surrogates are trained and how the kept samples are trained on again. Data, not code.

A recipe is a TOML file with a table `[surrogate]` and a table `[retraining]`; the recipes of this package are in
`recipes/`, and users give their own by path. An accuracy means nothing without its recipe, so the whole recipe is
written into every run.
"""

import tomllib
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from moso import errors
from moso.data.augment import Augmentation
from moso.registry import Registry
from moso.training.optimizers.registry import find_rule, rules

Schedule = Literal["cosine", "multi-step", "one-cycle", "constant"]
Precision = Literal["float32", "bfloat16", "float16"]
Match = Literal["epochs", "steps", "batches"]
Kind = TypeVar("Kind", bound=BaseModel)


def _known(optimizer: str) -> str:
    try:
        return find_rule(optimizer).name
    except errors.MosoError as problem:
        raise _refused(str(problem)) from problem


# Settings that were added after the first runs were written.
_LATER = {"beta2", "epsilon", "trunk_factor"}


class TrainingRecipe(BaseModel):
    """The settings of one training run, independent of network and data.

    MoSo's formula is about stochastic gradient descent. Adam and AdamW exist because some networks do not train without
    them; scores then weigh time steps by the learning rate and compare raw gradients, not gradients as Adam rescales
    them.

    Example:
        >>> TrainingRecipe(epochs=2, batch_size=64, learning_rate=0.1, schedule="cosine").momentum
        0.9
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    optimizer: Annotated[str, AfterValidator(_known)] = Field(
        "sgd", description="; ".join(f"{rule.name}: {rule.description}" for rule in rules().values())
    )
    epochs: int = Field(ge=1, le=1_000_000, description="passes over the data")
    batch_size: int = Field(ge=1, le=2**31, description="samples per step, at most; batches are equal to within one")
    learning_rate: float = Field(gt=0, description="the highest rate of the run")
    trunk_factor: float = Field(
        1.0, gt=0, description="what the rate of trained parameters before the classifier is multiplied by"
    )
    schedule: Schedule = Field(description="how the rate changes from step to step")
    final_learning_rate: float = Field(0.0, ge=0, description="where the cosine ends")
    milestones: tuple[float, ...] = Field(
        (), strict=False, description="shares of the run after which multi-step lowers the rate"
    )
    decay: float = Field(0.1, gt=0, le=1, description="what multi-step multiplies the rate by at each milestone")
    warmup_epochs: float = Field(
        0.0, ge=0, le=1_000_000, description="epochs over which the rate first rises, in equal steps"
    )
    momentum: float = Field(
        0.9, ge=0, lt=1, description="share of the last update that is carried on; beta1 of adam and adamw"
    )
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    beta2: float = Field(0.999, ge=0, lt=1, description="share of the last second moment that is carried on")
    epsilon: float = Field(1e-8, gt=0, description="what is added to the root of the second moment")
    weight_decay: float = Field(0.0, ge=0, description="pull of all parameters towards zero; adamw's is decoupled")
    clip_norm: float | None = Field(None, gt=0, description="largest norm of a step's gradient; without it, any")
    augmentation: Augmentation = Field("none", description="random changes of the training view")
    precision: Precision = Field("float32", description="numbers of the forward pass; below float32 by autocast")
    channels_last: bool = Field(False, description="memory order of images and filters, faster on some devices")

    @model_validator(mode="after")
    def _hang_together(self) -> Self:
        if self.schedule == "multi-step":
            if not self.milestones:
                raise _refused("schedule 'multi-step' needs milestones, as shares of the run such as [0.3, 0.6, 0.8]")
            ordered = all(
                low < high for low, high in zip((0.0, *self.milestones), (*self.milestones, 1.0), strict=True)
            )
            if not ordered:
                found = ", ".join(f"{share:g}" for share in self.milestones)
                raise _refused(f"milestones must be ascending shares of the run between 0 and 1, not [{found}]")
        elif self.milestones:
            raise _refused(f"milestones belong to schedule 'multi-step', not to '{self.schedule}'")
        if self.final_learning_rate and self.schedule != "cosine":
            raise _refused(f"final_learning_rate belongs to schedule 'cosine', not to '{self.schedule}'")
        if self.final_learning_rate > self.learning_rate:
            raise _refused(
                f"final_learning_rate {self.final_learning_rate:g} is above learning_rate {self.learning_rate:g}"
            )
        if self.warmup_epochs and self.schedule == "one-cycle":
            raise _refused("schedule 'one-cycle' warms up by itself; leave warmup_epochs out")
        if self.nesterov and self.momentum == 0:
            raise _refused("nesterov needs a momentum above 0")
        for name in type(self).model_fields:
            owners = [rule.name for rule in rules().values() if name in rule.own_settings]
            if owners and self.optimizer not in owners and not self._is_default(name):
                named = " or ".join(repr(owner) for owner in owners)
                raise _refused(f"{name} belongs to optimizer {named}, not to '{self.optimizer}'")
        return self

    def _is_default(self, name: str) -> bool:
        return bool(getattr(self, name) == type(self).model_fields[name].default)

    @model_serializer(mode="wrap")
    def _without_later_settings(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Written only if they differ from the default, so that files and digests of older recipes stay the same.
        values: dict[str, Any] = handler(self)
        return {name: value for name, value in values.items() if name not in _LATER or not self._is_default(name)}

    def changed(self, **changes: Any) -> "TrainingRecipe":
        """Return the same recipe with other values, validated again; `None` leaves a value as it is.

        Raises:
            RecipeInvalid: A value is not allowed.

        Example:
            >>> load_recipe("quick").surrogate.changed(epochs=3, batch_size=None).epochs
            3
        """
        given = {name: value for name, value in changes.items() if value is not None}
        return _validated(TrainingRecipe, {**self.model_dump(), **given}, "the recipe")


class Recipe(BaseModel):
    """How surrogates are trained, how kept samples are trained on, and what a comparison of the two holds equal.

    Example:
        >>> load_recipe("paper-cifar").surrogate.epochs
        50
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="what it is called")
    description: str = Field(description="what it is for and where it comes from")
    match: Match = Field(
        description="what retraining on less data keeps equal to training on all of it: epochs, optimiser steps, or "
        "epochs in smaller batches (batches)"
    )
    surrogate: TrainingRecipe = Field(description="the training that leaves the trajectory")
    retraining: TrainingRecipe = Field(description="the training that measures what the kept samples are worth")


RECIPES = Registry("recipe", Recipe, "moso.recipes")


def recipes() -> list[tuple[str, str]]:
    """Return the name and description of every recipe, including those of installed packages.

    Example:
        >>> "digits" in dict(recipes())
        True
    """
    return [(name, recipe.description) for name, recipe in RECIPES.all().items()]


def load_recipe(name: str) -> Recipe:
    """Return a recipe by its name, or by the path of a TOML file.

    Raises:
        UnknownName: There is no recipe of this name.
        FileUnreadable: The file cannot be read or is not valid TOML.
        RecipeInvalid: A setting is missing, unknown or out of range.

    Example:
        >>> load_recipe("quik")
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown recipe 'quik'; nearest: quick ...
    """
    found = RECIPES.find(name)
    if found is not None:
        return found
    path = Path(name)
    if path.suffix != ".toml":
        raise RECIPES.unknown(name, "PATH.toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise errors.FileUnreadable(f"recipe {name} cannot be read: {reason}") from problem
    return _parsed(text, path.stem, f"recipe {name}")


def written_recipe(values: dict[str, Any], source: str) -> TrainingRecipe:
    """Return a training recipe from the values in a run's own file.

    Args:
        values: All settings by name.
        source: Name of the recipe in errors.

    Raises:
        RecipeInvalid: A setting is missing, unknown or out of range.

    Example:
        >>> values = {"epochs": 2, "batch_size": 64, "learning_rate": 0.1, "schedule": "cosine"}
        >>> written_recipe(values, "[surrogate]").epochs
        2
    """
    return _validated(TrainingRecipe, values, source)


def _packaged(name: str) -> Recipe:
    text = (resources.files("moso.training") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    return _parsed(text, name, f"recipe '{name}'")


def _parsed(text: str, name: str, source: str) -> Recipe:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise errors.FileUnreadable(f"{source} is not valid TOML: {problem}") from problem
    return _validated(Recipe, {"name": name, **values}, source)


def _validated(kind: type[Kind], values: dict[str, Any], source: str) -> Kind:
    try:
        return kind.model_validate(values)
    except ValidationError as problem:
        raise errors.RecipeInvalid(
            f"{source}: {'; '.join(_sentence(error) for error in problem.errors())}"
        ) from problem


def _sentence(error: Any) -> str:
    field = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return f"{field} is missing"
        case "extra_forbidden":
            return f"{field} is not a setting of a recipe"
        case "recipe":
            return f"{field}: {error['msg']}" if field else str(error["msg"])
        case _:
            message = str(error["msg"])
            return f"{field} is {error['input']!r}: {message[0].lower()}{message[1:]}"


def _refused(sentence: str) -> PydanticCustomError:
    # PydanticCustomError reads braces as placeholders of a template.
    return PydanticCustomError("recipe", sentence.replace("{", "(").replace("}", ")"))


for _file in sorted((resources.files("moso.training") / "recipes").iterdir(), key=lambda one: one.name):
    _name = _file.name.removesuffix(".toml")
    if _name != _file.name:
        RECIPES.register_lazily(_name, partial(_packaged, _name))
