"""Importing torchvision, timm and transformers where torchvision's compiled part does not fit the installed torch.

A CPU-only torch beside a torchvision built for another one: the compiled part does not load, and the import
dies on `operator torchvision::nms does not exist`, although its data sets, transforms and models, timm and
transformers (which imports it wherever it is installed) need none of it. Declaring the two operators it registers
fakes for is enough. Where torchvision is whole, its compiled part is loaded first and nothing is declared.
"""

import importlib
import sys
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

from moso.errors import MosoError

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# Operators live as long as the library object that declared them.
_declared: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """The module `torchvision`, or a sentence that says how to install it."""
    return _import("torchvision")


def import_timm() -> ModuleType:
    """The module `timm`, or a sentence that says how to install it."""
    return _import("timm")


def import_transformers() -> ModuleType:
    """The module `transformers`, or a sentence that says how to install it."""
    return _import("transformers")


_EXTRAS = {"torchvision": "vision", "timm": "vision", "transformers": "text"}


def _import(name: str) -> ModuleType:
    declare_missing_operators()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        extra = _EXTRAS.get(problem.name or "")
        if extra is None:
            raise
        raise MosoError(f'{problem.name} is not installed; pip install "moso-prune[{extra}]" installs it') from problem


def declare_missing_operators() -> None:
    """Declare what torchvision's compiled part would have, if it cannot be loaded."""
    if "torchvision" in sys.modules:
        return
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    _load_compiled_part(Path(spec.origin).parent)
    missing = [schema for name, schema in _SCHEMAS.items() if not hasattr(torch.ops.torchvision, name)]
    if missing:
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for schema in missing:
            library.define(schema)  # type: ignore[no-untyped-call]
        _declared.append(library)


def _load_compiled_part(folder: Path) -> None:
    found = FileFinder(str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("_C")
    if found is None or found.origin is None:
        return
    # Built against another torch it does not load: this is the case that the declarations are for.
    with suppress(OSError):
        torch.ops.load_library(found.origin)  # type: ignore[no-untyped-call]
