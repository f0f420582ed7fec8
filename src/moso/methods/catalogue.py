"""The catalogue of methods, scores and selectors, as rows for tables and programs."""

from typing import Any, get_args

from moso.methods.method import Family, Method
from moso.methods.registry import methods
from moso.scores import Score, scores
from moso.selection import Selector, selectors
from moso.settings import Option

FAMILIES: tuple[Family, ...] = get_args(Family)


def listing() -> list[dict[str, Any]]:
    """Return one row per method, score and selector: name, kind, description, needed evidence, settings, source.

    Methods come by family; what they can do without and what they cost is derived from the evidence that they need.

    Example:
        >>> [row["needs"] for row in listing() if row["name"] == "balanced"]
        ['labels, scores']
        >>> [row["hard"] for row in listing() if (row["name"], row["kind"]) == ("aum", "score")]
        ['low']
        >>> k_center = next(row for row in listing() if (row["name"], row["kind"]) == ("k-center", "method"))
        >>> k_center["family"], k_center["without_labels"], k_center["without_training"], k_center["cost"]
        ('coverage', True, False, 'one network on all data; a forward pass')
    """
    known = sorted(methods().values(), key=lambda method: FAMILIES.index(method.group()))
    rows = [_of_method(method) for method in known]
    rows += [_of_score(score) for score in scores().values()]
    return rows + [_of_selector(selector) for selector in selectors().values()]


def _of_method(method: Method) -> dict[str, Any]:
    traits = method.traits()
    return {
        "name": method.name,
        "kind": "method",
        "family": method.group(),
        "when": method.when or method.description,
        "description": method.description,
        "score": method.score,
        "selector": method.selector,
        "settings": dict(method.settings),
        "needs": ", ".join(sorted(method.needs())),
        "without_labels": traits.without_labels,
        "without_training": traits.without_training,
        "embeddings_alone": traits.embeddings_alone,
        "cost": traits.cost,
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
