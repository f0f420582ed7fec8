"""Events of a run as TensorBoard scalars: losses and learning rates of networks, seconds of pieces."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moso import errors
from moso.results.manifest import Event


class Scalars:
    """Writes new events of a run into a folder that TensorBoard reads.

    An epoch that was repeated after a kill has the same values and is written once.

    Args:
        folder: Folder of the TensorBoard files.

    Raises:
        MosoError: ``package-missing`` without TensorBoard.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as problem:
            raise errors.package_missing("tensorboard", "watch", "--tensorboard") from problem
        self._writer: Any = SummaryWriter(str(folder))
        self._written: set[tuple[str, int]] = set()

    def write(self, events: Sequence[Event]) -> None:
        """Write the scalars of those events that were not written before."""
        for event in events:
            if event["event"] == "epoch":
                for what in ("loss", "learning_rate"):
                    self._add(f"{what}/{event['piece']}", event[what], event["epoch"], event["time"])
        measured = [event for event in events if event["event"] == "measured"]
        for number, event in enumerate(measured, 1):
            self._add(f"seconds/{event['what']}", event["seconds"], number, event["time"])
        self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        self._writer.close()

    def _add(self, name: str, value: float, step: int, moment: float) -> None:
        if (name, step) not in self._written:
            self._written.add((name, step))
            self._writer.add_scalar(name, value, step, walltime=moment)
