"""A trajectory that a framework's loop records: begun with a training, continued when that training is resumed."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from moso import errors
from moso.evidence import Recorder, Trajectory
from moso.evidence.recorder import Attachment
from moso.evidence.trajectory import remove_point
from moso.files import read_record, write_record

_log = logging.getLogger(__name__)


class Recording:
    """What every callback of `moso.integrations` holds: a recorder that is made when the framework begins to train.

    Updates are seen by the optimiser's own hook (`Recorder.attach`), inside `optimizer.step()` and before any
    scheduler: the rate is that of the update, accumulating batches and skipped updates do not count, and an error of
    recording is logged and never ends a training.

    Args:
        folder: Where the sampled steps are written.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        trainable_only: Write only what training changes. None does so if a parameter is frozen, as under an adapter.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Example:
        >>> import tempfile, torch
        >>> model = nn.Linear(2, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> recording = Recording(tempfile.mkdtemp(), samples=2)
        >>> recording.begin(model, [optimizer], total_steps=5)
        >>> for _ in range(4):  # training ends early
        ...     model(torch.ones(1, 2)).sum().backward()
        ...     optimizer.step()
        >>> recording.end()
        >>> recording.trajectory.total_steps
        4
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        samples: int = 10,
        seed: int = 0,
        trainable_only: bool | None = None,
        overwrite: bool = False,
        moments: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self.samples = samples
        self.seed = seed
        self.trainable_only = trainable_only
        self.overwrite = overwrite
        self.moments = moments
        self.recorder: Recorder | None = None
        self._attachment: Attachment | None = None
        self._over = False

    def __getstate__(self) -> dict[str, Any]:
        # Hooks of a live optimiser cannot be pickled; a net that is pickled after training does not need them.
        return {**vars(self), "recorder": None, "_attachment": None}

    @property
    def done(self) -> int:
        """Number of updates that were made, those before a resumption included."""
        return 0 if self.recorder is None else self.recorder.done

    def begin(
        self, model: nn.Module, optimizers: Sequence[Optimizer], *, total_steps: int | None, done: int = 0
    ) -> None:
        """Record every update from now on.

        Args:
            model: The network, or a wrapper of it.
            optimizers: All optimisers that move its parameters.
            total_steps: Number of updates that training will make, or None if it is not known.
            done: Number of updates that were made before training was interrupted.

        Raises:
            OutputExists: The folder holds the trajectory of another training.
            RunDiffers: The training that is resumed had another plan.
            RecorderMisused: These are not the optimisers of this model.
        """
        self.end()
        self._clear(done)
        frozen = any(not parameter.requires_grad for parameter in model.parameters())
        self.recorder = Recorder(
            self.folder,
            total_steps=total_steps,
            samples=self.samples if total_steps is None else min(self.samples, total_steps),
            seed=self.seed,
            done=done,
            trainable_only=frozen if self.trainable_only is None else self.trainable_only,
            moments=self.moments,
        )
        self.proceed(model, optimizers)

    def proceed(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Record further updates of a training that `begin` began in this process, with the same count of steps."""
        assert self.recorder is not None
        self.end()
        self._attachment = self.recorder.attach(model, *optimizers)
        self._over = False

    def at_epoch(self, epoch: int) -> None:
        """Note the epoch, counted from 0, of the updates to come."""
        if self.recorder is not None:
            self.recorder.epoch = epoch

    def end(self) -> None:
        """Note that training is over; the trajectory then holds the steps that were made, even if more were planned."""
        if self._attachment is not None:
            self._attachment.remove()
        self._attachment, self._over = None, True

    def _clear(self, done: int) -> None:
        """Remove the points that the updates after `done` will write again; refuse those of another training."""
        later = [path for path in self._points() if _step_of(path) > done]
        if later and done == 0 and self.recorder is None and not self.overwrite:
            raise errors.OutputExists(
                f"{self.folder} holds a trajectory already; give another folder, or overwrite=True to delete it"
            )
        notes = self.folder.glob("saved-*.json") if done == 0 else ()
        for path in later:
            remove_point(self.folder, _step_of(path))
        for path in notes:
            path.unlink()

    def _points(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory of the training.

        If training ended before the planned number of updates (early stopping, updates skipped in float16), this is the
        trajectory of the updates that were made.

        Raises:
            RecorderMisused: No training was recorded by this process, or recording failed.
            TrajectoryIncomplete: Training was interrupted, or sampled steps are missing.
        """
        recorder = self.recorder
        if recorder is None:
            raise errors.RecorderMisused(
                "nothing was recorded by this process: train first; of several processes, the first one records"
            )
        early = self._over and recorder.total_steps is not None and 0 < recorder.done < recorder.total_steps
        reached = {step for step in recorder.planned if step <= recorder.done}
        missing = sorted(reached - {_step_of(path) for path in self._points()})
        try:
            found = recorder.trajectory
        except (errors.TrajectoryIncomplete, errors.FileMissing):
            if not missing and not (early and reached):
                raise
        if missing:
            raise errors.TrajectoryIncomplete(
                f"{self.folder} lacks sampled step {missing[0]}, which was made before the training was resumed; "
                "resume with the folder of the interrupted training, and train at least as far as it had come"
            )
        if not early:
            return found
        _log.info("training ended after %d of %s updates", recorder.done, recorder.total_steps)
        return Trajectory.open(self.folder, recorder.done)

    def note(self, moment: int) -> None:
        """Note how many updates were made when the framework saved a checkpoint and called it step `moment`."""
        write_record(self.folder / f"saved-{moment:08d}.json", {"done": self.done})

    def noted(self, moment: int) -> int:
        """Return the number of updates at a checkpoint; without a note, it is the framework's own count `moment`."""
        path = self.folder / f"saved-{moment:08d}.json"
        return int(read_record(path)["done"]) if path.exists() else moment

    def state_dict(self) -> dict[str, int]:
        """Return what a checkpoint needs to hold to continue the recording."""
        return {"done": self.done}


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))
