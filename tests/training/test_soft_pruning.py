"""Laws of pruning during training: the rule of its paper, no bias, equal cost, and resuming to the bit."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import moso
from moso.data.samples import StoredSamples
from moso.randomness import uniforms
from moso.training.loop import Checkpoints, TrainingData, train
from moso.training.recipe import TrainingRecipe
from moso.training.soft_pruning import SoftPrunedPlan, SoftPruning, soft_weights
from refusals import refusal

RECIPE = TrainingRecipe(epochs=8, batch_size=8, learning_rate=0.2, schedule="cosine")
DRAW = np.random.default_rng(0)
INPUTS = DRAW.random((60, 3), dtype=np.float32)
LABELS = (INPUTS.sum(1) > 1.5).astype(np.int64)
SAMPLES = StoredSamples.from_arrays(INPUTS, LABELS)


def data(order=None):
    order = np.arange(60) if order is None else order
    samples = StoredSamples.from_arrays(INPUTS[order], LABELS[order])
    return TrainingData(samples.evaluation_view(), np.arange(60), SAMPLES.keys[order])


def network():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def plan(total=40, of=None):
    return SoftPrunedPlan(of or data(), RECIPE, 0, total, pruning=SoftPruning(60))


def slow_rule(losses, keys, ratio, seed, number):
    """The rule of the paper, sample by sample: Equations 3 and 5."""
    known = [loss for loss in losses if not np.isnan(loss)]
    found = []
    for loss, draw in zip(losses, uniforms(keys, seed, "soft-pruning", number), strict=True):
        if np.isnan(loss) or loss >= np.mean(known, dtype=np.float64):
            found.append(1.0)
        else:
            found.append(0.0 if draw < ratio else 1 / (1 - ratio))
    return found


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.5, 0.9])
def test_weights_follow_the_rule_of_the_paper(ratio):
    losses = DRAW.exponential(size=200).astype(np.float32)
    losses[::17] = np.nan
    keys = np.arange(200, dtype=np.uint64)
    assert soft_weights(losses, keys, ratio, 1, 5) == pytest.approx(slow_rule(losses, keys, ratio, 1, 5))


def test_equal_losses_are_all_kept():
    losses = np.full(1000, 0.1, dtype=np.float32)
    assert set(soft_weights(losses, np.arange(1000, dtype=np.uint64), 0.5, 0, 1)) == {1.0}


def test_the_expected_gradient_of_a_pass_is_that_of_all_samples():
    model = network().double()
    gradients = []
    for x, y in zip(INPUTS, LABELS, strict=True):
        loss = F.cross_entropy(model(torch.from_numpy(x).double())[None], torch.tensor([y]))
        gradients.append(torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(model.parameters()))]))
    rows = torch.stack(gradients).numpy()
    losses = DRAW.exponential(size=60).astype(np.float32)
    keys = np.arange(60, dtype=np.uint64)
    draws = np.stack([soft_weights(losses, keys, 0.5, seed, 1) @ rows for seed in range(4000)])
    error = draws.std(axis=0) / 4000**0.5
    assert (np.abs(draws.mean(axis=0) - rows.sum(axis=0)) < 4.5 * error + 1e-9).all()
    # Without the weights the mean is far off: the test can fail.
    plain = np.stack([(soft_weights(losses, keys, 0.5, seed, 1) > 0) @ rows for seed in range(400)])
    assert (np.abs(plain.mean(axis=0) - rows.sum(axis=0)) > 4.5 * error).any()


def test_the_training_is_the_loop_that_the_paper_describes():
    """Forward, remember, weigh, step; a new pass by the mean of the losses; the last eighth on everything."""
    model, slow = network(), network()
    own = plan()
    train(model, own, callbacks=[own.pruning])
    optimizer = torch.optim.SGD(slow.parameters(), lr=0.2, momentum=RECIPE.momentum, weight_decay=RECIPE.weight_decay)
    losses, number, passes, visits = np.full(60, np.nan, dtype=np.float32), 0, 0, 0
    from moso.data.views import split_evenly
    from moso.randomness import hash_order

    while number < 40:
        softly = number < 35
        weights = np.array(slow_rule(losses, SAMPLES.keys, 0.5, 0, passes + 1)) if softly else np.ones(60)
        kept = np.flatnonzero(weights)
        order = kept[hash_order(SAMPLES.keys[kept], 0, "order", passes)]
        passes += 1
        for batch in split_evenly(order, 8):
            if number == 40 or (softly and number == 35):
                break
            inputs, labels = SAMPLES.evaluation_view().batch(batch)
            values = F.cross_entropy(slow(inputs), labels, reduction="none")
            losses[batch] = values.detach().numpy()
            optimizer.zero_grad()
            (values * torch.tensor(weights[batch], dtype=torch.float32)).mean().backward()
            optimizer.param_groups[0]["lr"] = own.rate(number + 1)
            optimizer.step()
            number, visits = number + 1, visits + len(batch)
    for one, two in zip(model.parameters(), slow.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    assert (own.pruning.passes, own.pruning.visits) == (passes, visits)


@pytest.mark.parametrize("stop", [1, 7, 8, 9, 20, 35, 36])
def test_a_killed_training_resumes_to_the_same_bits(tmp_path, stop):
    whole, interrupted, resumed = network(), network(), network()
    own = plan()
    train(whole, own, callbacks=[own.pruning])
    path = tmp_path / "position.safetensors"
    first, second = plan(), plan()
    train(interrupted, first, callbacks=[first.pruning, Checkpoints(path, -1)], stop_after=stop + 1)
    train(resumed, second, callbacks=[second.pruning, Checkpoints(path, -1)])
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)
    assert (second.pruning.passes, second.pruning.visits) == (own.pruning.passes, own.pruning.visits)


def test_the_order_of_the_data_does_not_matter():
    order = np.random.default_rng(3).permutation(60)
    one, two = network(), network()
    first, second = plan(), plan(of=data(order))
    train(one, first, callbacks=[first.pruning])
    train(two, second, callbacks=[second.pruning])
    assert first.pruning.visits == second.pruning.visits
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_loading_ahead_changes_nothing():
    one, two = network(), network()
    for model, workers in ((one, 0), (two, 2)):
        own = plan(12)
        train(model, own, callbacks=[own.pruning], loader_workers=workers)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


# The object for users' own loops.


class Indexed(Dataset):
    """Samples that come with their index, as a user may have them."""

    def __len__(self):
        return 60

    def __getitem__(self, position):
        return INPUTS[position], LABELS[position], position


def own_loop(pruning, epochs, workers=0, indexed=False, model=None):
    """A plain loop of a user; returns the network and the indices of every epoch."""
    model, seen = model or network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loader = DataLoader(Indexed(), batch_size=8, sampler=pruning, num_workers=workers)
    for _ in range(epochs):
        met = []
        for inputs, labels, positions in loader:
            losses = F.cross_entropy(model(inputs), labels, reduction="none")
            optimizer.zero_grad()
            (pruning(losses, positions) if indexed else pruning(losses)).mean().backward()
            optimizer.step()
            met += positions.tolist()
        seen.append(met)
    return model, seen


def test_a_users_loop_meets_everything_first_and_last_and_skips_in_between():
    pruning = moso.DynamicPruning(60, ratio=0.5, epochs=16, seed=0)
    _, seen = own_loop(pruning, 16)
    assert [len(met) == 60 for met in seen] == [epoch in (0, 14, 15) for epoch in range(16)]
    assert all(len(set(met)) == len(met) for met in seen)
    assert pruning.visits == sum(map(len, seen))


@pytest.mark.parametrize(("workers", "indexed"), [(0, True), (2, False)])
def test_workers_and_given_indices_change_nothing(workers, indexed):
    one, seen = own_loop(moso.DynamicPruning(60, 0.5, 5, 0), 5)
    two, other = own_loop(moso.DynamicPruning(60, 0.5, 5, 0), 5, workers, indexed)
    assert seen == other
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_the_losses_of_an_epoch_decide_the_next_by_the_same_rule():
    pruning = moso.DynamicPruning(60, 0.5, 8, 3)
    losses = DRAW.exponential(size=60).astype(np.float32)
    for index in pruning:
        assert pruning(torch.tensor([losses[index]])).item() == pytest.approx(losses[index])
    expected = slow_rule(losses, np.arange(60, dtype=np.uint64), 0.5, 3, 1)
    assert len(pruning) == np.count_nonzero(expected)
    weighed = {index: pruning(torch.tensor([1.0])).item() for index in pruning}
    assert weighed == {index: weight for index, weight in enumerate(expected) if weight}


def test_a_saved_object_goes_on_where_it_was():
    whole = moso.DynamicPruning(60, 0.5, 6, 0)
    model, seen = own_loop(whole, 6)
    first, second = moso.DynamicPruning(60, 0.5, 6, 0), moso.DynamicPruning(60, 0.5, 6, 0)
    half, before = own_loop(first, 3)
    second.load_state_dict(first.state_dict())
    again, after = own_loop(second, 3, model=half)
    assert before + after == seen
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_a_loader_may_drop_its_last_batch():
    pruning = moso.DynamicPruning(60, 0.5, 4, 0)
    loader = DataLoader(TensorDataset(torch.from_numpy(INPUTS)), batch_size=16, sampler=pruning, drop_last=True)
    for _ in range(4):
        for (inputs,) in loader:
            pruning(inputs.sum(1))
    assert pruning.epoch == 4


def test_misuse_is_refused():
    with refusal("ratio-out-of-range", 1.0):
        moso.DynamicPruning(10, 1.0)
    with refusal("setting-invalid", 0):
        moso.DynamicPruning(0)
    pruning = moso.DynamicPruning(10, 0.5, 3)
    with refusal("length-mismatch", 4, 0):
        pruning(torch.ones(4))
    iter(pruning)
    with refusal("loss-invalid", "reduction='none'"):
        pruning(torch.tensor(1.0))
    with refusal("sample-unknown", 11):
        pruning(torch.ones(1), [11])
    with refusal("length-mismatch", 2):
        pruning(torch.ones(2), [1])
    pruning(torch.ones(5))
    with refusal("length-mismatch", 10, 5):
        iter(pruning)
    with refusal("length-mismatch", 10, 4):
        pruning.load_state_dict(moso.DynamicPruning(4).state_dict())
