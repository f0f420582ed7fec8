"""Lightning's callback: every update with its own rate, through accumulation, several optimisers and resumption."""

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.errors import MosoError
from tests.evidence.loops import DATA, EPOCHS, SETTINGS, TOLERANCE, Network, Setting, check_same, plain_loop
from tests.integrations.noting import (
    check_moments,
    check_points,
    copied_moments,
    loader,
    noting,
    noting_optimizer,
)

lightning = pytest.importorskip("lightning")
from moso.integrations.lightning import MosoCallback  # noqa: E402

pytestmark = [
    # Lightning 2.6 makes tree specifications in a way that PyTorch 2.13 has deprecated.
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    # These tests load 24 samples; workers would cost more than they save.
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]


class Module(lightning.LightningModule):
    def __init__(self, setting):
        super().__init__()
        self.net, self.setting = Network(), setting

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        self.noted = noting_optimizer(self.setting, self.net)
        interval = "epoch" if self.setting.per_epoch else "step"
        return {
            "optimizer": self.noted,
            "lr_scheduler": {"scheduler": self.setting.scheduler(self.noted), "interval": interval},
        }


def fit(module, *callbacks, checkpoint=None, epochs=EPOCHS, **options):
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=any(isinstance(one, lightning.pytorch.callbacks.ModelCheckpoint) for one in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )
    trainer.fit(module, loader(), ckpt_path=checkpoint)
    return trainer


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_update_is_recorded_to_the_bit(tmp_path, setting):
    record, module = MosoCallback(tmp_path, network="net", samples=50), Module(setting)
    precision = "bf16-mixed" if setting.bfloat16 else "32-true"
    trainer = fit(module, record, accumulate_grad_batches=setting.accumulate, precision=precision)
    check_points(record.trajectory, module.noted.updates)
    check_same(record.trajectory, plain_loop(setting), tolerance=TOLERANCE)
    assert record.trajectory.total_steps == trainer.global_step == setting.updates
    half = setting.updates // EPOCHS
    assert [point.epoch for point in record.trajectory] == [0] * half + [1] * half


def test_the_whole_module_is_recorded_unless_a_network_is_named(tmp_path):
    record, module = MosoCallback(tmp_path / "all", samples=50), Module(Setting())
    fit(module, record)
    check_points(record.trajectory, module.noted.updates, prefix="net.")
    with pytest.raises(MosoError) as caught:
        fit(Module(Setting()), MosoCallback(tmp_path / "other", network="nett"))
    assert caught.value.code == "unknown-name"


def test_scores_are_those_of_a_plain_loop(tmp_path):
    record, module = MosoCallback(tmp_path / "lightning", network="net", samples=50), Module(Setting())
    fit(module, record)
    recorder = moso.Recorder(tmp_path / "plain", total_steps=12, samples=12)
    plain_loop(Setting(), before=recorder.attach)
    expected = moso.score(Network(), DATA, recorder.trajectory)
    np.testing.assert_allclose(moso.score(module.net, DATA, record.trajectory), expected, rtol=1e-4)


def test_training_resumed_from_a_checkpoint_continues_the_recording(tmp_path):
    """Killed in the second epoch, resumed from the checkpoint of the first: as if it had never been killed."""

    class Killed(Exception):
        pass

    class Kill(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 9:
                raise Killed

    def saving():
        return lightning.pytorch.callbacks.ModelCheckpoint(tmp_path / "saved", filename="epoch", save_top_k=1)

    whole = Module(Setting())
    fit(whole, MosoCallback(tmp_path / "whole", samples=50))
    cut = MosoCallback(tmp_path / "cut", network="net", samples=50)
    with pytest.raises(Killed):
        fit(Module(Setting()), cut, saving(), Kill())
    assert cut.recording.done == 9
    with pytest.raises(MosoError) as caught:
        cut.trajectory  # noqa: B018
    assert caught.value.code == "trajectory-incomplete"
    resumed = MosoCallback(tmp_path / "cut", network="net", samples=50)
    fit(Module(Setting()), resumed, saving(), checkpoint=tmp_path / "saved" / "epoch.ckpt")
    check_points(resumed.trajectory, whole.noted.updates)


def test_early_stopping_leaves_the_steps_that_were_made(tmp_path):
    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            trainer.should_stop = trainer.global_step >= 8

    record, module = MosoCallback(tmp_path, network="net", samples=50), Module(Setting())
    fit(module, record, Stop())
    assert len(module.noted.updates) == 8
    check_points(record.trajectory, module.noted.updates)
    assert record.trajectory.total_steps == 8


def test_manual_optimisation_of_two_optimisers_is_sampled_without_a_plan(tmp_path):
    class Manual(lightning.LightningModule):
        automatic_optimization = False

        def __init__(self):
            super().__init__()
            self.net = Network()

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers():
                with optimizer.toggle_model():
                    optimizer.zero_grad()
                    self.manual_backward(nn.functional.cross_entropy(self.net(batch[0]), batch[1]))
                    optimizer.step()

        def configure_optimizers(self):
            self.second = noting(torch.optim.SGD)(self.net.head.parameters(), network=self.net, lr=0.2)
            return torch.optim.SGD(self.net.body.parameters(), lr=0.1), self.second

    record, module = MosoCallback(tmp_path, network="net", samples=5), Manual()
    fit(module, record)
    trajectory = record.trajectory
    assert (trajectory.total_steps, len(trajectory)) == (12, 5)
    for point in trajectory:  # the second optimiser steps last, so its note has the state after the step
        assert set(point.learning_rates) == {0.1, 0.2}
        for name, value in module.second.updates[point.step - 1].state.items():
            assert torch.equal(point.state()[name], value)


def test_a_second_training_does_not_mix_with_the_first(tmp_path):
    fit(Module(Setting()), MosoCallback(tmp_path, network="net"))
    with pytest.raises(MosoError) as caught:
        fit(Module(Setting()), MosoCallback(tmp_path, network="net"))
    assert caught.value.code == "output-exists"


class AdamModule(Module):
    def configure_optimizers(self):
        self.noted = torch.optim.AdamW(self.net.parameters(), lr=0.01, betas=(0.8, 0.95))
        return self.noted


class NotedMoments(lightning.Callback):
    """The optimiser's moments after every update, by parameter name."""

    def __init__(self):
        self.after = {}

    def on_train_batch_end(self, trainer, module, *_):
        self.after[trainer.global_step] = copied_moments(module.net, module.noted)


def test_moments_are_those_of_the_optimiser_at_that_step_and_scores_use_them(tmp_path):
    record, noted = MosoCallback(tmp_path, network="net", samples=4, moments=True), NotedMoments()
    module = AdamModule(Setting())
    fit(module, record, noted)
    check_moments(record.trajectory, module.net, noted.after)
    aware = moso.score(module.net, DATA, record.trajectory, optimizer_aware=True)
    assert np.isfinite(aware).all()
    assert not np.allclose(aware, moso.score(module.net, DATA, record.trajectory), rtol=0.01)
