"""Laws of the update rules: PyTorch's own arithmetic, pure, differentiable, saved and loaded to the bit."""

import math
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn

from moso.training.optimizers import Optimizer, descend, find_rule, rules
from moso.training.recipe import TrainingRecipe
from torch_optimizers import set_rate, torch_optimizer

PLAIN = {"epochs": 1, "batch_size": 1, "learning_rate": 0.1, "schedule": "constant"}
RECIPES = {
    "sgd": {"momentum": 0.0},
    "sgd decayed": {"momentum": 0.0, "weight_decay": 0.01},
    "sgd momentum": {"momentum": 0.9, "weight_decay": 0.01},
    "sgd nesterov clipped": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "clip_norm": 0.5},
    "sgd, slower trunk": {"weight_decay": 0.01, "clip_norm": 0.5, "trunk_factor": 0.1},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1},
    "adamw, slower trunk": {"optimizer": "adamw", "weight_decay": 0.1, "trunk_factor": 0.3},
    "adamw clipped, other betas": {"optimizer": "adamw", "momentum": 0.8, "beta2": 0.95, "clip_norm": 0.5},
    "adam": {"optimizer": "adam"},
    "adam decayed, large epsilon": {"optimizer": "adam", "weight_decay": 0.1, "epsilon": 1e-3},
}
every_recipe = pytest.mark.parametrize("settings", RECIPES.values(), ids=RECIPES)


def recipe(settings) -> TrainingRecipe:
    return TrainingRecipe(**{**PLAIN, **settings})


