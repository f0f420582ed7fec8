"""Training a network for evidence: the surrogate of a partition, or a reference on all data.

Results are below the folder of the seed: `state/NAME/` has the history, the network at the early epoch and at the end,
and the checkpoint to resume from; `dynamics/NAME/` has the training dynamics (outputs per sample and epoch).
"""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from moso.adjoint import ReplayRecorder
from moso.evidence import Dynamics, DynamicsRecorder, check_fits, read_state, write_state
from moso.evidence.dynamics import is_recorded
from moso.evidence.layout import (
    Moment,
    dynamics_folder,
    network_path,
    part_name,
    piece_name,
    reference_name,
    replay_folder,
)
from moso.evidence.trajectory import point_path
from moso.files import read_record, write_record
from moso.progress import Progress
from moso.run.job import Job
from moso.training.loop import AfterStep, Callback, Checkpoints, StepPlan, TrainingRun, train
from moso.training.recording import RecordDynamics, ShowProgress
from moso.training.step_plan import Step

_PURPOSE = "purpose.json"


@dataclass(frozen=True)
class Training:
    """A network to train: its data, its seeds and the evidence to keep.

    Attributes:
        seed: Seed of the run, which decides the folder.
        name: Name of the network.
        positions: Positions of the training samples.
        own_seed: Seed of batches and augmentation.
        columns: Columns of training dynamics to record.
        early: Require the network at the early epoch.
        final: Require the network at the end.
        whole: Train to the end; otherwise up to the early epoch.
        replay: Keep the checkpoints from which the adjoint replays the training.
    """

    seed: int
    name: str
    positions: NDArray[np.int64]
    own_seed: int
    columns: tuple[str, ...] = ()
    early: bool = False
    final: bool = False
    whole: bool = True
    replay: bool = False


def network_name(job: Job, initialisation: int) -> str:
    """Return the name of the network of a reference; with one partition, its surrogate is the first reference."""
    one = job.configuration.partitions == 1 and initialisation == 0
    return part_name(0) if one else reference_name(initialisation)


def initial_state_path(job: Job, seed: int) -> Path:
    """Return the path of the recorded initial weights w_0 of a seed."""
    return job.directory.of_seed(job.configuration, seed) / "state" / "initial.safetensors"


def record_initial_state(job: Job, seed: int) -> None:
    """Write the initial weights w_0 of a seed, once, before the first network is trained."""
    path = initial_state_path(job, seed)
    if not path.exists():
        write_state(path, job.built(seed).state_dict(), {"step": 0})


def at_start(job: Job, seed: int) -> nn.Module:
    """Return a network with the recorded w_0 of a seed, from which every surrogate and the first reference start."""
    model = job.model(seed)
    return _loaded(model, initial_state_path(job, seed))


def is_trained(home: Path, training: Training) -> bool:
    """Return whether all requested results of a training are on disk."""
    if not (home / "state" / training.name / "history.json").exists():
        return False
    wanted: dict[Moment, bool] = {"early": training.early, "final": training.final}
    if any(asked and not network_path(home, training.name, moment).exists() for moment, asked in wanted.items()):
        return False
    if training.replay and not _can_be_replayed(home, training.name):
        return False
    if not training.columns:
        return True
    folder = dynamics_folder(home, training.name)
    return is_recorded(folder) and set(training.columns) <= set(Dynamics.open(folder).columns)


def _can_be_replayed(home: Path, name: str) -> bool:
    # The checkpoint of the last step is written last; all are removed once the adjoint is computed.
    written = sorted(replay_folder(home, name).glob("step-*.safetensors"))
    total = read_record(home / "state" / name / "history.json")["total_steps"]
    return bool(written and written[-1] == point_path(replay_folder(home, name), total))


