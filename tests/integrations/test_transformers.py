"""The Trainer's callback: every update with its own rate, through warm-up, accumulation, skips and resumption."""

import shutil
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.errors import MosoError
from tests.evidence.loops import (
    BATCH,
    EPOCHS,
    ITEMS,
    SETTINGS,
    TOLERANCE,
    Network,
    Setting,
    check_same,
    plain_loop,
    rates_of,
)
from tests.integrations.noting import check_moments, check_points, copied_moments, noting_optimizer

transformers = pytest.importorskip("transformers")
from moso.integrations.head_losses import head_loss  # noqa: E402
from moso.integrations.transformers import MosoCallback, score  # noqa: E402

pytestmark = pytest.mark.usefixtures("accelerate")


def arguments(tmp_path, setting, **more):
    options = {
        "output_dir": str(tmp_path / "trainer"),
        "use_cpu": True,
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": setting.accumulate,
        "bf16": setting.bfloat16,
        "max_grad_norm": 0,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    return transformers.TrainingArguments(**{**options, **more})


def trainer_of(tmp_path, setting, callback, model=None, kind=transformers.Trainer, items=ITEMS, **more):
    model = Network() if model is None else model
    optimizer = noting_optimizer(setting, model)
    return kind(
        model=model,
        args=arguments(tmp_path, setting, **more),
        train_dataset=items,
        optimizers=(optimizer, setting.scheduler(optimizer)),
        callbacks=[callback],
    )


def updates_of(trainer):
    return trainer.optimizer.optimizer.updates


@pytest.mark.parametrize("setting", [one for one in SETTINGS if not one.per_epoch], ids=str)
def test_every_update_is_recorded_to_the_bit(tmp_path, setting):
    callback = MosoCallback(tmp_path / "trajectory", samples=50)
    trainer = trainer_of(tmp_path, setting, callback)
    trainer.train()
    check_points(callback.trajectory, updates_of(trainer))
    check_same(callback.trajectory, plain_loop(setting), tolerance=TOLERANCE)
    assert callback.trajectory.total_steps == setting.updates
    half = setting.updates // EPOCHS
    assert [point.epoch for point in callback.trajectory] == [0] * half + [1] * half


def test_sampled_steps_are_those_that_the_trainers_plan_gives(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=3, seed=7)
    trainer = trainer_of(tmp_path, Setting(), callback)
    trainer.train()
    planned = moso.Recorder(tmp_path / "other", total_steps=12, samples=3, seed=7).planned
    check_points(callback.trajectory, updates_of(trainer), steps=sorted(planned))


class Overflowing(transformers.Trainer):
    """A trainer whose gradient scaler meets infinite gradients in some updates, as in float16."""

    skipped = (2, 5)

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=16.0)

    def compute_loss(self, model, inputs, **options):
        loss = super().compute_loss(model, inputs, **options)
        return loss * float("inf") if self.state.global_step in self.skipped else loss


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_updates_that_the_scaler_skips_are_no_steps(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=50)
    trainer = trainer_of(tmp_path, Setting(), callback, kind=Overflowing)
    trainer.train()
    assert trainer.state.global_step == 12
    assert len(updates_of(trainer)) == 10
    check_points(callback.trajectory, updates_of(trainer))
    assert callback.trajectory.total_steps == 10


class Killed(Exception):
    pass


class Kill(transformers.TrainerCallback):
    def __init__(self, after):
        self.after = after

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.after:
            raise Killed


@pytest.mark.parametrize("kind", [transformers.Trainer, Overflowing])
def test_a_resumed_training_continues_the_recording(tmp_path, kind):
    """Killed after step 7, resumed from the checkpoint of step 4: the points of a training that was never killed."""
    saving = {"save_strategy": "steps", "save_steps": 4}
    whole = MosoCallback(tmp_path / "whole", samples=50)
    trainer = trainer_of(tmp_path, Setting(), whole, kind=kind, **saving)
    trainer.train()
    updates = updates_of(trainer)
    shutil.rmtree(tmp_path / "trainer")
    interrupted = MosoCallback(tmp_path / "cut", samples=50)
    cut = trainer_of(tmp_path, Setting(), interrupted, kind=kind, **saving)
    cut.add_callback(Kill(7))
    with pytest.raises(Killed):
        cut.train()
    with pytest.raises(MosoError) as caught:
        interrupted.trajectory  # noqa: B018
    assert caught.value.code == "trajectory-incomplete"
    again = MosoCallback(tmp_path / "cut", samples=50)
    resumed = trainer_of(tmp_path, Setting(), again, kind=kind, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "trainer" / "checkpoint-4"))
    check_points(again.trajectory, updates)
    if kind is transformers.Trainer:
        assert [point.epoch for point in again.trajectory] == [0] * 6 + [1] * 6
    assert again.trajectory.total_steps == len(updates)