class Skipping(nn.Module):
    """A network one layer of which some batches do not reach; another parameter is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.always, self.sometimes = nn.Linear(4, 4), nn.Linear(4, 3)
        self.never = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, inputs, reached):
        hidden = self.always(inputs)
        return self.sometimes(hidden) if reached else hidden[:, :3] * self.frozen


def pair(kind=Skipping):
    torch.manual_seed(0)
    one, two = kind(), kind()
    two.load_state_dict(one.state_dict())
    return one, two


@every_recipe
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_optimiser_of_torch_to_the_bit(settings, dtype):
    how = recipe(settings)
    ours, theirs = (model.to(dtype) for model in pair())
    mine, other = Optimizer(ours, how), torch_optimizer(theirs, how)
    torch.manual_seed(1)
    for number in range(12):
        inputs, rate = torch.randn(5, 4, dtype=dtype), 0.05 * (1 + math.cos(number))
        mine.zero_grad()
        other.zero_grad()
        for model in (ours, theirs):
            model(inputs, reached=number % 3 == 1).square().sum().backward()
        if how.clip_norm is not None:
            nn.utils.clip_grad_norm_(theirs.parameters(), how.clip_norm)
        mine.rate = rate
        set_rate(other, rate)
        mine.step()
        other.step()
        for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, two)
    for slot, values in mine.slots.items():
        for name, value in values.items():
            assert torch.equal(value, other.state[theirs.get_parameter(name)][slot])
    assert {"always.weight", "sometimes.bias"} <= mine.counts.keys()
    assert mine.counts["always.weight"] == 12
    assert mine.counts["sometimes.bias"] == 4
    assert "never" not in mine.counts


@pytest.mark.parametrize("name", rules())
def test_complex_parameters_are_two_real_ones(name):
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, dtype=torch.complex64))

    (ours, theirs), how = pair(Waves), recipe({"optimizer": name, "weight_decay": 0.1})
    mine, other = Optimizer(ours, how), torch_optimizer(theirs, how)
    for _ in range(3):
        for model, optimizer in ((ours, mine), (theirs, other)):
            optimizer.zero_grad()
            (model.weight * torch.tensor([1.0, 2.0j, 3.0])).abs().square().sum().backward()
            mine.rate = how.learning_rate
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-6, atol=1e-7)


def given(how, step, copies=()):
    torch.manual_seed(step)
    shapes = {f"weight {size}": (2, size) for size in range(1, 4)} | {f"bias {size}": (size,) for size in range(1, 4)}
    kinds = ("parameter", "gradient", *find_rule(how.optimizer).slots(how))
    drawn = {
        kind: {name: torch.rand(*copies, *shape, dtype=torch.float64) + 0.1 for name, shape in shapes.items()}
        for kind in kinds
    }
    return drawn.pop("parameter"), drawn.pop("gradient"), drawn


@every_recipe
@pytest.mark.parametrize("step", [1, 4])
def test_differentiated_it_changes_nothing_that_it_is_given_and_is_the_same_update(settings, step):
    how = recipe(settings)
    parameters, gradients, slots = given(how, step)
    trees = [parameters, gradients, *slots.values()]
    before = [{name: value.clone() for name, value in tree.items()} for tree in trees]
    counts = dict.fromkeys(parameters, step - 1)
    moved, later = descend(how, 0.1, counts, parameters, gradients, slots)
    assert not torch.equal(moved["bias 2"], parameters["bias 2"])
    for tree, old in zip(trees, before, strict=True):
        assert all(torch.equal(tree[name], old[name]) for name in old)
    with torch.no_grad():
        in_place, written = descend(how, 0.1, counts, parameters, gradients, slots)
    assert all(torch.equal(in_place[name], moved[name]) for name in moved)
    assert all(torch.equal(written[slot][name], later[slot][name]) for slot in later for name in moved)
    assert all(torch.equal(gradients[name], before[1][name]) for name in moved)


@every_recipe
@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_every_derivative_is_that_of_finite_differences(settings, mode):
    how = recipe(settings)
    parameters, gradients, slots = given(how, 3)
    counts, names = dict.fromkeys(parameters, 2), list(parameters)

    def flat(*values):
        rows = [values[at : at + len(names)] for at in range(0, len(values), len(names))]
        trees = [dict(zip(names, row, strict=True)) for row in rows]
        moved, later = descend(how, 0.1, counts, trees[0], trees[1], dict(zip(slots, trees[2:], strict=True)))
        return tuple(one[name] for one in (moved, *later.values()) for name in names)

    leaves = [one[name].requires_grad_() for one in (parameters, gradients, *slots.values()) for name in names]
    assert torch.autograd.gradcheck(
        flat, leaves, check_forward_ad=mode == "forward", check_backward_ad=mode == "backward"
    )


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_a_parameter_whose_gradient_was_always_zero_has_derivatives(name):
    how = recipe({"optimizer": name})
    weight, gradient = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    moved, _ = descend(how, 0.1, {}, {"w": weight}, {"w": gradient}, {})
    found = torch.autograd.grad(moved["w"].sum(), [weight, gradient])
    assert torch.equal(moved["w"], torch.ones(2))
    assert all(torch.isfinite(one).all() for one in found)


@every_recipe
def test_stacked_copies_move_as_each_would_alone(settings):
    how = recipe(settings)
    parameters, gradients, slots = given(how, 3, copies=(4,))
    counts = dict.fromkeys(parameters, 2)
    together, later = descend(how, 0.1, counts, parameters, gradients, slots, copies=True)
    for number in range(4):

        def own(tree, number=number):
            return {name: value[number] for name, value in tree.items()}

        held = {slot: own(tree) for slot, tree in slots.items()}
        alone, own_later = descend(how, 0.1, counts, own(parameters), own(gradients), held)
        torch.testing.assert_close(own(together), alone, rtol=1e-14, atol=0)
        torch.testing.assert_close({slot: own(tree) for slot, tree in later.items()}, own_later, rtol=1e-14, atol=0)


@every_recipe
def test_saved_and_loaded_it_goes_on_to_the_same_bits(settings):
    how = recipe(settings)
    one, two = pair()
    first = Optimizer(one, how)

    def go_on(model, optimizer, numbers):
        for number in numbers:
            torch.manual_seed(number)
            optimizer.zero_grad()
            model(torch.randn(5, 4), reached=number % 3 == 1).square().sum().backward()
            optimizer.rate = 0.05
            optimizer.step()

    go_on(one, first, range(3))
    two.load_state_dict(one.state_dict())
    second = Optimizer(two, how)
    second.load(first.state())
    for model, optimizer in ((one, first), (two, second)):
        go_on(model, optimizer, range(3, 8))
    assert all(torch.equal(mine, other) for mine, other in zip(one.parameters(), two.parameters(), strict=True))


def test_training_imports_no_compiler():
    """A worker that makes an optimiser of torch.optim spends seconds on torch._dynamo and sympy."""
    script = """
        import sys, tempfile
        import numpy as np
        from torch import nn
        from moso.data.views import as_view
        from moso.evidence import Recorder
        from moso.training.loop import StepPlan, TrainingData, train
        from moso.training.recipe import TrainingRecipe
        from moso.training.recording import RecordTrajectory

        data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        for name in ("sgd", "adam", "adamw"):
            recipe = TrainingRecipe(
                optimizer=name, epochs=3, batch_size=2, learning_rate=0.1, schedule="cosine", clip_norm=1.0
            )
            recorder = Recorder(tempfile.mkdtemp(), total_steps=6, samples=2)
            train(nn.Linear(4, 2), StepPlan(data, recipe, seed=0), callbacks=[RecordTrajectory(recorder)])
            assert len(recorder.trajectory) == 2
        print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
