"""Training dynamics: per-sample statistics of the network's outputs at every epoch of training.

They are recorded from the forward passes that training makes anyway: each sample is met once per epoch, augmented, in
training mode, before the update that it takes part in. There is one file per column, `COLUMN.npy`, of shape
`[epochs, samples]` in data set order, written at (epoch, sample): a run that was killed and resumes from its last
checkpoint writes the same bytes again. Samples that take no part in the training are NaN (255 in `correct`).

`kl` compares with the epoch before, whose log-probabilities are kept in a scratch file with room for two epochs of
`[samples, classes]`, used in turn. A resumed run must find the epoch before intact, so a training that records `kl`
writes a checkpoint after every epoch.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.checksums import damaged, seal
from moso.columns import Array
from moso.evidence.arrays import create, read
from moso.evidence.outputs import CHANGES, COLUMNS, CapturedOutputs, capture_outputs, describe, log_probabilities
from moso.files import read_record, write_record

UNSEEN = 255  # stands for NaN in columns of integers
_SUMMARY = "dynamics.json"
_SCRATCH = "previous.npy"


class DynamicsRecorder:
    """Writes the requested columns of training dynamics, batch by batch.

    Args:
        folder: Where the columns are written.
        columns: Names out of `outputs.COLUMNS`.
        labels: Labels of all samples, in data set order, shape `[samples]`.
        epochs: Number of epochs of the training.
        classes: Number of classes.

    Raises:
        UnknownName: There is no column of one of the names.
        ClassesRequired: There are fewer than 2 classes.
        RunDiffers: The folder holds columns of another shape, of another training.

    Example:
        >>> import tempfile, torch
        >>> folder = Path(tempfile.mkdtemp())
        >>> recorder = DynamicsRecorder(folder, ["probability"], np.array([0, 1, 1]), epochs=2, classes=2)
        >>> model = nn.Linear(2, 2)
        >>> with recorder.watching(model):
        ...     for epoch in range(2):
        ...         _ = model(torch.zeros(3, 2))
        ...         recorder.record(epoch, np.array([2, 0, 1]))
        >>> recorder.finish()
        >>> Dynamics.open(folder).column("probability").shape
        (2, 3)
    """

    def __init__(
        self, folder: Path, columns: Iterable[str], labels: NDArray[np.int64], epochs: int, classes: int
    ) -> None:
        self.folder, self.columns = folder, tuple(sorted(set(columns)))
        self.labels, self.epochs, self.classes = labels, epochs, classes
        for name in self.columns:
            if name not in COLUMNS:
                raise errors.UnknownName(f"there is no column {name!r} of dynamics; there are: {', '.join(COLUMNS)}")
        if classes < 2:
            raise errors.ClassesRequired(
                "training dynamics are about predicted classes, but the samples have no classes"
            )
        self._arrays = {name: self._open(name) for name in self.columns}
        self._before: Any = self._open_scratch() if self.compares_epochs else None
        self._seen: CapturedOutputs | None = None

    @property
    def compares_epochs(self) -> bool:
        """Whether a column compares an epoch with the one before, so that a checkpoint is needed after every epoch."""
        return bool(CHANGES & set(self.columns))

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Capture the outputs of `model` inside this context."""
        with capture_outputs(model) as self._seen:
            yield
        self._seen = None

    def record(self, epoch: int, positions: NDArray[np.int64]) -> None:
        """Write the columns of one batch from the outputs of the network's last call.

        Args:
            epoch: Epoch, counted from 0.
            positions: Positions of the batch's samples in the data set, in the order of the batch, shape `[batch]`.

        Raises:
            ModelUnsuitable: The network gave no logits of shape `[batch, classes]`.
        """
        assert self._seen is not None, "record only while watching"
        logits = self._seen.logits(len(positions), self.classes)
        before = None
        if self._before is not None:
            if epoch > 0:
                before = self._before[(epoch - 1) % 2, positions].astype(np.float64)
            self._before[epoch % 2, positions] = log_probabilities(logits)
        for name, values in describe(logits, self.labels[positions], self.columns, before).items():
            self._arrays[name][epoch, positions] = values

    def flush(self) -> None:
        """Write all recorded values to disk; a checkpoint must not be ahead of them."""
        for array in self._arrays.values():
            array.flush()
        if self._before is not None:
            self._before.flush()

    def finish(self) -> None:
        """Mark all epochs as recorded; columns of an earlier recording in the folder stay listed."""
        self.flush()
        for name in self.columns:
            seal(self.folder / f"{name}.npy")
        there = Dynamics.open(self.folder).columns if is_recorded(self.folder) else ()
        columns = sorted({*there, *self.columns})
        write_record(
            self.folder / _SUMMARY,
            {"format": 1, "epochs": self.epochs, "samples": len(self.labels), "columns": columns},
        )
        self._before = None
        (self.folder / _SCRATCH).unlink(missing_ok=True)

    def _open(self, name: str) -> Any:
        path, shape, kind = self.folder / f"{name}.npy", (self.epochs, len(self.labels)), np.dtype(COLUMNS[name])
        if not path.exists():
            create(path, shape, kind, np.nan if kind.kind == "f" else UNSEEN)
        array = read(path, writable=True)
        if array.shape != shape or array.dtype != kind:
            raise errors.RunDiffers(
                f"{path} holds {array.dtype} {array.shape} of another training, not {kind} {shape}; remove it"
            )
        return array

    def _open_scratch(self) -> Any:
        path, shape = self.folder / _SCRATCH, (2, len(self.labels), self.classes)
        if not path.exists():
            create(path, shape, np.float32)
        return read(path, writable=True)


def is_recorded(folder: Path) -> bool:
    """Return whether `folder` holds the dynamics of a finished training."""
    return (folder / _SUMMARY).exists()


@dataclass(frozen=True)
class Dynamics:
    """The recorded dynamics of one training; columns are read on demand."""

    folder: Path
    epochs: int
    samples: int
    columns: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path | str) -> "Dynamics":
        """Open the dynamics that a finished training left in `folder`.

        Raises:
            StageIncomplete: The folder holds no finished dynamics.
            FileDamaged: The summary file is not what was written.
        """
        path = Path(folder) / _SUMMARY
        if not is_recorded(Path(folder)):
            raise errors.StageIncomplete(f"there are no finished training dynamics in {folder}")
        found = read_record(path)
        try:
            return cls(Path(folder), found["epochs"], found["samples"], tuple(found["columns"]))
        except (KeyError, TypeError) as problem:
            raise damaged(path, f"it does not say what dynamics there are: {problem}") from problem

    def column(self, name: str) -> Array:
        """Return a column as a memory map, shape `[epochs, samples]`, in data set order.

        Raises:
            EvidenceMissing: The column was not recorded.
        """
        if name not in self.columns:
            raise errors.EvidenceMissing(
                f"{self.folder} has no column {name!r} of dynamics (there are: {', '.join(self.columns)}); "
                "it is recorded while training for a score that needs it"
            )
        array: Array = read(self.folder / f"{name}.npy")
        return array
