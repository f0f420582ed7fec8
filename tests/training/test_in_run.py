"""Scores collected while training: against a plain loop with gradients of single samples, and killed on the way."""

import numpy as np
import pytest
import torch
from torch import nn

from moso.data.samples import StoredSamples
from moso.randomness import seeded
from moso.training.in_run import InRun, check_in_run, counted_steps
from moso.training.loop import AfterStep, Checkpoints, StepPlan, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate
from refusals import refusal
from torch_optimizers import set_rate, torch_optimizer

COUNT = 40
RECIPE = TrainingRecipe(
    epochs=4, batch_size=12, learning_rate=0.1, schedule="cosine", nesterov=True, weight_decay=1e-2, clip_norm=1.0,
    warmup_epochs=1.0, augmentation="crop-flip",
)  # fmt: skip
PER_EPOCH = 4


def data(recipe=RECIPE) -> TrainingData:
    images = np.random.default_rng(0).integers(0, 255, (60, 1, 8, 8)).astype(np.uint8)
    samples = StoredSamples.from_arrays(images, np.arange(60) % 3)
    kept = np.random.default_rng(1).permutation(60)[:COUNT]  # any order, with gaps
    return TrainingData(samples.training_view(recipe.augmentation, 0), kept, samples.keys)


def perceptron() -> nn.Module:
    with seeded(0, "test"):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 3))


def convnet() -> nn.Module:
    with seeded(0, "test"):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
            nn.Linear(256, 3),
        )  # fmt: skip


def collected(build, recipe=RECIPE, steps=(8, 12, 16), **options):
    found = []
    source = data(recipe)
    in_run = InRun(source.positions, np.array(steps), PER_EPOCH, found.append)
    model = build()
    train(model, StepPlan(source, recipe, seed=3), callbacks=[in_run], **options)
    return model, found


@pytest.mark.parametrize(("optimizer", "trunk"), [("sgd", 1.0), ("adam", 1.0), ("adamw", 1.0), ("sgd", 0.1)])
def test_terms_are_products_of_momentum_with_gradients_of_single_samples(optimizer, trunk):
    own = {"optimizer": optimizer, "nesterov": False} if optimizer != "sgd" else {}
    recipe = RECIPE.changed(**own, trunk_factor=trunk)
    _, found = collected(perceptron, recipe)
    source, model = data(recipe), perceptron()
    truth = np.full((3, COUNT), np.nan)
    rates = []
    row = {int(position): number for number, position in enumerate(source.positions)}

    # The loop, read aloud: before each update, the moment's mean times each sample's gradient.
    watch = AfterStep(lambda run, step: rates.append(step.rate))
    train(perceptron(), StepPlan(source, recipe, seed=3), callbacks=[watch])
    optimiser, step = torch_optimizer(model, recipe), 0
    for epoch in range(4):
        for positions in source.epoch_batches(12, epoch, 3):
            step += 1
            set_rate(optimiser, learning_rate(recipe, step, 16, PER_EPOCH))
            inputs, labels = source.view.batch(positions, epoch)
            if epoch:
                name, scale = "momentum_buffer", 0.1 / (1 - 0.9 ** (step - 1))
                if optimizer != "sgd":
                    name, scale = "exp_avg", 1 / (1 - 0.9 ** (step - 1))
                groups = [(group["factor"], group["params"]) for group in optimiser.param_groups]
                weighed = {value: factor * scale for factor, own in groups for value in own}
                moments = [optimiser.state[value][name] * weighed[value] for value in model.parameters()]
                for z, position in enumerate(positions.tolist()):
                    loss = nn.functional.cross_entropy(model(inputs[z : z + 1]), labels[z : z + 1])
                    parts = torch.autograd.grad(loss, list(model.parameters()))
                    product = sum(float((v * g).sum()) for v, g in zip(moments, parts, strict=True))
                    truth[epoch - 1, row[position]] = product
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    assert [terms.step for terms in found] == [8, 12, 16]
    for terms, expected, number in zip(found, truth, range(1, 4), strict=True):
        # a = (N dot - squared_norm) / (N - 1) is the product itself.
        np.testing.assert_allclose(COUNT * terms.dot[0] / (COUNT - 1), expected, rtol=1e-4, atol=1e-6)
        assert not terms.squared_norm.any()
        assert terms.learning_rates == (pytest.approx(np.mean(rates[number * PER_EPOCH : (number + 1) * PER_EPOCH])),)


def test_training_is_what_it_would_be_without():
    watched, _ = collected(convnet)
    plain = convnet()
    train(plain, StepPlan(data(), RECIPE, seed=3))
    for name, value in plain.state_dict().items():
        assert torch.equal(value, watched.state_dict()[name])


class Interruption(Exception):
    pass


@pytest.mark.parametrize("stops", [[5], [8], [6, 9, 14], [10, 11]])
def test_interrupted_in_mid_epoch_the_terms_are_the_same_bits(tmp_path, stops):
    _, whole = collected(convnet)
    checkpoints = Checkpoints(tmp_path / "position", seconds=0)
    kept = {}
    for stop in [*stops, None]:
        source = data()
        in_run = InRun(
            source.positions, np.array([8, 12, 16]), PER_EPOCH, lambda terms: kept.update({terms.step: terms})
        )

        def interrupt(run, step, stop=stop):
            if stop is not None and step.number > stop:
                raise Interruption

        try:
            train(
                convnet(),
                StepPlan(source, RECIPE, seed=3),
                callbacks=[in_run, AfterStep(interrupt), checkpoints],
            )
        except Interruption:
            assert stop is not None
    assert list(kept) == [8, 12, 16]
    for terms in whole:
        np.testing.assert_array_equal(terms.dot, kept[terms.step].dot)
        assert terms.learning_rates == kept[terms.step].learning_rates


def test_epochs_that_do_not_count_cost_nothing_and_change_nothing():
    _, every = collected(convnet)
    _, some = collected(convnet, steps=(12,))
    assert [terms.step for terms in some] == [12]
    np.testing.assert_array_equal(some[0].dot, every[1].dot)


def test_counted_steps_are_ends_of_epochs_after_the_first():
    assert counted_steps(5, 7, 4, seed=0).tolist() == [14, 21, 28, 35]
    some = counted_steps(20, 7, 5, seed=0)
    assert len(set(some.tolist())) == 5
    assert (some % 7 == 0).all()
    assert some.min() >= 14
    with refusal("setting-invalid", 4, 5):
        counted_steps(5, 7, 5, seed=0)


def test_a_recipe_without_a_direction_is_refused():
    with refusal("recipe-unsuitable", 0):
        check_in_run(RECIPE.changed(momentum=0.0, nesterov=False))
    with refusal("recipe-unsuitable"):
        check_in_run(RECIPE.changed(epochs=1))
    with refusal("recipe-unsuitable"):
        check_in_run(RECIPE.changed(precision="float16"))
    with refusal("recipe-unsuitable"):
        collected(perceptron, RECIPE.changed(momentum=0.0, nesterov=False))


def test_a_network_with_a_parameter_out_of_sight_is_refused_by_name():
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.randn(3, 64))

        def forward(self, inputs):
            return torch.cdist(inputs.flatten(1), self.matrix)

    with refusal("model-unsuitable", "estimator"):
        collected(Bare)