def test_early_stopping_leaves_the_trajectory_of_the_steps_that_were_made(tmp_path):
    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 8

    callback = MosoCallback(tmp_path / "trajectory", samples=6)
    trainer = trainer_of(tmp_path, Setting(), callback)
    trainer.add_callback(Stop())
    trainer.train()
    planned = moso.Recorder(tmp_path / "other", total_steps=12, samples=6).planned
    check_points(callback.trajectory, updates_of(trainer), steps=[step for step in sorted(planned) if step <= 8])
    assert callback.trajectory.total_steps == 8


def test_a_folder_with_another_trainings_trajectory_is_refused(tmp_path):
    trainer_of(tmp_path, Setting(), MosoCallback(tmp_path / "trajectory")).train()
    with pytest.raises(MosoError) as caught:
        trainer_of(tmp_path, Setting(), MosoCallback(tmp_path / "trajectory")).train()
    assert caught.value.code == "output-exists"
    callback = MosoCallback(tmp_path / "trajectory", samples=50, overwrite=True)
    trainer = trainer_of(tmp_path, Setting(accumulate=2), callback)
    trainer.train()
    check_points(callback.trajectory, updates_of(trainer))


def test_before_training_there_is_no_trajectory(tmp_path):
    with pytest.raises(MosoError) as caught:
        MosoCallback(tmp_path).trajectory  # noqa: B018
    assert caught.value.code == "recorder-misused"


def test_a_compiled_model_is_recorded_under_the_bare_ones_names(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=50)
    setting = Setting("one-cycle", groups=True)
    trainer = trainer_of(tmp_path, setting, callback, torch_compile=True, torch_compile_backend="eager")
    trainer.train()
    check_points(callback.trajectory, updates_of(trainer))


# Scores


def bert(**options):
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertConfig(vocab_size=20, max_position_embeddings=12, **sizes, **dropout, **options)


TEXTS = [
    {
        "input_ids": ids.tolist(),
        "attention_mask": [1] * len(ids),
        "label": number % 3,
        "name": "a column that the model does not know",
    }
    for number, ids in enumerate(
        torch.randint(1, 20, (length,), generator=torch.Generator().manual_seed(length))
        for length in (4, 7, 5, 6, 7, 4, 5, 6)
    )
]


def padded(items):
    """A data collator that pads each batch to its own length, as DataCollatorWithPadding, without a tokenizer."""
    longest = max(len(item["input_ids"]) for item in items)
    columns = {
        name: torch.tensor([item[name] + [0] * (longest - len(item[name])) for item in items])
        for name in ("input_ids", "attention_mask")
    }
    assert all("name" not in item for item in items)
    return {**columns, "labels": torch.tensor([item["label"] for item in items])}


def by_single_gradients(model, batches, trajectory):
    """Proposition 1.1 by plain autograd from the loss that the model itself returns for batches of one."""
    count, scores = len(batches), torch.zeros(len(batches), dtype=torch.float64)
    model.eval()
    for point in trajectory:
        point.load_into(model)
        rates = rates_of(point)
        named = [(name, one) for name, one in model.named_parameters() if name in rates]
        each = [
            torch.autograd.grad(model(**one).loss, [parameter for _, parameter in named], allow_unused=True)
            for one in batches
        ]
        for number, (name, parameter) in enumerate(named):
            rows = [torch.zeros_like(parameter) if one[number] is None else one[number] for one in each]
            gradients = torch.stack([row.flatten() for row in rows]).double()
            scores += rates[name] * (count * gradients @ gradients.mean(0) - gradients.square().sum(1)) / (count - 1)
    return (scores * trajectory.total_steps / count / len(trajectory)).numpy()


def text_trainer(tmp_path, callback, kind=transformers.Trainer, **more):
    model = transformers.BertForSequenceClassification(bert(num_labels=3))
    args = arguments(tmp_path, Setting(), remove_unused_columns=True, learning_rate=0.01, warmup_steps=1, **more)
    return kind(model, args, train_dataset=TEXTS, data_collator=padded, callbacks=[callback])


def test_a_trainers_samples_are_scored_in_one_line(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=3)
    trainer = text_trainer(tmp_path, callback)
    trainer.train()
    found = score(trainer, callback.trajectory)
    items = [{name: value for name, value in item.items() if name != "name"} for item in TEXTS]
    expected = by_single_gradients(trainer.model, [padded([item]) for item in items], callback.trajectory)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())
    by_model = score(trainer.model, callback.trajectory, TEXTS, data_collator=padded)
    np.testing.assert_array_equal(by_model, found)


def test_label_smoothing_is_the_trainers(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=2)
    trainer = text_trainer(tmp_path, callback, label_smoothing_factor=0.3)
    trainer.train()
    found = score(trainer, callback.trajectory)

    def smoothed(model, batch):
        labels = batch.pop("labels")
        losses = trainer.label_smoother(model(**batch), labels)
        batch["labels"] = labels
        return losses.reshape(1)

    # The trainer's own smoother over batches of one sample.
    each = [padded([{name: value for name, value in item.items() if name != "name"}]) for item in TEXTS]
    for batch in each:
        own = head_loss(trainer.model, batch, label_smoothing=0.3)
        torch.testing.assert_close(own, smoothed(trainer.model, dict(batch)))
    by_model = partial(score, trainer.model, callback.trajectory, TEXTS, data_collator=padded)
    np.testing.assert_array_equal(found, by_model(loss=partial(head_loss, label_smoothing=0.3)))
    assert not np.allclose(found, by_model())


