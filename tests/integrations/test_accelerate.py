"""A recording around accelerate's loop: one line after `prepare`, kept in accelerate's own checkpoints."""

import pytest
import torch
from torch import nn

from moso.errors import MosoError
from tests.evidence.loops import EPOCHS, SETTINGS, TOLERANCE, Network, Setting, check_same, plain_loop
from tests.integrations.noting import check_points, loader, noting_optimizer

pytest.importorskip("accelerate")
from moso.integrations.accelerate import record


class Training:
    """A loop as accelerate's documentation has it."""

    def __init__(self, accelerate, setting, folder, **options):
        self.setting = setting
        self.accelerator = accelerate.Accelerator(
            cpu=True,
            gradient_accumulation_steps=setting.accumulate,
            mixed_precision="bf16" if setting.bfloat16 else "no",
        )
        network = Network()
        self.noted = noting_optimizer(setting, network)
        prepared = self.accelerator.prepare(network, self.noted, setting.scheduler(self.noted), loader())
        self.model, self.optimizer, self.scheduler, self.loader = prepared
        options = {"total_steps": setting.updates, "samples": 50, **options}
        self.recording = record(self.accelerator, self.model, self.optimizer, folder=folder, **options)

    def epoch(self):
        for inputs, labels in self.loader:
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(nn.functional.cross_entropy(self.model(inputs), labels))
                self.optimizer.step()
                if not self.setting.per_epoch:
                    self.scheduler.step()
                self.optimizer.zero_grad()
        if self.setting.per_epoch:
            self.scheduler.step()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_update_is_recorded_to_the_bit(tmp_path, accelerate, setting):
    training = Training(accelerate, setting, tmp_path)
    for _ in range(EPOCHS):
        training.epoch()
    check_points(training.recording.trajectory, training.noted.updates)
    check_same(training.recording.trajectory, plain_loop(setting), tolerance=TOLERANCE)


@pytest.mark.parametrize("total_steps", [12, None])
def test_the_number_of_updates_is_in_accelerates_checkpoints(tmp_path, accelerate, total_steps):
    """Saved after the first epoch, interrupted in the third, resumed by another object: as if it had never ended."""
    setting, options = Setting(), {"total_steps": total_steps, "samples": 8}
    whole = Training(accelerate, setting, tmp_path / "whole", **options)
    whole.epoch()
    whole.epoch()
    cut = Training(accelerate, setting, tmp_path / "cut", **options)
    cut.epoch()
    cut.accelerator.save_state(tmp_path / "saved")
    cut.epoch()
    resumed = Training(accelerate, setting, tmp_path / "cut", resume=True, **options)
    resumed.accelerator.load_state(tmp_path / "saved")
    assert resumed.recording.done == 6
    resumed.epoch()
    points = list(whole.recording.trajectory)
    assert len(points) == 8
    check_points(resumed.recording.trajectory, whole.noted.updates, steps=[point.step for point in points])


def test_a_resumed_recording_that_falls_short_of_the_interrupted_one_is_refused(tmp_path, accelerate):
    """Without a plan, later steps had taken the places of earlier ones, which are gone unless they are made again."""
    options = {"total_steps": None, "samples": 3}
    cut = Training(accelerate, Setting(), tmp_path / "cut", **options)
    cut.epoch()
    cut.accelerator.save_state(tmp_path / "saved")
    for _ in range(6):
        cut.epoch()
    resumed = Training(accelerate, Setting(), tmp_path / "cut", resume=True, **options)
    resumed.accelerator.load_state(tmp_path / "saved")
    with pytest.raises(MosoError) as caught:
        resumed.recording.trajectory  # noqa: B018
    assert caught.value.code == "trajectory-incomplete"


def test_before_the_state_is_loaded_nothing_is_recorded(tmp_path, accelerate):
    training = Training(accelerate, Setting(), tmp_path, resume=True)
    training.epoch()
    with pytest.raises(MosoError) as caught:
        training.recording.trajectory  # noqa: B018
    assert caught.value.code == "recorder-misused"
    assert list(tmp_path.iterdir()) == []


def test_processes_beside_the_main_one_record_nothing(tmp_path, accelerate, monkeypatch):
    monkeypatch.setattr(accelerate.Accelerator, "is_main_process", False)
    Training(accelerate, Setting(), tmp_path).epoch()
    assert list(tmp_path.iterdir()) == []


def test_a_loop_that_ends_early_says_so(tmp_path, accelerate):
    training = Training(accelerate, Setting(), tmp_path)
    training.epoch()
    with pytest.raises(MosoError) as caught:
        training.recording.trajectory  # noqa: B018
    assert caught.value.code == "trajectory-incomplete"
    training.recording.end()
    check_points(training.recording.trajectory, training.noted.updates)
    assert training.recording.trajectory.total_steps == 6
    before = [parameter.clone() for parameter in training.model.parameters()]
    training.epoch()  # after end() nothing is recorded
    assert not all(map(torch.equal, before, training.model.parameters()))
    assert training.recording.done == 6
