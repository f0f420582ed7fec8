"""The device of a run, by name."""

import torch

from moso import errors


def resolve_device(name: str) -> str:
    """Return the name of a device; `auto` is the best one of this machine.

    Raises:
        MosoError: ``unknown-name``.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    _known_device(name)
    return name


def _known_device(name: str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError as problem:
        raise errors.UnknownName(f"device {name!r} is not known; use cpu, cuda, cuda:1 or mps") from problem


def available_device(name: str) -> torch.device:
    """Return the device of this name if this machine has it.

    The check is not part of `resolve`, because the machine that leads a run may lack the devices of its workers.

    Raises:
        MosoError: ``unknown-name``, ``device-unavailable``.

    Example:
        >>> available_device("cpu")
        device(type='cpu')
    """
    device = _known_device(name)
    there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(device.type, 1)
    if (device.index or 0) >= there:
        raise errors.DeviceUnavailable(f"device {name!r} is not available on this machine")
    return device