def test_a_loss_of_the_trainers_own_is_asked_for(tmp_path):
    callback = MosoCallback(tmp_path / "trajectory", samples=2)

    class Weighted(transformers.Trainer):
        def compute_loss(self, model, inputs, **options):
            return 2 * super().compute_loss(model, inputs, **options)

    trainer = text_trainer(tmp_path, callback, kind=Weighted)
    trainer.train()
    with pytest.raises(MosoError) as caught:
        score(trainer, callback.trajectory)
    assert caught.value.code == "setting-missing"

    def doubled(model, batch):
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return 2 * nn.functional.cross_entropy(logits, batch["labels"], reduction="none")

    found = score(trainer, callback.trajectory, loss=doubled)
    plain = score(trainer.model, callback.trajectory, TEXTS, data_collator=padded)
    np.testing.assert_allclose(found, 4 * plain, rtol=1e-4)


def test_a_collator_that_draws_at_random_is_refused(tmp_path):
    def masked(items):
        batch = padded(items)
        return {**batch, "input_ids": batch["input_ids"] * (torch.rand(batch["input_ids"].shape) > 0.5)}

    model = transformers.BertForSequenceClassification(bert(num_labels=3))
    trajectory = moso.Trajectory.from_states([(model.state_dict(), 0.1)])
    with pytest.raises(MosoError) as caught:
        score(model, trajectory, TEXTS, data_collator=masked)
    assert caught.value.code == "dataset-random"
    with pytest.raises(MosoError) as caught:
        score(model, trajectory)
    assert caught.value.code == "setting-missing"


def test_an_adapter_under_the_trainer_is_recorded_without_the_frozen_network(tmp_path):
    peft = pytest.importorskip("peft")
    model = transformers.BertForSequenceClassification(bert(num_labels=3))
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=2)
    model = peft.get_peft_model(model, config)
    callback = MosoCallback(tmp_path / "trajectory", samples=2)
    args = arguments(tmp_path, Setting(), remove_unused_columns=True, learning_rate=0.05)
    trainer = transformers.Trainer(model, args, train_dataset=TEXTS, data_collator=padded, callbacks=[callback])
    trainer.train()
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    point = callback.trajectory[0]
    assert {name for group in point.groups for name in group} == trained
    assert set(point.state()) & dict(model.named_parameters()).keys() == trained
    found = score(trainer, callback.trajectory)
    items = [{name: value for name, value in item.items() if name != "name"} for item in TEXTS]
    expected = by_single_gradients(model, [padded([item]) for item in items], callback.trajectory)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_a_dataset_of_texts_with_transformers_own_collator(tmp_path):
    datasets = pytest.importorskip("datasets")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *"abcdefgh"])}
    own = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, pad_token="[PAD]", unk_token="[UNK]")
    texts = ["a b c", "b", "c d e f", "g h", "a", "h g f e d"]
    table = datasets.Dataset.from_dict({"text": texts, "label": [0, 1, 2, 0, 1, 2]})
    table = table.map(lambda row: tokenizer(row["text"]), load_from_cache_file=False)
    model = transformers.BertForSequenceClassification(bert(num_labels=3))
    callback = MosoCallback(tmp_path / "trajectory", samples=2)
    args = arguments(tmp_path, Setting(), remove_unused_columns=True, learning_rate=0.01)
    collator = transformers.DataCollatorWithPadding(tokenizer)
    trainer = transformers.Trainer(model, args, train_dataset=table, data_collator=collator, callbacks=[callback])
    trainer.train()
    found = score(trainer, callback.trajectory)
    batches = [collator([{name: row[name] for name in ("input_ids", "attention_mask", "label")}]) for row in table]
    expected = by_single_gradients(model, batches, callback.trajectory)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


class NotedMoments(transformers.TrainerCallback):
    """The optimiser's moments after every update, by parameter name."""

    def __init__(self):
        self.after = {}

    def on_optimizer_step(self, args, state, control, model=None, optimizer=None, **_):
        inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
        self.after[state.global_step + 1] = copied_moments(model, inner)


def test_moments_are_those_of_the_trainers_adamw_at_that_step_and_scores_use_them(tmp_path):
    callback, noted = MosoCallback(tmp_path / "trajectory", samples=3, moments=True), NotedMoments()
    trainer = text_trainer(tmp_path, callback)
    trainer.add_callback(noted)
    trainer.train()
    check_moments(callback.trajectory, trainer.model, noted.after)
    aware = score(trainer, callback.trajectory, optimizer_aware=True)
    assert np.isfinite(aware).all()
    assert not np.allclose(aware, score(trainer, callback.trajectory), rtol=0.01)
    plain = MosoCallback(tmp_path / "without", samples=3)
    again = text_trainer(tmp_path, plain)
    again.train()
    with pytest.raises(MosoError) as caught:
        score(again, plain.trajectory, optimizer_aware=True)
    assert caught.value.code == "trajectory-incomplete"
