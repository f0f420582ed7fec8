"""Settings of scores and selectors: frozen pydantic models whose fields declare default, description and limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from moso import errors

_FORMS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


class Settings(BaseModel):
    """Base class of settings: one subclass per score or selector, every field with a default and a description.

    Example:
        >>> from pydantic import Field
        >>> class Window(Settings):
        ...     window: int = Field(10, ge=2, description="epochs of a window")
        >>> Window().window
        10
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # Fields that were added after results had been published under keys of the others.
    later: ClassVar[frozenset[str]] = frozenset()

    def identity(self) -> dict[str, Any]:
        """Return the values that identify a result: without later fields that have their default.

        Example:
            >>> from pydantic import Field
            >>> class Window(Settings):
            ...     later = frozenset({"overlap"})
            ...     window: int = Field(10, description="epochs of a window")
            ...     overlap: int = Field(0, description="epochs that two windows share")
            >>> Window().identity(), Window(overlap=1).identity()
            ({'window': 10}, {'window': 10, 'overlap': 1})
        """
        usual = type(self).model_fields
        return {
            name: value
            for name, value in self.model_dump().items()
            if name not in self.later or value != usual[name].default
        }

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth_value(cls, value: object, info: ValidationInfo) -> Any:
        # pydantic accepts True as the number 1.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError
        return value

    def needs(self) -> frozenset[str]:
        """Return the evidence that these values require in addition to what the score always needs."""
        return frozenset()


Kind = TypeVar("Kind", bound=Settings)


@dataclass(frozen=True)
class Option:
    """One setting as a listing or a command line shows it."""

    name: str
    default: Any
    text: str
    allowed: str


def options(kind: type[Settings]) -> list[Option]:
    """Return every setting of a class, in the order of the source.

    Example:
        >>> from pydantic import Field
        >>> class Window(Settings):
        ...     window: int = Field(10, ge=2, description="epochs of a window")
        >>> [(option.name, option.default, option.allowed) for option in options(Window)]
        [('window', 10, 'at least 2')]
    """
    return [
        Option(name, field.default, field.description or "", _allowed(field))
        for name, field in kind.model_fields.items()
    ]


def resolve(owner: str, kind: type[Kind], given: Mapping[str, object]) -> Kind:
    """Validate a user's values and return the settings; text is parsed as a number where a number is expected.

    Args:
        owner: The score or selector that has the settings, for error messages.
        kind: The class of the settings.
        given: Values by name.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``.

    Example:
        >>> from pydantic import Field
        >>> class Window(Settings):
        ...     window: int = Field(10, ge=2, description="epochs of a window")
        >>> resolve("score 'dyn-unc'", Window, {"window": "5"}).window
        5
        >>> resolve("score 'dyn-unc'", Window, {"window": 1})
        Traceback (most recent call last):
        ...
        moso.errors.SettingInvalid: score 'dyn-unc': window = 1 must be a whole number at least 2
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as problem:
        error, known = problem.errors()[0], kind.model_fields
        name = str(error["loc"][0])
        if name not in known:
            has = ", ".join(known) or "none"
            raise errors.UnknownName(f"{owner} has no setting {name!r}; it has: {has}") from problem
        parts = (_FORMS.get(known[name].annotation, ""), _allowed(known[name]))
        expected = " ".join(part for part in parts if part)
        raise errors.SettingInvalid(f"{owner}: {name} = {given[name]!r} must be {expected}") from problem


def _allowed(field: FieldInfo) -> str:
    """Return the allowed values in words: choices or limits."""
    if get_origin(field.annotation) is Literal:
        return f"one of {', '.join(map(str, get_args(field.annotation)))}"
    limits = [
        f"{words} {getattr(limit, name):g}"
        for limit in field.metadata
        for name, words in _LIMITS.items()
        if hasattr(limit, name)
    ]
    return " and ".join(limits)


def check_texts(name: str, given: object) -> None:
    """Refuse what is neither a name nor a list of names, before anything looks into it.

    Raises:
        SettingInvalid: The value is of another type.

    Example:
        >>> check_texts("methods", "moso-rank"), check_texts("methods", ["moso-rank", "el2n"])
        (None, None)
    """
    if not isinstance(given, str) and not (
        isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
    ):
        raise errors.SettingInvalid(f"{name} = {str(given)[:100]}: give a name, or a list of names")
