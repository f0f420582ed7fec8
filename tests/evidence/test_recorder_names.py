"""Networks in wrappers, and checkpoints that hold only a part: understood where they fit, refused where they do not."""

import copy

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import moso
from moso.evidence.trajectory import TrajectoryPoint
from moso.models.compat import prepare_torchvision
from refusals import refusal
from tests.evidence.loops import INPUTS, LABELS, Network, brute_force, every_step, state_now

DOUBLES = torch.utils.data.TensorDataset(INPUTS.double(), LABELS)


@pytest.fixture(scope="module")
def peft():
    prepare_torchvision()  # peft imports transformers, and that a whole torchvision
    return pytest.importorskip("peft")


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def train(model, optimizer, steps=3):
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(INPUTS.double()), LABELS).backward()
        optimizer.step()


def compiled_inside(model):
    model.body = torch.compile(model.body, backend="eager")
    return model


WRAPPERS = {
    "data parallel": nn.DataParallel,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "both": lambda model: nn.DataParallel(torch.compile(model, backend="eager")),
    "distributed": lambda model: nn.parallel.DistributedDataParallel(model),
    "a part compiled": compiled_inside,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_a_wrapped_network_leaves_is_scored_with_the_bare_one(tmp_path, request, wrapper):
    if wrapper == "distributed":
        request.getfixturevalue("process_group")
    trajectories, networks = {}, {}
    for kind, wrap in {"bare": lambda model: model, "wrapped": WRAPPERS[wrapper]}.items():
        wrapped = wrap(Network().double())
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        recorder = every_step(tmp_path / kind, 3)
        recorder.attach(wrapped, optimizer)
        train(wrapped, optimizer)
        trajectories[kind], networks[kind] = recorder.trajectory, wrapped
    for one, other in zip(trajectories["bare"], trajectories["wrapped"], strict=True):
        assert one.state().keys() == other.state().keys()
        assert one.groups == other.groups
    expected = moso.score(Network().double(), DOUBLES, trajectories["bare"])
    np.testing.assert_allclose(moso.score(Network().double(), DOUBLES, trajectories["wrapped"]), expected, rtol=1e-9)
    if wrapper != "a part compiled":  # a network with a compiled part is differentiated as it is given
        found = moso.score(networks["wrapped"], DOUBLES, trajectories["bare"])
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "base_model.model."]
)
def test_checkpoints_with_prefixed_names_fit_the_bare_network(prefix):
    model = Network().double()
    expected = moso.score(model, DOUBLES, [(model.state_dict(), 0.1)])
    prefixed = {prefix + name: value for name, value in model.state_dict().items()}
    np.testing.assert_array_equal(moso.score(Network().double(), DOUBLES, [(prefixed, 0.1)]), expected)
    loaded = Network().double()
    nn.init.zeros_(loaded.head.weight)
    TrajectoryPoint(1, (0.1,), memory=prefixed).load_into(loaded)
    assert torch.equal(loaded.head.weight, model.head.weight)


def test_a_network_whose_own_names_look_like_a_wrappers_is_taken_as_it_is():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.module = nn.Linear(3, 2)
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, inputs):
            return self.module(inputs) * self.weight

    data = torch.utils.data.TensorDataset(INPUTS, LABELS)
    model, other = Owner(), Owner()
    nn.init.zeros_(other.module.weight)
    expected = moso.score(model, data, [(state_now(model), 0.1)])
    np.testing.assert_array_equal(moso.score(other, data, [(state_now(model), 0.1)]), expected)
    with refusal("checkpoint-mismatch", "module.weight", 1):
        moso.score(model, data, [({"weight": torch.ones(2), "extra": torch.ones(2)}, 0.1)])


