"""The recorder inside Lightning's loop: the same points as in a plain loop.

Lightning has no hook after the step; the first after it comes when the scheduler has been.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import moso
from moso.models.compat import prepare_torchvision
from tests.evidence.loops import (
    BATCH,
    DATA,
    EPOCHS,
    SETTINGS,
    TOLERANCE,
    WAYS,
    Network,
    Setting,
    check_same,
    every_step,
    plain_loop,
    rates_of,
    state_now,
)

# Lightning 2.6 makes tree specifications in a way that PyTorch 2.13 has deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    # These tests load 24 samples; workers would cost more than they save.
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
]


@pytest.fixture(scope="module")
def lightning():
    prepare_torchvision()  # Lightning imports a whole torchvision, or none
    return pytest.importorskip("lightning")


def lightning_module(lightning, setting, left_out=()):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Network()

        def training_step(self, batch, batch_idx):
            inputs, labels = batch
            return None if batch_idx in left_out else nn.functional.cross_entropy(self.net(inputs), labels)

        def configure_optimizers(self):
            optimizer = setting.optimizer(self.net)
            interval = "epoch" if setting.per_epoch else "step"
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": setting.scheduler(optimizer), "interval": interval},
            }

    return Module()


def lightning_fit(lightning, module, callback, **options):
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        **options,
    )
    trainer.fit(module, DataLoader(DATA, batch_size=BATCH))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_automatic_optimisation(tmp_path, lightning, setting, way):
    recorder = every_step(tmp_path, setting.updates)

    class Record(lightning.Callback):
        def on_train_start(self, trainer, pl_module):
            assert trainer.estimated_stepping_batches == setting.updates
            if way == "attach":
                recorder.attach(pl_module.net, *trainer.optimizers)

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if way == "step":  # after the scheduler, and for every batch
                recorder.step(pl_module.net, pl_module.optimizers())

    precision = "bf16-mixed" if setting.bfloat16 else "32-true"
    lightning_fit(
        lightning,
        lightning_module(lightning, setting),
        Record(),
        accumulate_grad_batches=setting.accumulate,
        precision=precision,
    )
    check_same(recorder.trajectory, plain_loop(setting), tolerance=TOLERANCE)


def test_the_whole_module_may_be_recorded_as_well(tmp_path, lightning):
    recorder = every_step(tmp_path, 12)

    class Record(lightning.Callback):
        def on_train_start(self, trainer, pl_module):
            recorder.attach(pl_module, *trainer.optimizers)

    lightning_fit(lightning, lightning_module(lightning, Setting()), Record())
    check_same(recorder.trajectory, plain_loop(Setting()), prefix="net.", tolerance=TOLERANCE)


def test_two_optimisers_by_hand_make_one_step_per_batch(tmp_path, lightning):
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=50)

    class Module(lightning.LightningModule):
        automatic_optimization = False

        def __init__(self):
            super().__init__()
            self.net = Network()

        def training_step(self, batch, batch_idx):
            inputs, labels = batch
            for optimizer in self.optimizers():
                with optimizer.toggle_model():  # the other's parameters are frozen meanwhile
                    optimizer.zero_grad()
                    self.manual_backward(nn.functional.cross_entropy(self.net(inputs), labels))
                    optimizer.step()

        def configure_optimizers(self):
            return (
                torch.optim.SGD(self.net.body.parameters(), lr=0.1),
                torch.optim.SGD(self.net.head.parameters(), lr=0.2),
            )

    class Record(lightning.Callback):
        def on_train_start(self, trainer, pl_module):
            recorder.attach(pl_module.net, *pl_module.optimizers())

    module = Module()
    lightning_fit(lightning, module, Record())
    trajectory = recorder.trajectory
    assert trajectory.total_steps == len(trajectory) == 12
    names = {name: 0.1 if "body" in name else 0.2 for name, _ in module.net.named_parameters()}
    assert all(rates_of(point) == names for point in trajectory)
    assert all(torch.equal(trajectory[-1].state()[name], value) for name, value in state_now(module.net).items())


@pytest.mark.filterwarnings("ignore:`training_step` returned `None`")  # on purpose
def test_a_batch_that_training_step_leaves_out_is_no_step(tmp_path, lightning):
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=50)
    module = lightning_module(lightning, Setting(), left_out=[2])

    class Record(lightning.Callback):
        def on_train_start(self, trainer, pl_module):
            recorder.attach(pl_module.net, *trainer.optimizers)

    lightning_fit(lightning, module, Record())
    assert recorder.done == 10
