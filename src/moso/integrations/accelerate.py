"""accelerate: record a loop of your own around `Accelerator`, in one line after `prepare`.

model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
recording = record(accelerator, model, optimizer, folder="runs/trajectory", total_steps=len(loader) * epochs)
...  # the loop, unchanged
recording.end()
scores = moso.score(accelerator.unwrap_model(model), dataset, recording.trajectory)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from moso.integrations.framework_recording import Recording
from moso.integrations.needed import needed

with needed("accelerate"):
    from accelerate import Accelerator


def record(
    accelerator: Accelerator,
    model: nn.Module,
    *optimizers: Optimizer,
    folder: Path | str,
    total_steps: int | None = None,
    samples: int = 10,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    moments: bool = False,
) -> Recording:
    """Record every update from now on; batches that accumulate gradients and updates that are skipped do not count.

    The number of updates becomes part of what `accelerator.save_state` writes.

    Args:
        accelerator: The accelerator; of its processes, the main one records.
        model: The network, before or after `prepare`.
        optimizers: All optimisers that move its parameters, before or after `prepare`.
        folder: Where the sampled steps are written.
        total_steps: Number of updates that training will make (not of batches); None keeps a uniform sample of however
            many there are.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        resume: Wait for `accelerator.load_state`, and continue the recording of the interrupted training.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Returns:
        The recording, with its `trajectory`. Call `end()` after the loop if training may stop before `total_steps`.

    Raises:
        OutputExists: The folder holds the trajectory of another training.
        RecorderMisused: These are not the optimisers of this model.
    """
    recording = Recording(folder, samples=samples, seed=seed, overwrite=overwrite, moments=moments)
    checkpointed = _Checkpointed(recording, model, optimizers, total_steps, accelerator.is_main_process)
    accelerator.register_for_checkpointing(checkpointed)
    if not resume:
        checkpointed.begin(0)
    return recording


class _Checkpointed:
    """What accelerate saves and loads: the number of updates; loading it begins the recording again from there."""

    def __init__(
        self,
        recording: Recording,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        total_steps: int | None,
        records: bool,
    ) -> None:
        self.recording, self.model, self.optimizers = recording, model, optimizers
        self.total_steps, self.records = total_steps, records

    def begin(self, done: int) -> None:
        if self.records:
            self.recording.begin(self.model, self.optimizers, total_steps=self.total_steps, done=done)

    def state_dict(self) -> dict[str, int]:
        return self.recording.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.begin(int(state["done"]))
