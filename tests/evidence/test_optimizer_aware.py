"""Laws of optimizer-aware scores: gradients as Adam rescales them, against per-sample autograd in float64."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

import moso
from moso.evidence.moments import AdamRule, Moments, read_moments
from refusals import refusal
from whole_runs import scored

SAMPLES, FEATURES, CLASSES = 24, 6, 3


def problem(kind="adamw", steps=12, **settings):
    """A small network that an optimiser trained; its data, and checkpoints with moments after every update."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    inputs, labels = torch.randn(SAMPLES, FEATURES).double(), torch.randint(0, CLASSES, (SAMPLES,))
    inputs[:, -1] = 0  # a coordinate that no gradient of the first layer ever reaches
    optimizer = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind](
        model.parameters(), lr=1e-2, **settings
    )
    checkpoints = []
    for step in range(steps):
        rows = torch.arange(step, step + 8) % SAMPLES
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
        optimizer.step()
        state = {name: value.clone() for name, value in model.state_dict().items()}
        checkpoints.append((state, 1e-2, moso.optimizer_moments(model, optimizer)))
    return model, torch.utils.data.TensorDataset(inputs, labels), checkpoints, optimizer


def per_sample(model, data, state):
    """Per-sample gradients [samples, parameters] by name, by vmap of grad in float64."""
    inputs, labels = data.tensors

    def one(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    return vmap(grad(one), in_dims=(None, 0, 0))(state, inputs, labels)


def scale(state):
    """P from a torch optimiser's own state, restated: 1 over the denominator of torch's update."""
    second, count = state["exp_avg_sq"], int(state["step"])
    return torch.where(second > 0, 1 / ((second / (1 - 0.999**count)).sqrt() + 1e-8), 0.0)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_scores_are_those_of_per_sample_autograd_through_the_preconditioner(kind):
    model, data, checkpoints, optimizer = problem(kind)
    found = moso.score(model, data, checkpoints[-1:], optimizer_aware=True, total_steps=100)
    gradients = per_sample(model, data, checkpoints[-1][0])
    names = dict(model.named_parameters())
    dot, norm = torch.zeros(SAMPLES).double(), torch.zeros(SAMPLES).double()
    for name, own in gradients.items():
        P, flat = scale(optimizer.state[names[name]]).flatten(), own.flatten(1)
        dot += flat @ (P * flat.mean(0))
        norm += flat.square() @ P
    expected = 100 / SAMPLES * 1e-2 * (SAMPLES * dot - norm) / (SAMPLES - 1)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9)
    plain = moso.score(model, data, checkpoints[-1:], total_steps=100)
    assert not np.allclose(np.argsort(found), np.argsort(plain))


def test_a_target_risk_is_compared_through_the_preconditioner():
    model, data, checkpoints, optimizer = problem()
    risk = moso.SampleRisk.of(data, [0, 1, 2])
    found = moso.score(model, data, checkpoints[-1:], risk={"few": risk}, optimizer_aware=True)["few"]
    gradients = per_sample(model, data, checkpoints[-1][0])
    names = dict(model.named_parameters())
    expected = sum(
        own.flatten(1) @ (scale(optimizer.state[names[name]]).flatten() * own.flatten(1)[:3].mean(0))
        for name, own in gradients.items()
    )
    np.testing.assert_allclose(found, (1e-2 * expected / SAMPLES).numpy(), rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}])
def test_with_plain_descent_it_is_the_identity_to_the_bit(settings):
    model, data, checkpoints, _ = problem("sgd", **settings)
    aware = moso.score(model, data, checkpoints, optimizer_aware=True)
    assert aware.tobytes() == moso.score(model, data, checkpoints).tobytes()


def test_a_coordinate_that_no_gradient_reached_has_no_scale():
    _, _, checkpoints, _ = problem()
    scales = checkpoints[-1][2].preconditioner()["0.weight"]
    assert bool((scales[:, -1] == 0).all())
    assert bool((scales[:, :-1] > 0).all())


def test_the_largest_second_moment_counts_with_amsgrad():
    model, _, checkpoints, optimizer = problem("adam", amsgrad=True)
    weight = dict(model.named_parameters())["0.weight"]
    assert torch.equal(checkpoints[-1][2].second["0.weight"], optimizer.state[weight]["max_exp_avg_sq"])


