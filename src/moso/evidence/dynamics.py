"""Training dynamics: what a network said about every sample at every epoch, while it was learning from it.

Recorded from the forward passes that training makes anyway: a sample is met once an epoch, augmented, in training mode,
before the update it takes part in. One file a column, `COLUMN.npy`, `[epochs, samples]` in data set order, written at
(epoch, sample): a run that was killed and goes on from its last saved position writes the same bytes again. Samples
that take no part in the training are not a number (255 in `correct`).

`kl` compares with the epoch before, whose log-probabilities lie in a scratch file, two epochs of `[samples, classes]`
in turn. As nothing of an epoch may be overwritten while it can still be resumed, a training that records it saves its
position after every epoch.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.evidence.arrays import create, read
from moso.evidence.outputs import CHANGES, COLUMNS, CapturedOutputs, capture_outputs, describe, log_probabilities
from moso.files import write_json

UNSEEN = 255  # in place of a number where a column holds whole ones
_SUMMARY = "dynamics.json"
_SCRATCH = "previous.npy"


class DynamicsRecorder:
    """Writes the columns that somebody asked for, batch by batch.

    `labels` are those of all samples, in data set order; positions are those of the data set.

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
        """Whether an epoch is compared with the one before, so that positions must be saved in between."""
        return bool(CHANGES & set(self.columns))

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """See what the network gives from now on."""
        with capture_outputs(model) as self._seen:
            yield
        self._seen = None

    def record(self, epoch: int, positions: NDArray[np.int64]) -> None:
        """Write what the network's last call said about the samples at these positions, in the order of the batch."""
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
        """See that what was recorded is on the disk; a saved position must not be ahead of it."""
        for array in self._arrays.values():
            array.flush()
        if self._before is not None:
            self._before.flush()

    def finish(self) -> None:
        """Say that all epochs are recorded; columns that were there before stay."""
        self.flush()
        there = Dynamics.open(self.folder).columns if is_recorded(self.folder) else ()
        columns = sorted({*there, *self.columns})
        write_json(
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
    """Whether a training has left dynamics here, to its end."""
    return (folder / _SUMMARY).exists()


@dataclass(frozen=True)
class Dynamics:
    """The recorded dynamics of one training, read where they lie."""

    folder: Path
    epochs: int
    samples: int
    columns: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path | str) -> "Dynamics":
        """The dynamics a finished training left in `folder`."""
        path = Path(folder) / _SUMMARY
        if not is_recorded(Path(folder)):
            raise errors.StageIncomplete(f"there are no finished training dynamics in {folder}")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(Path(folder), found["epochs"], found["samples"], tuple(found["columns"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise errors.FileUnreadable(f"{path} does not say what dynamics there are: {problem}") from problem

    def column(self, name: str) -> NDArray[Any]:
        """A column, `[epochs, samples]`, as a memory map in data set order."""
        if name not in self.columns:
            raise errors.EvidenceMissing(
                f"{self.folder} has no column {name!r} of dynamics (there are: {', '.join(self.columns)}); "
                "it is recorded while training for a score that needs it"
            )
        array: NDArray[Any] = read(self.folder / f"{name}.npy")
        return array
