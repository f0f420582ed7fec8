"""peft: record an adapter's training, or score the adapter checkpoints that a training has left.

    recording = record(model, optimizer, folder="runs/trajectory", total_steps=len(loader) * epochs)
    ...  # the loop, unchanged
    scores = moso.score(model, dataset, recording.trajectory)

Only what is trained is written and scored: adapters, and what `modules_to_save` and `bias` add. The network underneath
is the one that `moso.score` is given, and is checked to be that of training. `MosoCallback` of
`moso.integrations.transformers` and `moso.integrations.lightning` do the same where a parameter is frozen.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.optim import Optimizer

from moso import errors
from moso.evidence import Trajectory
from moso.evidence.trajectory import TrajectoryPoint
from moso.integrations.framework_recording import Recording
from moso.integrations.needed import needed

with needed("peft"):
    from peft import PeftModel

_WEIGHTS = "adapter_model.safetensors"


def record(
    model: PeftModel,
    *optimizers: Optimizer,
    folder: Path | str,
    total_steps: int | None = None,
    samples: int = 10,
    seed: int = 0,
    overwrite: bool = False,
    moments: bool = False,
) -> Recording:
    """Record every update of an adapter from now on, without the frozen network under it.

    Args:
        model: The network with its adapter.
        optimizers: All optimisers that move its parameters.
        folder: Where the sampled steps are written.
        total_steps: Number of updates that training will make, or None if it is not known.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Returns:
        The recording, with its `trajectory`. Call `end()` after the loop if training may stop before `total_steps`.

    Raises:
        OutputExists: The folder holds the trajectory of another training.
        RecorderMisused: These are not the optimisers of this model.
    """
    recording = Recording(folder, samples=samples, seed=seed, trainable_only=True, overwrite=overwrite, moments=moments)
    recording.begin(model, optimizers, total_steps=total_steps)
    return recording


def adapter_trajectory(
    model: PeftModel, checkpoints: Mapping[str | Path, float], *, total_steps: int | None = None
) -> Trajectory:
    """Return the trajectory of adapter checkpoints, as `save_pretrained` and `Trainer` write them.

    The names in such files lack the name of the adapter (`...lora_A.weight` for the live
    `...lora_A.default.weight`); they are those of the active adapter. Nothing is read but `adapter_model.safetensors`.

    Args:
        model: The network with its adapter, on the frozen weights that training had.
        checkpoints: Learning rate of the last update before each checkpoint, by folder, in the order of training. The
            number at the end of a folder's name (`checkpoint-500`) is its step; else checkpoints are numbered from 1.
        total_steps: Number of updates of the training; by default the step of the last checkpoint.

    Returns:
        The trajectory, under the live names of `model`.

    Raises:
        FileMissing: A folder has no `adapter_model.safetensors`.
        FileUnreadable: The file is damaged.
        CheckpointMismatch: The file does not fit the adapter of `model`.
        TrajectoryIncomplete: There are no checkpoints.
    """
    points = []
    for number, (folder, rate) in enumerate(checkpoints.items(), 1):
        path = Path(folder) / _WEIGHTS
        if not path.is_file():
            raise errors.FileMissing(
                f"{folder} has no {_WEIGHTS}; give folders that save_pretrained wrote (a .bin file is a pickle, and no "
                "pickle is loaded: save the adapter again)"
            )
        try:
            state = load_file(path)
        except (SafetensorError, OSError) as problem:
            raise errors.FileUnreadable(f"{path} is not a readable safetensors file: {problem}") from problem
        named = re.search(r"(\d+)$", Path(folder).name)
        step = int(named[1]) if named else number
        points.append(TrajectoryPoint(step, (float(rate),), memory=state).fitted_to(model))
    last = max((point.step for point in points), default=0)
    return Trajectory(points, last if total_steps is None else total_steps)
