"""Weights from a file: read as plain tensors, matched to a network by name, and every misfit named.

A `.safetensors` file holds tensors only. A `.pth`, `.pt` or `.bin` file is a pickle and is read by PyTorch's restricted
unpickler (`weights_only`), which admits tensors and plain containers. Names may carry the prefix of a wrapper
(`module.`, `model.`, `backbone.`), on either side. If no name fits but all tensors have the shapes of the network's,
one by one in order, they are taken in that order. The classifier is left as it was initialised if the file's has
another shape or another name.
"""

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from moso import errors
from moso.models.head import classifier_head

# Keys below which training programs keep the weights in a checkpoint, in order of preference.
_DEEPEST = 10  # containers around a state dict; a file may hold itself
_NESTED = ("state_dict", "model_state_dict", "model_ema", "model", "module", "net", "network", "weights", "params")
_COUNTER = "num_batches_tracked"  # missing from old files; only batch-norm without momentum reads it
_NAMED = 5

Tensors = dict[str, torch.Tensor]


def read_weights(path: Path | str) -> Tensors:
    """Read the tensors of a file by name.

    Args:
        path: A `.safetensors` file, or a `.pth`, `.pt` or `.bin` file of plain tensors.

    Raises:
        FileMissing: There is no such file.
        FileUnsafe: The file holds objects that only a full unpickler would make.
        FileUnreadable: The file is none of these formats, is damaged, or holds no tensors.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.pth"
        >>> torch.save({"epoch": 3, "state_dict": nn.Linear(2, 1).state_dict()}, path)
        >>> sorted(read_weights(path))
        ['bias', 'weight']
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise errors.FileMissing(f"there is no file {file} with weights")
    found = _safetensors(file) if file.suffix == ".safetensors" else _restricted(file)
    for _ in range(_DEEPEST):
        if not isinstance(found, Mapping):
            break
        tensors = {str(name): one for name, one in found.items() if isinstance(one, torch.Tensor)}
        below = next((found[key] for key in _NESTED if isinstance(found.get(key), Mapping)), None)
        if below is None or len(tensors) > len(below):
            if tensors:
                return tensors
            break
        found = below
    raise errors.FileUnreadable(f"{file} holds no tensors by name; weights are a state dict")


def _safetensors(file: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (SafetensorError, OSError) as problem:
        raise errors.FileUnreadable(f"{file} is not a readable safetensors file: {problem}") from problem


def _restricted(file: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the age of the format, beside the errors below
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        raise errors.FileUnsafe(
            f"{file} holds more than plain tensors and is not opened; save the state dict alone, best as safetensors"
        ) from problem
    except Exception as problem:  # the unpickler may raise any exception for wrong bytes
        raise errors.FileUnreadable(
            f"{file} is not a readable file of weights: {str(problem).partition(chr(10))[0] or type(problem).__name__}"
        ) from problem


def load_weights(model: nn.Module, tensors: Tensors, where: str) -> None:
    """Copy tensors into a network; its classifier stays as initialised if the tensors are for other classes.

    Args:
        model: The network, changed in place.
        tensors: Tensors by name.
        where: Name of the file in errors.

    Raises:
        WeightsMismatch: Tensors are missing, left over, or of another shape; the message names them.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> other = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1000))
        >>> load_weights(model, {f"module.{name}": one for name, one in other.state_dict().items()}, "other.pth")
        >>> bool((model[0].weight == other[0].weight).all())
        True
    """
    own = {name: one for name, one in model.state_dict().items() if isinstance(one, torch.Tensor)}
    head = _head_names(model)
    given = _renamed(tensors, own)
    if not any(name in own and name not in head for name in given):
        given = _in_order(tensors, own, head) or given
    _check_fit(own, given, head, where)
    fitting = {name: one for name, one in given.items() if name in own and one.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)


def _head_names(model: nn.Module) -> set[str]:
    """Return the names of the classifier's tensors; empty if the network has none that can be found."""
    try:
        name, head = classifier_head(model)
    except errors.ModelUnsuitable:
        return set()
    return {f"{name}.{one}" if name else one for one in head.state_dict()}


def _renamed(tensors: Tensors, own: Tensors) -> Tensors:
    """Return the tensors under the names of the network: without a prefix, or with one, whichever fits most."""

    def prefixes(names: Mapping[str, Any]) -> set[str]:
        found = set()
        for name in names:
            parts = name.split(".")
            found |= {".".join(parts[:depth]) + "." for depth in range(1, min(4, len(parts)))}
        return found

    candidates = [tensors]
    for prefix in sorted(prefixes(tensors)):
        candidates.append({name.removeprefix(prefix): one for name, one in tensors.items()})
    for prefix in sorted(prefixes(own)):
        candidates.append({prefix + name: one for name, one in tensors.items()})
    # Ties go to the first: names as they are.
    return max(candidates, key=lambda one: sum(name in own and one[name].shape == own[name].shape for name in one))


def _in_order(tensors: Tensors, own: Tensors, head: set[str]) -> Tensors | None:
    """Return the tensors under the network's names in order, if each has the shape of its counterpart."""
    if len(tensors) != len(own):
        return None
    pairs = list(zip(own, tensors.values(), strict=True))
    if not all(name in head or own[name].shape == one.shape for name, one in pairs):
        return None
    warnings.warn(
        f"none of the {len(tensors)} weights has the name of one of the network's, but their shapes agree one by one; "
        "they are taken in order",
        stacklevel=4,
    )
    return dict(pairs)


def _check_fit(own: Tensors, given: Tensors, head: set[str], where: str) -> None:
    missing = [name for name in own if name not in given and name not in head and not name.endswith(_COUNTER)]
    shapes = [
        f"{name} ({tuple(given[name].shape)} in the file, {tuple(own[name].shape)} in the network)"
        for name in given
        if name in own and name not in head and given[name].shape != own[name].shape
    ]
    replaced = any(name not in given or given[name].shape != own[name].shape for name in head)
    left = [name for name in given if name not in own]
    # A classifier of another name: the tensors of one module, in place of those that were not found.
    if replaced and head and len({name.rpartition(".")[0] for name in left}) <= 1 and len(left) <= 2:
        left = []
    problems = [
        f"{len(names)} {what}: {', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
        for what, names in (("missing", missing), ("left over", left), ("of another shape", shapes))
        if names
    ]
    if problems:
        raise errors.WeightsMismatch(
            f"the weights in {where} do not fit the network: {'; '.join(problems)}; name the network they were "
            "trained with"
        )
