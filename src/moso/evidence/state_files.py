"""State files: tensors by name, with a note about them, as safetensors; no file is ever unpickled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from moso import errors
from moso.checksums import FIELD, check, damaged
from moso.files import replacing

State = dict[str, torch.Tensor]
_CHECKSUM = "checksum"
_METADATA = "moso"  # one key, because the order of several is not defined in safetensors and bytes must repeat


def opened_state(path: Path) -> Any:
    """Open a state file.

    Raises:
        FileUnreadable: The file is missing.
        FileDamaged: The file is not what was written.
    """
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as problem:
        raise damaged(path, f"it is not a readable safetensors file: {problem}") from problem
    except OSError as problem:
        raise errors.FileUnreadable(f"{path} is not a readable safetensors file: {problem}") from problem


def state_note(file: Any, path: Path) -> dict[str, Any]:
    """Return the note of an open state file.

    Raises:
        FileUnreadable: The file was not written by moso.
    """
    try:
        note: dict[str, Any] = json.loads((file.metadata() or {})[_METADATA])
    except (KeyError, ValueError) as problem:
        raise errors.FileUnreadable(f"{path} was not written by moso: it has no step in its metadata") from problem
    note.pop(_CHECKSUM, None)
    return note


def read_state(path: Path) -> tuple[State, dict[str, Any]]:
    """Read the tensors and the note of a state file.

    Raises:
        FileUnreadable: The file is missing or was not written by moso.
        FileDamaged: The file is not what was written.
    """
    if path.exists():
        check(path)
    with opened_state(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, state_note(file, path)  # noqa: SIM118


def check_state(path: Path) -> None:
    """Refuse a state file that is not what was written, without loading its tensors.

    Raises:
        FileUnreadable: The file was not written by moso.
        FileDamaged: The file is not what was written.
    """
    check(path)
    with opened_state(path) as file:
        state_note(file, path)


def write_state(path: Path, state: Mapping[str, torch.Tensor], note: Mapping[str, object]) -> None:
    """Write tensors and a note about them, atomically; the same content gives the same bytes."""
    tensors, shared = {}, set()
    for name, tensor in state.items():
        own = tensor.detach().cpu().contiguous()
        memory = own.untyped_storage().data_ptr()
        # Tied weights share memory, which safetensors refuses to save.
        tensors[name] = own.clone() if memory in shared else own
        shared.add(memory)
    # Not by save_file: its temporary file has a name of its own that no sweep knows, and its errors are no OSError.
    content = save(tensors, metadata={_METADATA: json.dumps({**note, _CHECKSUM: FIELD})})
    with replacing(path) as temporary:
        temporary.write_bytes(content)
