"""The user's own network: `package.module:factory`, found on the import path or in the current folder.

The factory is any callable that returns an `nn.Module`. It is called with those of `num_classes=`, `input_shape=` and,
for texts, `vocabulary=` that it takes.
"""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from moso import errors
from moso.code_trust import check_allowed


def from_factory(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    vocabulary: int | None = None,
    *,
    pretrained: bool = False,
) -> nn.Module:
    """Return the network that the factory called `package.module:factory` makes.

    Args:
        name: `package.module:factory`.
        input_shape: Shape of one input.
        classes: Number of outputs.
        vocabulary: Number of token ids, if inputs are texts.
        pretrained: Call the factory with `pretrained=True`.

    Raises:
        CodeUntrusted: Only a file names it, and nobody allowed it.
        ModelNameInvalid: There is no such module or attribute.
        FactoryBroken: The module or the factory fails, or the result is not a module.
        SettingsConflict: `pretrained` is asked of a factory that does not take it.

    Example:
        >>> from_factory("torch.nn:Flatten", (1, 8, 8), classes=10)
        Flatten(start_dim=1, end_dim=-1)
        >>> from_factory("torch.nn:Flaten", (1, 8, 8), classes=10)
        Traceback (most recent call last):
        ...
        moso.errors.ModelNameInvalid: module 'torch.nn' has no 'Flaten'; the form is package.module:factory
    """
    factory = _find(name)
    tokens = {} if vocabulary is None else {"vocabulary": vocabulary}
    arguments = _arguments(name, factory, {"num_classes": classes, "input_shape": input_shape, **tokens})
    if pretrained:
        if "pretrained" not in inspect.signature(factory).parameters:
            raise errors.SettingsConflict(
                f"the factory '{name}' takes no argument pretrained=; leave pretrained out if it loads its own"
            )
        arguments["pretrained"] = True
    try:
        made = factory(**arguments)
    except Exception as problem:
        raise errors.FactoryBroken(f"the factory '{name}' failed: {_where(problem)}") from problem
    if not isinstance(made, nn.Module):
        raise errors.FactoryBroken(
            f"the factory '{name}' gave a {type(made).__name__} where a torch.nn.Module was expected"
        )
    return made


def _find(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    if not module_name:
        raise errors.ModelNameInvalid(f"'{name}' names no module; the form is package.module:factory")
    check_allowed(name)
    here = str(Path.cwd())
    if here not in sys.path:
        # Last, so that no file of the folder is imported in place of an installed package; it stays, because the user's
        # code may import more later.
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (module_name == problem.name or module_name.startswith(f"{problem.name}.")):
            raise errors.ModelNameInvalid(
                f"there is no module '{problem.name}' for the network '{name}'; "
                "run from the folder that holds it, or install it"
            ) from problem
        raise errors.FactoryBroken(f"module '{module_name}' cannot be imported: {_where(problem)}") from problem
    except Exception as problem:
        raise errors.FactoryBroken(f"module '{module_name}' cannot be imported: {_where(problem)}") from problem
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise errors.ModelNameInvalid(
                f"module '{module_name}' has no '{attribute}'; the form is package.module:factory"
            )
        found = getattr(found, part)
    if not callable(found):
        raise errors.FactoryBroken(
            f"'{name}' is a {type(found).__name__} and cannot be called; give a function or a class that makes it"
        )
    factory: Callable[..., Any] = found
    return factory


def _arguments(name: str, factory: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(factory)
    except ValueError as problem:  # some compiled callables have no signature
        raise errors.FactoryBroken(
            f"'{name}' does not say which arguments it takes; wrap it in a Python function"
        ) from problem
    parameters = signature.parameters.values()
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    taken = {key: value for key, value in offered.items() if takes_any or key in signature.parameters}
    try:
        signature.bind(**taken)
    except TypeError as problem:
        raise errors.FactoryBroken(
            f"the factory '{name}' cannot be called with {'= and '.join(offered)}= alone ({problem}); "
            "give its other parameters a default"
        ) from problem
    return taken


def _where(problem: Exception) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{place}"
