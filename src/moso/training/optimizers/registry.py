"""The optimisers that recipes may name."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from moso.errors import unknown_name
from moso.training.optimizers.rule import Rule


@cache
def rules() -> dict[str, Rule]:
    """Return every optimiser by name: the `RULE` of each file of this package that defines one.

    Example:
        >>> list(rules())
        ['adam', 'adamw', 'sgd']
    """
    package = __name__.rpartition(".")[0]
    found = import_module(package).__path__
    modules = [import_module(f"{package}.{one.name}") for one in iter_modules(found)]
    return {one.RULE.name: one.RULE for one in modules if isinstance(getattr(one, "RULE", None), Rule)}


def find_rule(name: str) -> Rule:
    """Return the optimiser of this name.

    Raises:
        UnknownName: There is none.

    Example:
        >>> find_rule("adma")
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown optimizer 'adma'; nearest: adam, adamw (known: adam, adamw, sgd)
    """
    if name not in rules():
        raise unknown_name("optimizer", name, rules())
    return rules()[name]