def train_network(
    job: Job,
    progress: Progress,
    training: Training,
    model: nn.Module,
    *,
    label: str,
    recording: Callback | None = None,
) -> None:
    """Train a network unless its results are on disk, and write the requested results only.

    Args:
        job: The job of the run.
        progress: Called as training advances.
        training: The network and the requested results.
        model: The network at its initial weights; trained in place.
        label: Name of the training, for people.
        recording: Callback that records the trajectory or in-run terms.
    """
    home = job.directory.of_seed(job.configuration, training.seed)
    if is_trained(home, training):
        return
    if is_trained(home, replace(training, early=False)):
        # Only the network at the early epoch is missing: repeat the same training up to that epoch.
        training, recording = replace(training, columns=(), final=False, whole=False), None
    elif is_trained(home, replace(training, early=False, replay=False)):
        # Only the checkpoints for the replay, or those and the early network, are missing: repeat the whole training.
        training, recording = replace(training, columns=()), None
    folder = home / "state" / training.name
    recipe, per_epoch = job.configuration.surrogate, job.steps_per_epoch(training.positions)
    early_step = job.configuration.early_epoch * per_epoch
    position = _position(folder, training)
    history = train(
        model,
        StepPlan(job.training_data(recipe, training.positions, training.own_seed), recipe, training.own_seed),
        loss=job.loss,
        callbacks=[
            *(_recorders(job, home, training, early_step, recording) if job.runtime.team.leads else []),
            checkpoints(job, position, "train", piece_name(training.seed, training.name)),
            ShowProgress(progress),
        ],
        stop_after=None if training.whole else early_step,
        loader_workers=job.runtime.loader_workers,
        label=label,
        team=job.runtime.team,
    )
    if not job.runtime.team.leads:
        return
    if training.whole:
        step = job.total_steps(training.positions)
        write_state(network_path(home, training.name, "final"), model.state_dict(), {"step": step})
    if training.whole or not (folder / "history.json").exists():
        write_record(folder / "history.json", {"total_steps": job.total_steps(training.positions), **asdict(history)})
    position.unlink(missing_ok=True)
    (folder / _PURPOSE).unlink(missing_ok=True)


def _position(folder: Path, training: Training) -> Path:
    """Return the path of the checkpoint to resume from; remove a checkpoint of a training with other results."""
    position, purpose = folder / "position.safetensors", folder / _PURPOSE
    wanted: dict[str, Any] = {"columns": sorted(training.columns), "early": training.early, "whole": training.whole}
    if training.replay:
        wanted["replay"] = True
    if position.exists() and not (purpose.exists() and read_record(purpose) == wanted):
        position.unlink(missing_ok=True)  # another process of a team may have removed it
    write_record(purpose, wanted)
    return position


def _recorders(job: Job, home: Path, training: Training, early_step: int, recording: Callback | None) -> list[Callback]:
    """Return the callbacks that write the requested results while a network trains."""
    found = [] if recording is None else [recording]
    if training.columns:
        train, folder = job.data.train, dynamics_folder(home, training.name)
        epochs, classes = job.configuration.surrogate.epochs, len(train.classes)
        found.append(RecordDynamics(DynamicsRecorder(folder, training.columns, train.labels, epochs, classes)))
    if training.replay:
        found.append(ReplayRecorder(replay_folder(home, training.name), job.total_steps(training.positions)))

    def keep_early(run: TrainingRun, step: Step) -> None:
        if step.number == early_step:
            write_state(network_path(home, training.name, "early"), run.model.state_dict(), {"step": step.number})

    return [*found, AfterStep(keep_early)] if training.early else found


def network(job: Job, seed: int, name: str, moment: Moment) -> nn.Module:
    """Load a trained network at a moment of its training, `early` or `final`."""
    model = job.model(seed)
    return _loaded(model, network_path(job.directory.of_seed(job.configuration, seed), name, moment))


def _loaded(model: nn.Module, path: Path) -> nn.Module:
    """Return the network with the weights of a file.

    Raises:
        MosoError: ``checkpoint-mismatch`` if they are those of another network, ``file-damaged``.
    """
    state, _ = read_state(path)
    check_fits(model, state, str(path))
    model.load_state_dict(state)
    return model


def checkpoints(job: Job, path: Path, stage: str, name: str) -> Checkpoints:
    """Return the checkpoints from which a training resumes after a kill; they also record seconds and losses.

    Args:
        job: The job of the run.
        path: File of the checkpoint.
        stage: Stage that the seconds count for.
        name: Name of the piece.
    """

    def saved(seconds: float) -> None:
        computed(job, stage, name, seconds)

    def told(epoch: int, loss: float, learning_rate: float) -> None:
        job.directory.event(
            "epoch", stage=stage, piece=name, epoch=epoch, loss=round(loss, 6), learning_rate=round(learning_rate, 8)
        )

    if not job.runtime.team.leads:
        return Checkpoints(path, math.inf)
    return Checkpoints(path, job.runtime.checkpoint_seconds, saved, told)


def computed(job: Job, stage: str, name: str, seconds: float) -> None:
    """Record the seconds of computation of a piece of a stage as an event `computed`."""
    job.directory.event("computed", stage=stage, piece=name, seconds=round(seconds, 4))
