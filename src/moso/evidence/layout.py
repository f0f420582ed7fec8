"""Where the files of a run lie below a seed's folder, and what networks and pieces of work are called."""

from pathlib import Path
from typing import Literal

Moment = Literal["early", "final"]


def part_name(part: int) -> str:
    """What a partition's folder is called."""
    return f"part-{part:03d}"


def reference_name(initialisation: int) -> str:
    """What a reference's folder is called."""
    return f"reference-{initialisation:02d}"


def piece_name(seed: int, name: str) -> str:
    """What a bit of work on a network is called."""
    return f"seed-{seed}/{name}"


def network_path(home: Path, name: str, moment: Moment) -> Path:
    """Where a network is kept, as it was at a moment of its training."""
    return home / "state" / name / f"{moment}.safetensors"


def replay_folder(home: Path, name: str) -> Path:
    """Where a training leaves the checkpoints from which it can be run again."""
    return home / "state" / name / "replay"


def dynamics_folder(home: Path, name: str) -> Path:
    """Where the dynamics of a training are; those of a reference keep its name whoever was trained for it."""
    return home / "dynamics" / (reference_name(0) if name == part_name(0) else name)