def test_a_recorder_writes_what_the_optimiser_holds_after_the_update(tmp_path):
    torch.manual_seed(0)
    model = nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    recorder = moso.Recorder(tmp_path, total_steps=3, samples=3, moments=True)
    held = []
    with recorder.attach(model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, FEATURES)).square().sum().backward()
            optimizer.step()
            held.append(moso.optimizer_moments(model, optimizer))
    for point, own in zip(recorder.trajectory, held, strict=True):
        read = point.moments_for(model)
        assert read.rules == own.rules
        assert all(torch.equal(read.second[name], own.second[name]) for name in own.second)
        assert all(torch.equal(read.first[name], own.first[name]) for name in own.first)


def test_a_reservoir_leaves_moments_of_its_own_steps_only(tmp_path):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    recorder = moso.Recorder(tmp_path, total_steps=None, samples=2, moments=True)
    with recorder.attach(model, optimizer):
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(4, 2)).sum().backward()
            optimizer.step()
    numbers = {kind: {path.stem.split("-")[1] for path in tmp_path.glob(f"{kind}-*")} for kind in ("step", "moments")}
    assert numbers["step"] == numbers["moments"]
    assert len(numbers["step"]) == 2


def test_a_trajectory_without_moments_is_refused():
    model, data, checkpoints, _ = problem()
    with refusal("trajectory-incomplete", "moments=True"):
        moso.score(model, data, [one[:2] for one in checkpoints], optimizer_aware=True)


def test_an_optimiser_of_another_kind_is_refused(tmp_path):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.RMSprop(model.parameters())
    with refusal("recorder-misused", "RMSprop"):
        moso.Recorder(tmp_path, total_steps=3, samples=1, moments=True).attach(model, optimizer)


def test_estimators_that_do_not_know_the_preconditioner_are_refused():
    model, data, checkpoints, _ = problem()
    with refusal("settings-conflict", "sketched"):
        moso.score(model, data, checkpoints, optimizer_aware=True, estimator="sketched")


def test_a_third_part_that_holds_no_moments_is_refused():
    model, data, checkpoints, optimizer = problem()
    with refusal("wrong-type", "moso.optimizer_moments"):
        moso.score(model, data, [(*checkpoints[0][:2], optimizer.state_dict())])


def test_moments_of_another_network_are_refused():
    model, data, checkpoints, _ = problem()
    strange = Moments(
        {"0.weight": AdamRule(0.9, 0.999, 1e-8, 1)}, {"0.weight": torch.ones(2)}, {"0.weight": torch.ones(2)}
    )
    with refusal("checkpoint-mismatch", "0.weight"):
        moso.score(model, data, [(*checkpoints[0][:2], strange)], optimizer_aware=True)


def test_a_damaged_file_of_moments_is_refused(tmp_path):
    path = tmp_path / "moments-00000001.safetensors"
    path.write_bytes(b"nothing")
    with refusal("file-damaged", "moments"):
        read_moments(path)


def test_subsampled_terms_use_the_preconditioner_too():
    model, data, checkpoints, _ = problem()
    whole = moso.Estimator("subsampled", mean_share=1.0)
    found = moso.score(model, data, checkpoints, optimizer_aware=True, estimator=whole)
    np.testing.assert_allclose(found, moso.score(model, data, checkpoints, optimizer_aware=True), rtol=1e-9)


@pytest.mark.parametrize("aware", [False, True])
def test_runs_record_moments_only_if_they_are_needed(small_run, aware):
    run = scored(small_run(recipe="text", optimizer_aware=aware, methods=["moso"]))
    root = run.directory.root
    assert len(list(root.glob("trajectory/*/moments-*"))) == (6 if aware else 0)
    assert ("optimizer_aware" in (root / "scores" / "moso.json").read_text()) == aware


def test_runs_with_sgd_give_the_same_bytes_optimizer_aware_or_not(small_run):
    one, other = (scored(small_run(str(aware), methods=["moso"], optimizer_aware=aware)) for aware in (False, True))
    assert one.scores()["moso"].tobytes() == other.scores()["moso"].tobytes()


def test_shards_of_an_optimizer_aware_run_give_the_terms_of_the_whole(small_run):
    settings = {"recipe": "text", "optimizer_aware": True, "methods": ["moso"]}
    whole, shards = (scored(small_run(str(size), shard_size=size, **settings)) for size in (0, 200))
    np.testing.assert_allclose(shards.scores()["moso"], whole.scores()["moso"], rtol=1e-4, atol=1e-9)


def test_a_run_is_optimizer_aware_as_the_library_is(small_run):
    run = scored(small_run(recipe="text", optimizer_aware=True, methods=["moso"], partitions=1))
    data = run.dataset("train")
    scores = moso.score(run.build_model(), data, run.trajectory(0), optimizer_aware=True)
    np.testing.assert_allclose(scores, run.scores()["moso"], rtol=1e-5, atol=1e-9)
