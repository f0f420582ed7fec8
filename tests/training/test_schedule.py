"""Learning rates, update by update, against PyTorch's own schedulers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR, OneCycleLR

from moso.training.recipe import TrainingRecipe
from moso.training.schedule import learning_rate
from refusals import refusal

EXACT = 1e-12


def recipe(schedule: str, **settings: Any) -> TrainingRecipe:
    return TrainingRecipe(epochs=10, batch_size=8, learning_rate=0.3, schedule=schedule, **settings)


def rates(settings: TrainingRecipe, total: int, epoch: int = 10) -> list[float]:
    return [learning_rate(settings, step, total, epoch) for step in range(1, total + 1)]


def pytorch_rates(make: Callable[[torch.optim.Optimizer], LRScheduler], total: int) -> list[float]:
    """The rate each update really uses when the scheduler is stepped after it."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = make(optimizer)
    used = []
    for _ in range(total):
        used.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return used


@pytest.mark.parametrize("total", [1, 2, 7, 100, 997])
@pytest.mark.parametrize("final", [0.0, 1e-4, 0.3])
def test_cosine_is_pytorchs(total: int, final: float) -> None:
    expected = pytorch_rates(lambda optimizer: CosineAnnealingLR(optimizer, total, eta_min=final), total)
    assert rates(recipe("cosine", final_learning_rate=final), total) == pytest.approx(expected, rel=EXACT, abs=1e-15)


@pytest.mark.parametrize("epochs", [10, 200])
@pytest.mark.parametrize("epoch", [1, 7, 196])
def test_multi_step_is_pytorchs_at_the_same_epochs(epochs: int, epoch: int) -> None:
    total = epochs * epoch
    turns = [round(share * epochs) * epoch for share in (0.3, 0.6, 0.8)]
    expected = pytorch_rates(lambda optimizer: MultiStepLR(optimizer, turns, gamma=0.2), total)
    ours = rates(recipe("multi-step", milestones=(0.3, 0.6, 0.8), decay=0.2), total, epoch)
    assert ours == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize("total", [2, 3, 4, 10, 97, 1000])
def test_one_cycle_is_pytorchs(total: int) -> None:
    expected = pytorch_rates(lambda optimizer: OneCycleLR(optimizer, 0.3, total + 1, cycle_momentum=False), total)
    ours = [learning_rate(recipe("one-cycle"), step, total + 1, 10) for step in range(1, total + 1)]
    assert ours == pytest.approx(expected, rel=EXACT)


def test_constant_is_constant() -> None:
    assert set(rates(recipe("constant"), 20)) == {0.3}


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_warm_up_rises_in_equal_steps_and_then_the_schedule_begins(schedule: str) -> None:
    ours = rates(recipe(schedule, warmup_epochs=0.5), total=40, epoch=10)
    assert ours[:5] == pytest.approx([0.3 * step / 5 for step in (1, 2, 3, 4, 5)], rel=EXACT)
    assert ours[5:] == pytest.approx(rates(recipe(schedule), total=35), rel=EXACT)


def test_warm_up_does_not_move_milestones() -> None:
    settings = {"milestones": (0.5,), "decay": 0.1}
    plain, warm = (rates(recipe("multi-step", warmup_epochs=epochs, **settings), 40) for epochs in (0.0, 1.0))
    assert warm[10:] == plain[10:]


def test_a_warm_up_longer_than_the_run_only_rises() -> None:
    assert rates(recipe("cosine", warmup_epochs=100.0), total=4) == pytest.approx([0.075, 0.15, 0.225, 0.3], rel=EXACT)


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle", "constant"])
@pytest.mark.parametrize("total", [1, 2, 3, 50])
def test_every_update_has_a_rate_above_zero_and_at_most_the_highest(schedule: str, total: int) -> None:
    # A rate of exactly zero would make a sampled time step worth nothing.
    assert all(0 < rate <= 0.3 * (1 + EXACT) for rate in rates(recipe(schedule), total))


@pytest.mark.parametrize("step", [0, 11])
def test_steps_outside_the_run_are_refused(step: int) -> None:
    with refusal("setting-invalid", step, "1..10"):
        learning_rate(recipe("cosine"), step, 10, 5)
