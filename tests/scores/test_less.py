"""Laws of `less`: the cosine of Adam's update for one sample with the gradient of a target."""

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.data.views import as_view
from moso.evidence.adam_directions import Similarity, similarity_terms
from moso.evidence.trajectory import Trajectory
from refusals import refusal
from tests.evidence.test_optimizer_aware import SAMPLES, per_sample, problem
from whole_runs import scored


def restated(model, data, checkpoint, optimizer, target):
    """Definition 3.1 of the source at one checkpoint, parameter by parameter from the optimiser's own state."""
    state, rate, _ = checkpoint
    gradients, updates, names = per_sample(model, data, state), [], dict(model.named_parameters())
    for name, own in gradients.items():
        moments = optimizer.state[names[name]]
        count = int(moments["step"]) + 1
        mean = (0.9 * moments["exp_avg"] + 0.1 * own) / (1 - 0.9**count)
        square = (0.999 * moments["exp_avg_sq"] + 0.001 * own**2) / (1 - 0.999**count)
        updates.append((mean / (square.sqrt() + 1e-8)).flatten(1))
    risk = torch.cat([own.flatten(1)[target].mean(0) for own in gradients.values()])
    return (rate * nn.functional.cosine_similarity(torch.cat(updates, 1), risk[None])).numpy()


def test_scores_are_the_definition_restated_when_nothing_is_projected():
    model, data, checkpoints, optimizer = problem()
    found = moso.score(model, data, checkpoints[-1:], method="less", risk=moso.SampleRisk.of(data, [0, 1, 2]))
    np.testing.assert_allclose(found, restated(model, data, checkpoints[-1], optimizer, [0, 1, 2]), rtol=1e-9)


def test_projected_cosines_come_nearer_to_unprojected_ones_with_more_numbers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 10))
    data = (torch.randn(60, 40).numpy(), torch.randint(0, 10, (60,)).numpy())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    view = as_view(data)
    for _ in range(5):
        optimizer.zero_grad()
        inputs, labels = view.batch(np.arange(60))
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    [point] = Trajectory.from_states([(model.state_dict(), 1e-2, moso.optimizer_moments(model, optimizer))])
    risk = moso.SampleRisk.of(data, range(10))

    def cosines(numbers):
        how = Similarity(numbers=numbers)
        return similarity_terms(model, point, view, np.arange(60), [risk], how=how)[0].dot[0]

    exact = cosines(10_000)
    errors = [np.abs(cosines(numbers) - exact).mean() for numbers in (100, 400, 1600)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.05


def test_under_plain_descent_the_update_is_the_gradient():
    model, data, checkpoints, _ = problem("sgd")
    found = moso.score(model, data, checkpoints[-1:], method="less", risk=moso.SampleRisk.of(data, [0, 1, 2]))
    gradients = torch.cat([own.flatten(1) for own in per_sample(model, data, checkpoints[-1][0]).values()], 1)
    expected = 1e-2 * nn.functional.cosine_similarity(gradients, gradients[:3].mean(0)[None])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9)


def test_scores_do_not_depend_on_the_order_of_samples_or_on_batches():
    model, data, checkpoints, _ = problem()
    risk, order = moso.SampleRisk.of(data, [0, 1, 2]), np.random.default_rng(0).permutation(SAMPLES)
    found = moso.score(model, data, checkpoints, method="less", risk=risk)
    other = torch.utils.data.Subset(data, order.tolist())
    again = moso.score(model, other, checkpoints, method="less", risk=risk, batch_size=5)
    np.testing.assert_allclose(again, found[order], rtol=1e-9)


def test_less_without_a_target_or_without_moments_is_refused():
    model, data, checkpoints, _ = problem()
    with refusal("setting-missing", "risk=moso.SampleRisk.of(target)"):
        moso.score(model, data, checkpoints, method="less")
    with refusal("trajectory-incomplete", "moments=True"):
        moso.score(model, data, [checkpoints[0][:2]], method="less", risk=moso.SampleRisk.of(data))


def test_a_run_has_the_scores_of_the_library(small_run):
    settings = {"recipe": "text", "partitions": 1, "risk": "validation", "validation_share": 0.1}
    run = scored(small_run(methods=["less"], sketch_numbers=100_000, **settings))
    data = moso.Run.open(run.directory.root)._data
    risk = moso.SampleRisk(data.validation.evaluation_view(), np.arange(len(data.validation)))
    found = moso.score(run.build_model(), run.dataset("train"), run.trajectory(0), method="less", risk=risk)
    np.testing.assert_allclose(found, run.scores()["less"], rtol=1e-4, atol=1e-7)


def test_a_run_without_a_target_is_refused(small_run):
    with refusal("method-impossible", "less"):
        small_run(methods=["less"])


@pytest.mark.parametrize("rates", [(0.1, 0.2)])
def test_steps_with_several_rates_are_refused(rates):
    model, data, checkpoints, _ = problem()
    state, _, moments = checkpoints[0]
    groups = (("0.weight", "0.bias"), ("2.weight", "2.bias"))
    point = moso.TrajectoryPoint(1, rates, groups, memory=state, moments=moments)
    with refusal("settings-conflict", "less"):
        moso.score(model, data, Trajectory([point], 1), method="less", risk=moso.SampleRisk.of(data))
