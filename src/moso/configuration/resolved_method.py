"""A method with a selector, both resolved: the score, how samples are selected, and the evidence that both need.

Settings of scores and selectors have one syntax everywhere, `NAME.SETTING=VALUE`: on the command line
`--setting coverage.cut=0.2`, in a TOML file the line `coverage.cut = 0.2` under `[settings]`. They override the
settings of a method, which override defaults.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moso import errors
from moso.errors import unknown_name
from moso.evidence_kinds.registry import BEHIND, find_kind
from moso.methods import Method, find_method
from moso.scores import Score, scores
from moso.selection import Selector, find_selector, selectors
from moso.settings import Settings

Given = Mapping[str, Mapping[str, Any]]
FEATURES, EMBEDDING = "features", "embedding"


@dataclass(frozen=True)
class ResolvedMethod:
    """A method with its selector and settings; together with a ratio and a seed it decides which samples are kept."""

    method: str
    score: Score | None
    selector: Selector
    score_settings: Settings
    settings: Settings
    min_per_class: int = 0
    is_own: bool = False  # the user imported the score or list into the run
    overrides: str = ""  # hash of manual decisions in the run
    features: str = "reference"  # whose features samples are compared by: the reference's, or those of the embedding

    @property
    def parameters(self) -> str:
        """The settings of the selector as JSON, recorded with a selection; later ones if they are not the default."""
        least = {"min_per_class": self.min_per_class} if self.min_per_class else {}
        by_hand = {"overrides": self.overrides} if self.overrides else {}
        return json.dumps({**self.settings.identity(), **least, **by_hand})

    def needs(self) -> frozenset[str]:
        """Return the names of the evidence that score and selector need."""
        own = frozenset() if self.score is None else self.score.needed(self.score_settings)
        return frozenset(map(self._measured, own)) | self.selector_needs()

    def selector_needs(self) -> frozenset[str]:
        """Return the names of the evidence that the selector needs in addition to scores."""
        asked = self.selector.needed(self.settings) - {"scores", "hard"}
        return frozenset({"labels"} if self.min_per_class else ()) | {self._measured(name) for name in asked}

    def _measured(self, name: str) -> str:
        """Return the name of the evidence that is measured where a score or selector asks for one."""
        return EMBEDDING if name == FEATURES and self.features == EMBEDDING else BEHIND.get(name, name)

    def problem(self) -> str | None:
        """Return one sentence on why this pair is impossible, or None if it is possible."""
        asked, selector = self.selector.needed(self.settings), self.selector.name
        if self.score is None and "scores" in asked:
            return (
                f"method {self.method!r} has no score, and selector {selector!r} chooses by one; "
                "name another method or another selector"
            )
        if "hard" in asked and (self.score is None or self.score.hard is None):
            what = f"method {self.method!r}" if self.score is None else f"score {self.score.name!r}"
            return (
                f"selector {selector!r} cuts off the hard end of a score, and {what} has no hard end; "
                f"use another selector, or the setting {selector}.cut=0"
            )
        unknown = {name for name in asked - {"scores", "hard"} if find_kind(BEHIND.get(name, name)) is None}
        if unknown:
            return f"selector {selector!r} needs {min(unknown)!r}, which no run records; call moso.select with it"
        missing = [name for name in sorted(self.needs()) if find_kind(name) is None]
        if missing and self.score is not None:
            return f"score {self.score.name!r} needs {missing[0]!r}, which no run records"
        return None

    def by_class(self) -> bool:
        """Return whether samples are selected class by class."""
        return "labels" in self.selector.needed(self.settings)


def resolve_method(
    method: str | Method,
    selector: str | Selector | None,
    given: Given,
    min_per_class: int = 0,
    score: Score | None = None,
    by_class: bool = True,
) -> ResolvedMethod:
    """Resolve a method and a selector with a user's settings.

    Args:
        method: Name or object.
        selector: Name or object; None takes the selector of the method.
        given: Settings by score or selector, then by name.
        min_per_class: Samples that every class keeps.
        score: Score in place of that of the method.
        by_class: Whether samples have classes; without them, selectors that go class by class take all together.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``.

    Example:
        >>> resolve_method("ccs", None, {"coverage": {"cut": "0.1"}}).parameters
        '{"classes": "together", "cut": 0.1, "strata": 50, "by": "score"}'
        >>> resolve_method("herding", "top", {}).problem()
        "method 'herding' has no score, and selector 'top' chooses by one; ..."
    """
    found = find_method(method) if isinstance(method, str) else method
    if selector is None or selector == found.selector:
        chosen = found.find_selector()
    else:
        chosen = selector if isinstance(selector, Selector) else find_selector(selector)
    own = found.settings if chosen.name == found.selector else {}
    score = score or found.find_score()
    about_score = {} if score is None else {k: v for k, v in given.get(score.name, {}).items() if _has(score, k)}
    about_selector = {k: v for k, v in given.get(chosen.name, {}).items() if _has(chosen, k)}
    return ResolvedMethod(
        found.name,
        score,
        chosen,
        Settings() if score is None else score.resolved(about_score),
        chosen.fitting({**own, **about_selector}, by_class),
        min_per_class,
    )


def read_settings(given: Iterable[str] | Given) -> dict[str, dict[str, Any]]:
    """Read settings of scores and selectors from a TOML table or from texts `NAME.SETTING=VALUE`, and check them.

    Returns:
        Values by score or selector, then by name, sorted.

    Raises:
        MosoError: ``unknown-name``, ``setting-invalid``.

    Example:
        >>> read_settings(["coverage.cut=0.2"])
        {'coverage': {'cut': 0.2}}
        >>> read_settings(["coverage.cutt=0.2"])
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: selector 'coverage' has no setting 'cutt'; it has: classes, cut, strata, by
    """
    found: dict[str, dict[str, Any]] = {}
    for owner, name, value in _entries(given):
        found.setdefault(owner, {})[name] = _checked(owner, name, value)
    return {owner: dict(sorted(found[owner].items())) for owner in sorted(found)}


def _entries(given: Iterable[str] | Given) -> Iterable[tuple[str, str, Any]]:
    if isinstance(given, Mapping):
        for owner, table in given.items():
            if not isinstance(table, Mapping):
                raise errors.SettingInvalid(f"[settings] {owner} = {table!r} is not of the form NAME.SETTING = VALUE")
            yield from ((owner, name, value) for name, value in table.items())
        return
    if not isinstance(given, str | list | tuple):
        raise errors.SettingInvalid(f"settings = {given!r} is not of the form NAME.SETTING = VALUE")
    for text in [given] if isinstance(given, str) else given:
        left, equals, value = str(text).partition("=")
        owner, dot, name = left.strip().rpartition(".")
        if not (equals and dot and owner and name):
            raise errors.SettingInvalid(
                f"setting {text!r} is not of the form NAME.SETTING=VALUE, such as coverage.cut=0.2"
            )
        yield owner, name, value.strip()


def _checked(owner: str, name: str, value: Any) -> Any:
    """Parse a value by the selector or score of this name; if both have the name, by the one with this setting."""
    owners: list[Score | Selector] = [one for one in (selectors().get(owner), scores().get(owner)) if one is not None]
    if not owners:
        raise unknown_name("selector or score", owner, {*selectors(), *scores()})
    fits = [one for one in owners if _has(one, name)]
    return getattr((fits or owners)[0].resolved({name: value}), name)


def _has(owner: Score | Selector, name: str) -> bool:
    return any(option.name == name for option in owner.options())


def all_needs(choices: Iterable[ResolvedMethod]) -> frozenset[str]:
    """Return the names of the evidence that these choices need together."""
    return frozenset().union(*(choice.needs() for choice in choices))
