"""Paths of a run's files below the folder of a seed, and names of networks and pieces of work."""

from pathlib import Path
from typing import Literal

Moment = Literal["early", "final"]


def part_name(part: int) -> str:
    """Return the folder name of a partition."""
    return f"part-{part:03d}"


def reference_name(initialisation: int) -> str:
    """Return the folder name of a reference network."""
    return f"reference-{initialisation:02d}"


def piece_name(seed: int, name: str) -> str:
    """Return the name of a piece of work on a network."""
    return f"seed-{seed}/{name}"


def network_path(home: Path, name: str, moment: Moment) -> Path:
    """Return where a network is kept, as it was at a moment of its training."""
    return home / "state" / name / f"{moment}.safetensors"


def replay_folder(home: Path, name: str) -> Path:
    """Return where a training leaves the checkpoints from which it can be replayed."""
    return home / "state" / name / "replay"


def dynamics_folder(home: Path, name: str) -> Path:
    """Return where the dynamics of a training are; the first partition's training doubles as the first reference."""
    return home / "dynamics" / (reference_name(0) if name == part_name(0) else name)
