"""Lightning: record a `Trainer`'s training with one callback.

    record = MosoCallback("runs/trajectory", network="net")
    trainer = lightning.Trainer(max_epochs=10, callbacks=[record])
    trainer.fit(module, loader)
    scores = moso.score(module.net, dataset, record.trajectory)

Lightning has no hook after the update: `on_train_batch_end` comes after the scheduler, and for batches that only
accumulate gradients. So updates are seen by the optimiser's own hook.
"""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from moso import errors
from moso.evidence import Trajectory
from moso.integrations.framework_recording import Recording
from moso.integrations.needed import needed

with needed("lightning"):
    if TYPE_CHECKING or find_spec("lightning") is not None or find_spec("pytorch_lightning") is None:
        from lightning.pytorch import Callback, LightningModule, Trainer
    else:  # the same classes under the older name; a trainer of either takes the callbacks of the other
        from pytorch_lightning import Callback, LightningModule, Trainer


class MosoCallback(Callback):  # type: ignore[misc] # Lightning is not type-checked
    """Records the training of a `Trainer`: give it as `Trainer(..., callbacks=[MosoCallback("runs/trajectory")])`.

    The number of updates is `trainer.estimated_stepping_batches`; under manual optimisation, where only the module
    knows it, a uniform sample of however many updates is kept. All optimisers of the module are followed. The number of
    updates is part of Lightning's checkpoints, so `fit(ckpt_path=...)` continues the recording in the same folder. Of
    several processes, the first records.

    Args:
        folder: Where the sampled steps are written.
        network: Name of the attribute of the module that holds the network to record and score (`"net"`,
            `"model.encoder"`); None records the whole module, under the names that it has there.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        trainable_only: Write only what training changes. None does so if a parameter is frozen, as under an adapter.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Example:
        >>> MosoCallback("runs/trajectory", network="net").network
        'net'
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        network: str | None = None,
        samples: int = 10,
        seed: int = 0,
        trainable_only: bool | None = None,
        overwrite: bool = False,
        moments: bool = False,
    ) -> None:
        self.network = network
        self.recording = Recording(
            folder,
            samples=samples,
            seed=seed,
            trainable_only=trainable_only,
            overwrite=overwrite,
            moments=moments,
        )
        self._restored = 0

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory of the last training (`Recording.trajectory`)."""
        return self.recording.trajectory

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the recording, or continue that of the checkpoint that was loaded."""
        if not trainer.is_global_zero:
            return
        planned = trainer.estimated_stepping_batches if pl_module.automatic_optimization else math.inf
        total = int(planned) if 0 < planned < math.inf else None
        done, self._restored = self._restored, 0
        self.recording.begin(_network_of(pl_module, self.network), trainer.optimizers, total_steps=total, done=done)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note the epoch of the next updates."""
        self.recording.at_epoch(trainer.current_epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the recording."""
        self.recording.end()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of updates, which Lightning writes into its checkpoints."""
        return self.recording.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember the number of updates at the checkpoint that training goes on from."""
        self._restored = int(state_dict["done"])


def _network_of(module: nn.Module, name: str | None) -> nn.Module:
    """Return the network to record; refuse a name that the module does not have."""
    if name is None:
        return module
    try:
        return module.get_submodule(name)
    except AttributeError as problem:
        known = [one for one, _ in module.named_children()]
        raise errors.unknown_name(f"network of this {type(module).__name__}", name, known) from problem
