"""Import torchvision, timm and transformers even if torchvision's compiled part does not fit the installed torch.

With a CPU-only torch beside a torchvision built for another torch, the compiled part does not load, and the import
fails with `operator torchvision::nms does not exist`. Data sets, transforms and models of torchvision, timm and
transformers (which imports torchvision if it is installed) do not need the compiled part. Declaring the operators for
which torchvision registers fake kernels is enough.

torchvision is first imported as it is, and operators are declared only after that import has failed because they are
missing. Declaring them first would be a guess, and a wrong guess is fatal: an operator declared twice, here and by a
compiled part that does load, aborts the process. For the same reason the declarations end with the import that needs
them.
"""

import importlib
import re
import sys
from importlib.util import find_spec
from types import ModuleType

import torch

from moso import errors
from moso.quiet import quiet_notices

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_MISSING = re.compile(r"torchvision::(\w+).* does not exist")
_EXTRAS = {"torchvision": "vision", "timm": "vision", "transformers": "text"}


def import_torchvision() -> ModuleType:
    """Import `torchvision`.

    Raises:
        PackageMissing: It is not installed.
        PackageIncompatible: It cannot be imported beside the installed torch.
    """
    return _import("torchvision")


def import_timm() -> ModuleType:
    """Import `timm`.

    Raises:
        PackageMissing: timm or torchvision is not installed.
        PackageIncompatible: torchvision cannot be imported beside the installed torch.
    """
    return _import("timm")


def import_transformers() -> ModuleType:
    """Import `transformers`.

    Raises:
        PackageMissing: It is not installed.
        PackageIncompatible: It needs a newer torch, or an installed torchvision, which it imports, does not import.
    """
    transformers = _import("transformers")
    if not transformers.is_torch_available():  # with an old torch the import succeeds, but there are no networks
        raise errors.PackageIncompatible(
            f"transformers {transformers.__version__} does not work with torch {torch.__version__}; "
            'install a newer torch, or an older transformers: pip install "transformers==5.0.0"'
        )
    return transformers


def _import(name: str) -> ModuleType:
    prepare_torchvision()
    try:
        with quiet_notices():
            return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        extra = _EXTRAS.get(problem.name or "")
        if extra is None:
            raise
        raise errors.package_missing(problem.name or "", extra) from problem


def prepare_torchvision() -> None:
    """Import torchvision if it is installed, so that a later import of it, or of a package that needs it, succeeds.

    Raises:
        PackageIncompatible: It is installed and cannot be imported beside the installed torch.

    Example:
        >>> prepare_torchvision()
    """
    if "torchvision" in sys.modules or find_spec("torchvision") is None:
        return
    try:
        with quiet_notices():
            _import_torchvision()
    except (AttributeError, ImportError, OSError, RuntimeError) as problem:
        _forget_torchvision()
        raise errors.PackageIncompatible(
            f"torchvision is installed and does not import beside torch {torch.__version__} ({problem}); "
            "install a torchvision that was made for it: pip install --upgrade torch torchvision"
        ) from problem


def _import_torchvision() -> None:
    try:
        importlib.import_module("torchvision")
    except RuntimeError as problem:
        missing = _MISSING.search(str(problem))
        if missing is None or missing[1] not in _SCHEMAS:
            raise
        _forget_torchvision()
        # Operators live as long as the library object that declared them: until this function returns. All are declared
        # at once, because older versions of torch refuse the fake kernels of a third import after a second one.
        library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name, schema in _SCHEMAS.items():
            if not hasattr(torch.ops.torchvision, name):
                library.define(schema)  # type: ignore[no-untyped-call]
        importlib.import_module("torchvision")


def _forget_torchvision() -> None:
    """Remove the modules that a failed import leaves behind, so that the next import starts afresh."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
