"""Methods by name: a score and the selector its source uses. Any score combines with any selector."""

from dataclasses import dataclass

from moso.errors import unknown_name
from moso.scores import SCORES
from moso.selection import selectors


@dataclass(frozen=True)
class Method:
    """A named preset of a score and a selector."""

    name: str
    score: str
    selector: str
    description: str


METHODS = {
    method.name: method
    for method in (
        Method("moso", "moso", "balanced", "Proposition 1.1 to the letter, the top of each class"),
        Method("moso-standardised", "moso-standardised", "balanced", "MoSo, all stages of training on one scale"),
        Method("moso-rank", "moso-rank", "balanced", "MoSo by rank at all stages of training"),
        Method("random", "random", "random", "random selection, what every method has to beat"),
    )
}


def find_method(name: str) -> Method:
    """The method of this name.

    >>> find_method("moso").selector
    'balanced'
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def listing() -> list[dict[str, str]]:
    """Every method, score and selector: its name, what kind of thing it is, and a sentence about it.

    >>> [row["needs"] for row in listing() if row["name"] == "balanced"]
    ['labels, scores']
    """
    rows = [
        {"name": m.name, "kind": "method", "description": m.description, "score": m.score, "selector": m.selector}
        for m in METHODS.values()
    ]
    rows += [{"name": s.name, "kind": "score", "description": s.description, "needs": s.needs} for s in SCORES.values()]
    rows += [
        {
            "name": s.name,
            "kind": "selector",
            "description": s.description,
            "needs": ", ".join(sorted(s.needed())),
            "settings": ", ".join(f"{option.name}={option.default}" for option in s.options()),
        }
        for s in selectors().values()
    ]
    return rows