def adapted(peft, **settings):
    """A network under an adapter that is no longer at its start, where half of its gradients are zero."""
    torch.manual_seed(5)
    options = {"target_modules": ["body.0"], "r": 2, "lora_alpha": 4, **settings}
    model = peft.get_peft_model(Network().double(), peft.LoraConfig(**options)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


KINDS = {
    "lora": {},
    "with a head": {"modules_to_save": ["head"]},
    "dora": {"use_dora": True},
    "with biases": {"bias": "lora_only"},
    "batch-norm": {"modules_to_save": ["body.1", "head"]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapters_own_file_is_scored_with_the_network_given(tmp_path, peft, kind):
    model = adapted(peft, **KINDS[kind])
    model.save_pretrained(tmp_path)
    file = load_file(tmp_path / "adapter_model.safetensors")
    assert not file.keys() <= model.state_dict().keys()  # peft's files leave out the adapter's name
    rates = {name: 0.1 for name, parameter in model.named_parameters() if parameter.requires_grad}
    expected = brute_force(model, [(state_now(model), rates)], INPUTS.double(), LABELS, 7)
    fresh = adapted(peft, **KINDS[kind])
    with torch.no_grad():
        for parameter in fresh.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    for network in (fresh, fresh.base_model.model):  # the second has peft's layers under the network's own names
        found = moso.score(network, DOUBLES, [(file, 0.1)], total_steps=7)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_a_state_of_what_is_trained_is_enough(peft):
    model = adapted(peft)
    whole = moso.score(model, DOUBLES, [(state_now(model), 0.1)])
    part = {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}
    assert len(part) == 2
    fresh = adapted(peft)
    np.testing.assert_array_equal(moso.score(fresh, DOUBLES, [(part, 0.1)]), whole)
    plain = {name.removeprefix("base_model.model."): value for name, value in part.items()}
    np.testing.assert_array_equal(moso.score(fresh, DOUBLES, [(plain, 0.1)]), whole)


def test_of_two_adapters_the_active_one_is_meant(tmp_path, peft):
    model = adapted(peft)
    model.add_adapter("second", peft.LoraConfig(target_modules=["body.0"], r=2))
    model.double().set_adapter("second")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter))
    model.save_pretrained(tmp_path, selected_adapters=["second"])
    file = load_file(tmp_path / "second" / "adapter_model.safetensors")
    expected = moso.score(model, DOUBLES, [(state_now(model), 0.1)])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    np.testing.assert_array_equal(moso.score(model, DOUBLES, [(file, 0.1)]), expected)


@pytest.mark.parametrize("trainable_only", [False, True])
def test_an_adapters_training_is_recorded_and_scored(tmp_path, peft, trainable_only):
    model = adapted(peft, modules_to_save=["head"])
    start = copy.deepcopy(model)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    recorder = every_step(tmp_path, 3, trainable_only=trainable_only)
    recorder.attach(model, optimizer)
    states = []
    for _ in range(3):
        train(model, optimizer, steps=1)
        states.append(state_now(model))
    written = recorder.trajectory[0].state()
    moved = [name for group in recorder.trajectory[0].groups for name in group]
    assert len(moved) == 4
    statistics = [name for name in written if "running" in name or "batches" in name]
    assert (len(written) == len(moved) + len(statistics)) == trainable_only
    expected = brute_force(model, [(state, dict.fromkeys(moved, 0.1)) for state in states], INPUTS.double(), LABELS, 3)
    for network in (start, start.base_model.model):
        found = moso.score(network, DOUBLES, recorder.trajectory)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_an_adapters_file_does_not_fit_a_network_without_the_adapter(tmp_path, peft):
    adapted(peft).save_pretrained(tmp_path)
    file = load_file(tmp_path / "adapter_model.safetensors")
    told = ("checkpoint-mismatch", "body.0.weight", 8, "base_model.model.body.0.lora_A.weight", 1)
    with refusal(*told):
        moso.score(Network().double(), DOUBLES, [(file, 0.1)])


def without(state, *left_out):
    return {name: value for name, value in state.items() if not name.endswith(left_out)}


def test_what_is_missing_is_named():
    model = Network().double()
    state = model.state_dict()
    with refusal("checkpoint-mismatch", 1, "head.bias"):
        moso.score(model, DOUBLES, [(without(state, "head.bias"), 0.1)])
    # A parameter that training moves must be there even if it is not asked for: gradients pass through it.
    with refusal("checkpoint-mismatch", "body.0.weight"):
        moso.score(model, DOUBLES, [(without(state, "0.weight"), 0.1)], parameters=lambda name: "head" in name)
    with refusal("checkpoint-mismatch", "body.1.running_mean", 2):
        moso.score(model, DOUBLES, [(dict(model.named_parameters()), 0.1)])
    with refusal("checkpoint-mismatch"):
        moso.score(model, DOUBLES, [({**state, "extra": torch.ones(1)}, 0.1)])
    with refusal("checkpoint-mismatch", "head.bias"):
        moso.score(model, DOUBLES, [({**state, "module.head.bias": torch.ones(2).double()}, 0.1)])


def test_frozen_parameters_and_the_buffers_beside_them_may_be_the_networks_own():
    model = Network().double()
    expected = moso.score(model, DOUBLES, [(model.state_dict(), 0.1)], parameters=lambda name: "head" in name)
    head = {name: value for name, value in state_now(model).items() if name.startswith("head")}
    model.body.requires_grad_(False)
    np.testing.assert_array_equal(moso.score(model, DOUBLES, [(head, 0.1)]), expected)
    model.body[1].requires_grad_(True)  # batch-norm that is trained has moved its statistics
    norm = {name: value for name, value in model.named_parameters() if value.requires_grad}
    with refusal("checkpoint-mismatch", "body.1.running_mean", 2):
        moso.score(model, DOUBLES, [(norm, 0.1)])


def test_one_of_two_names_of_a_tied_parameter_is_enough():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, inputs):
            return self.second(self.first(inputs).tanh())

    model = Tied().double()
    state = state_now(model)
    expected = moso.score(model, DOUBLES, [(state, 0.1)])
    fresh = Tied().double()
    nn.init.zeros_(fresh.first.weight)
    for name in ("first.weight", "second.weight"):
        np.testing.assert_array_equal(moso.score(fresh, DOUBLES, [(without(state, name), 0.1)]), expected)
    with refusal("checkpoint-mismatch", "first.weight"):
        moso.score(fresh, DOUBLES, [(without(state, "first.weight", "second.weight"), 0.1)])
