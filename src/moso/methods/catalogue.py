"""The catalogue of methods, scores and selectors, as rows for tables and programs."""

from typing import Any

from moso.methods.method import Method
from moso.methods.registry import methods
from moso.scores import Score, scores
from moso.selection import Selector, selectors
from moso.settings import Option


def listing() -> list[dict[str, Any]]:
    """Return one row per method, score and selector: name, kind, description, needed evidence, settings, source.

    Example:
        >>> [row["needs"] for row in listing() if row["name"] == "balanced"]
        ['labels, scores']
        >>> [row["hard"] for row in listing() if (row["name"], row["kind"]) == ("aum", "score")]
        ['low']
    """
    rows = [_of_method(method) for method in methods().values()]
    rows += [_of_score(score) for score in scores().values()]
    return rows + [_of_selector(selector) for selector in selectors().values()]


def _of_method(method: Method) -> dict[str, Any]:
    score, selector = method.find_score(), method.find_selector()
    needs = selector.needed(selector.resolved(method.settings)) - {"scores", "hard"}
    return {
        "name": method.name,
        "kind": "method",
        "description": method.description,
        "score": method.score,
        "selector": method.selector,
        "settings": dict(method.settings),
        "needs": ", ".join(sorted(needs | (score.needed() if score is not None else frozenset()))),
        "source": method.source,
    }


def _of_score(score: Score) -> dict[str, Any]:
    return {
        **_of_either("score", score),
        "keep": score.keep,
        "hard": score.hard,
        "scale": score.scale,
        "formula": score.formula,
        "settings": _settings(score.options()),
        "source": score.source,
    }


def _of_selector(selector: Selector) -> dict[str, Any]:
    return {**_of_either("selector", selector), "settings": _settings(selector.options())}


def _of_either(kind: str, entry: Score | Selector) -> dict[str, Any]:
    needs = ", ".join(sorted(entry.needed()))
    return {"name": entry.name, "kind": kind, "description": entry.description, "needs": needs}


def _settings(options: list[Option]) -> dict[str, dict[str, Any]]:
    return {
        option.name: {"default": option.default, "meaning": option.text, "allowed": option.allowed}
        for option in options
    }
