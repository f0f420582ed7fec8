"""Lightning: one callback records the network inside of the module."""

# ruff: noqa: I001 - moso comes first: with it, Lightning imports even beside a torchvision made for another torch
import moso
from moso.integrations.lightning import MosoCallback

import lightning
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
import numpy as np
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pixels, labels = map(np.asarray, load_digits(return_X_y=True))
dataset = TensorDataset(
    torch.tensor(pixels[:400] / 16, dtype=torch.float32), torch.tensor(labels[:400], dtype=torch.long)
)


class Module(lightning.LightningModule):
    """A perceptron under one-cycle learning rates."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return the optimiser, and the scheduler that steps after every update."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


module = Module()
record = MosoCallback("runs/lightning", network="net", samples=5, overwrite=True)
trainer = lightning.Trainer(
    max_epochs=3,
    callbacks=[record],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, DataLoader(dataset, batch_size=20, shuffle=True))
scores = moso.score(module.net, dataset, record.trajectory)
kept = moso.select(scores, ratio=0.3, labels=labels[:400])

print(f"recorded steps: {[point.step for point in record.trajectory]} of {record.trajectory.total_steps}")
print(f"kept {len(kept)} of {len(dataset)}")
