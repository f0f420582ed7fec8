"""The recorder inside the loops of accelerate, transformers and skorch: the same points as in a plain loop.

Nothing is downloaded: the network is that of `loops.py`. Where the frameworks' own hooks come after the scheduler, both
ways are held against the plain loop: `attach` before training, and `step` in the hook that comes late.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from moso.models.compat import prepare_torchvision
from tests.evidence.loops import (
    BATCH,
    DATA,
    EPOCHS,
    INPUTS,
    ITEMS,
    LABELS,
    SETTINGS,
    TOLERANCE,
    WAYS,
    Network,
    Setting,
    batches,
    check_same,
    every_step,
    plain_loop,
    rates_of,
    state_now,
)


@pytest.fixture(scope="module", autouse=True)
def whole_torchvision():
    prepare_torchvision()  # transformers and Lightning import a whole torchvision, or none


@pytest.fixture
def accelerate():
    """Accelerate keeps its settings for the life of a process; each test starts from none."""
    found = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield found
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def accelerate_loop(accelerate, setting, recorder, way):
    accelerator = accelerate.Accelerator(
        cpu=True,
        gradient_accumulation_steps=setting.accumulate,
        mixed_precision="bf16" if setting.bfloat16 else "no",
    )
    network = Network()
    optimizer = setting.optimizer(network)
    scheduler = setting.scheduler(optimizer)
    if way == "attach before prepare":
        recorder.attach(network, optimizer)
    model, optimizer, scheduler, loader = accelerator.prepare(
        network, optimizer, scheduler, DataLoader(DATA, batch_size=BATCH)
    )
    if way == "attach":
        recorder.attach(model, optimizer)
    for _ in range(EPOCHS):
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(inputs), labels))
                optimizer.step()
                if not setting.per_epoch:
                    scheduler.step()
                optimizer.zero_grad()
            if way == "step":  # for every batch, also for those that only accumulate
                recorder.step(model, optimizer)
        if setting.per_epoch:
            scheduler.step()


@pytest.mark.parametrize("way", [*WAYS, "attach before prepare"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_accelerate(tmp_path, accelerate, setting, way):
    recorder = every_step(tmp_path, setting.updates)
    accelerate_loop(accelerate, setting, recorder, way)
    check_same(recorder.trajectory, plain_loop(setting), tolerance=TOLERANCE)


@pytest.mark.parametrize("way", WAYS)
def test_steps_that_accelerates_optimiser_skips_are_no_steps(tmp_path, accelerate, way):
    accelerate.Accelerator(cpu=True)
    model = Network()
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    optimizer = accelerate.optimizer.AcceleratedOptimizer(inner, scaler=scaler)
    recorder = every_step(tmp_path, 4)
    if way == "attach":
        recorder.attach(model, optimizer)
    states = []
    for number, (inputs, labels) in enumerate(batches()):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss * float("inf") if number in {0, 3} else loss).backward()
        optimizer.step()
        if way == "step":
            recorder.step(model, optimizer)
        assert optimizer.step_was_skipped == (number in {0, 3})
        if not optimizer.step_was_skipped:
            states.append(state_now(model))
        optimizer.zero_grad()
    for point, state in zip(recorder.trajectory, states, strict=True):
        assert all(torch.equal(point.state()[name], value) for name, value in state.items())


def arguments(transformers, tmp_path, setting, **more):
    return transformers.TrainingArguments(
        output_dir=str(tmp_path / "trainer"),
        use_cpu=True,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=setting.accumulate,
        bf16=setting.bfloat16,
        max_grad_norm=0,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        **more,
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("setting", [one for one in SETTINGS if not one.per_epoch], ids=str)
def test_transformers_trainer(tmp_path, accelerate, setting, way):
    transformers = pytest.importorskip("transformers")
    recorder = every_step(tmp_path / "trajectory", setting.updates)

    class Record(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
            assert state.max_steps == setting.updates
            if way == "attach":
                recorder.attach(model, optimizer)

        def on_step_end(self, args, state, control, model=None, optimizer=None, **kwargs):
            if way == "step":  # the scheduler has been before
                recorder.step(model, optimizer)

    model = Network()
    optimizer = setting.optimizer(model)
    transformers.Trainer(
        model=model,
        args=arguments(transformers, tmp_path, setting),
        train_dataset=ITEMS,
        optimizers=(optimizer, setting.scheduler(optimizer)),
        callbacks=[Record()],
    ).train()
    check_same(recorder.trajectory, plain_loop(setting), tolerance=TOLERANCE)


def test_transformers_trainer_with_its_own_optimiser_and_warm_up(tmp_path, accelerate):
    transformers = pytest.importorskip("transformers")
    setting, recorder, given = Setting(accumulate=2), every_step(tmp_path / "trajectory", 6), []

    class Record(transformers.TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
            recorder.attach(model, optimizer)

        def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
            given.append({group["lr"] for group in optimizer.param_groups})

    settings = arguments(transformers, tmp_path, setting, learning_rate=0.3, warmup_steps=3)
    transformers.Trainer(model=Network(), args=settings, train_dataset=ITEMS, callbacks=[Record()]).train()
    # Warm-up from 0 to 0.3 over three steps, then down to 0.
    expected = [0.0, 0.1, 0.2, 0.3, 0.2, 0.1]
    found = [rates_of(point) for point in recorder.trajectory]
    assert [set(rates.values()) for rates in found] == given
    assert [min(rates.values()) for rates in found] == pytest.approx(expected)
    # Trainer gives biases and norms a group of their own, without weight decay; all have a rate.
    assert all(len(rates) == 6 for rates in found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_skorch(tmp_path, setting, way):
    skorch = pytest.importorskip("skorch")
    recorder = every_step(tmp_path, setting.updates)

    class Record(skorch.callbacks.Callback):
        def on_train_begin(self, net, X=None, y=None, **kwargs):
            if way == "attach":
                recorder.attach(net.module_, net.optimizer_)

        def on_batch_end(self, net, batch=None, training=None, **kwargs):
            if way == "step":
                recorder.step(net.module_, net.optimizer_)

    class Scheduled(skorch.callbacks.Callback):
        """Skorch's own scheduler steps per batch or per epoch, and not per update where gradients accumulate."""

        def on_train_begin(self, net, X=None, y=None, **kwargs):
            self.scheduler_, self.updates_ = setting.scheduler(net.optimizer_), 0

        def on_batch_end(self, net, batch=None, training=None, **kwargs):
            if not setting.per_epoch and len(net.history[-1, "batches"]) % setting.accumulate == 0:
                self.scheduler_.step()

        def on_epoch_end(self, net, **kwargs):
            if setting.per_epoch:
                self.scheduler_.step()

    class Net(skorch.NeuralNet):
        """As skorch's documentation has it for gradient accumulation and mixed precision."""

        def get_loss(self, *args, **kwargs):
            return super().get_loss(*args, **kwargs) / setting.accumulate

        def train_step_single(self, *args, **kwargs):
            with torch.autocast("cpu", torch.bfloat16, enabled=setting.bfloat16):
                return super().train_step_single(*args, **kwargs)

        def train_step(self, batch, **fit_params):
            done = len(self.history[-1, "batches"])
            step = self.train_step_single(batch, **fit_params)
            if done % setting.accumulate == 0:
                self.optimizer_.step()
                self.optimizer_.zero_grad()
            return step

        def initialize_optimizer(self, *args, **kwargs):
            self.optimizer_ = setting.optimizer(self.module_)
            return self

    net = Net(
        Network,
        nn.CrossEntropyLoss,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        callbacks=[Scheduled(), Record()],
    )
    net.fit(INPUTS.numpy(), LABELS.numpy())
    check_same(recorder.trajectory, plain_loop(setting), tolerance=TOLERANCE)


def test_skorch_with_its_own_scheduler(tmp_path):
    skorch = pytest.importorskip("skorch")
    recorder = every_step(tmp_path, 12)

    class Record(skorch.callbacks.Callback):
        def on_train_begin(self, net, X=None, y=None, **kwargs):
            recorder.attach(net.module_, net.optimizer_)

    warm_up = skorch.callbacks.LRScheduler(
        torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda n: n / 3 if n < 3 else 1 / n, step_every="batch"
    )
    net = skorch.NeuralNet(
        Network,
        nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        lr=0.2,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        callbacks=[warm_up, Record()],
    )
    net.fit(INPUTS.numpy(), LABELS.numpy())
    check_same(recorder.trajectory, plain_loop(Setting()), tolerance=TOLERANCE)
