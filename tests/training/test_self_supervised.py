"""Learning without labels: the loss to the letter, views by address, no label looked at, resumable to the bit."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from moso.data import open_dataset
from moso.data.samples import StoredSamples
from moso.data.views import as_view
from moso.randomness import seeded
from moso.training.loop import Checkpoints, TrainingData
from moso.training.self_supervised import (
    RECIPE,
    Unlabelled,
    features_of,
    learn_without_labels,
    nt_xent,
    self_supervised_features,
    without_classifier,
)
from moso.training.two_views import Distortion, TwoViews
from refusals import refusal

QUICK = Unlabelled(recipe=RECIPE.changed(epochs=2, batch_size=16), distortion=Distortion(mirror=False))


def pictures(count=40, channels=3, labels=None, seed=0):
    images = np.random.default_rng(seed).integers(0, 255, (count, channels, 8, 8)).astype(np.uint8)
    return StoredSamples.from_arrays(images, np.arange(count) % 4 if labels is None else labels)


def data(samples, positions=None):
    positions = np.arange(len(samples)) if positions is None else positions
    return TrainingData(samples.evaluation_view(), positions, samples.keys)


def literal(first, second, temperature):
    """Equation 1, a view at a time, with the cosines written out."""
    views = torch.cat([first, second]).double()
    count = len(first)

    def likeness(i, k):
        return float(torch.exp(views[i] @ views[k] / views[i].norm() / views[k].norm() / temperature))

    def one(i, j):
        return -np.log(likeness(i, j) / sum(likeness(i, k) for k in range(2 * count) if k != i))

    return [(one(i, i + count) + one(i + count, i)) / 2 for i in range(count)]


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_the_loss_is_equation_1(temperature):
    with seeded(0, "test"):
        first, second = torch.randn(7, 5), torch.randn(7, 5)
    found = nt_xent(temperature)(nn.Identity(), (first, second))
    assert found.tolist() == pytest.approx(literal(first, second, temperature), rel=1e-4)


def test_the_views_of_a_sample_do_not_depend_on_the_batch():
    samples = pictures()
    views = TwoViews(samples.evaluation_view(), samples.keys, seed=3)
    every = views.batch(np.arange(40), epoch=5)
    some = views.batch(np.array([31, 2]), epoch=5)
    for whole, part in zip(every, some, strict=True):
        assert torch.allclose(whole[[31, 2]], part, atol=1e-5)
    assert not torch.allclose(every[0], every[1])
    assert not torch.allclose(every[0], views.batch(np.arange(40), epoch=6)[0])
    other_seed = TwoViews(samples.evaluation_view(), samples.keys, seed=4)
    assert not torch.allclose(every[0], other_seed.batch(np.arange(40), epoch=5)[0])


def test_a_whole_window_without_changes_is_the_picture_or_its_mirror_image():
    samples = pictures()
    plain = samples.evaluation_view().batch(np.arange(40))[0]
    nothing = Distortion(least_area=1.0, mirror=False, jitter=0.0, grey=0.0)
    # An aspect other than 1 cannot be had of a whole picture: the window is then cut at its longer side.
    first, _ = TwoViews(samples.evaluation_view(), samples.keys, 0, nothing).batch(np.arange(40))
    square = torch.tensor(
        [float((view - picture).abs().max()) < 60 for view, picture in zip(first, plain, strict=True)]
    )
    assert square.any()
    constant = StoredSamples.from_arrays(np.full((6, 3, 8, 8), 77, dtype=np.uint8), np.arange(6) % 2)
    for view in TwoViews(constant.evaluation_view(), constant.keys, 0, nothing).batch(np.arange(6)):
        assert torch.allclose(view, torch.full((6, 3, 8, 8), 77.0))
    ramp = np.broadcast_to(np.arange(8, dtype=np.uint8) * 10, (64, 3, 8, 8))
    ramps = StoredSamples.from_arrays(np.ascontiguousarray(ramp), np.arange(64) % 2)
    rises = TwoViews(ramps.evaluation_view(), ramps.keys, 0, Distortion()).batch(np.arange(64))[0]
    rising = (rises[:, 0, 4, 7] > rises[:, 0, 4, 0]).float().mean()
    assert 0.3 < rising < 0.7
    kept = TwoViews(ramps.evaluation_view(), ramps.keys, 0, Distortion(mirror=False)).batch(np.arange(64))[0]
    assert (kept[:, 0, 4, 7] > kept[:, 0, 4, 0]).all()


def test_windows_stay_inside_the_picture_and_have_the_area_asked_for():
    # Of a picture whose pixels are their own coordinates, a view shows which window it is.
    side = 64
    ramp = np.arange(side, dtype=np.uint8)
    images = np.stack([np.broadcast_to(ramp, (side, side)), np.broadcast_to(ramp[:, None], (side, side))])
    samples = StoredSamples.from_arrays(np.broadcast_to(images, (200, 2, side, side)).copy(), np.arange(200) % 2)
    told = Distortion(least_area=0.3, mirror=False, jitter=0.0, grey=0.0, side=0.5)
    view = TwoViews(samples.evaluation_view(), samples.keys, 1, told).batch(np.arange(200))[0]
    assert view.shape == (200, 2, 32, 32)
    width = (view[:, 0, 0, -1] - view[:, 0, 0, 0]) * 32 / 31 / side
    height = (view[:, 1, -1, 0] - view[:, 1, 0, 0]) * 32 / 31 / side
    area = (width * height).numpy()
    assert view.min() >= 0
    assert view.max() <= side - 1
    assert 0.28 < area.min() < 0.36
    assert 0.85 < area.max() < 1.02
    aspect = (width / height).numpy()
    assert 0.72 < aspect.min() < 0.8 < 1.25 < aspect.max() < 1.38


def test_colours_change_as_far_as_they_may():
    samples = pictures(300)
    grey = Distortion(least_area=1.0, jitter=0.0, grey=1.0)
    view = TwoViews(samples.evaluation_view(), samples.keys, 0, grey).batch(np.arange(300))[0]
    assert torch.allclose(view[:, 0], view[:, 1], atol=1e-3)
    some = Distortion(least_area=1.0, jitter=0.0, grey=0.2)
    view = TwoViews(samples.evaluation_view(), samples.keys, 0, some).batch(np.arange(300))[0]
    assert 0.13 < float(((view[:, 0] - view[:, 1]).abs().amax((1, 2)) < 1e-3).float().mean()) < 0.27
    constant = StoredSamples.from_arrays(np.full((300, 1, 8, 8), 100, dtype=np.uint8), np.arange(300) % 2)
    told = Distortion(jitter=0.4, jittered=0.8)
    shift = TwoViews(constant.evaluation_view(), constant.keys, 0, told).batch(np.arange(300))[0][:, 0, 0, 0] - 100
    assert 0.35 < float(shift.abs().max()) <= 0.4001
    assert 0.13 < float((shift == 0).float().mean()) < 0.27


def test_labels_are_not_looked_at():
    one, other = pictures(), pictures(labels=np.arange(40) % 7)
    assert np.array_equal(
        self_supervised_features("convnet-w4", data(one), QUICK, seed=0),
        self_supervised_features("convnet-w4", data(other), QUICK, seed=0),
    )


def test_interrupted_and_resumed_the_features_are_the_same_bits(tmp_path):
    samples = pictures()
    whole = self_supervised_features("convnet-w4", data(samples), QUICK, seed=5)
    checkpoints = Checkpoints(tmp_path / "position", seconds=0)

    def interrupt(label, done, total):
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        self_supervised_features(
            "convnet-w4", data(samples), QUICK, seed=5, checkpoints=checkpoints, progress=interrupt
        )
    assert checkpoints.path.exists()
    again = self_supervised_features("convnet-w4", data(samples), QUICK, seed=5, checkpoints=checkpoints)
    assert np.array_equal(whole, again)
    assert not np.array_equal(whole, self_supervised_features("convnet-w4", data(samples), QUICK, seed=6))


def test_a_given_network_is_copied_and_left_alone():
    samples = pictures()
    with seeded(0, "test"):
        model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = self_supervised_features(model, data(samples, np.array([3, 9, 21, 5])), QUICK, seed=0)
    assert found.shape == (4, 6)
    assert found.dtype == np.float32
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    untrained = features_of(
        without_classifier(model, samples.evaluation_view(), 0), samples.evaluation_view(), np.arange(4)
    )
    by_hand = model[:3](samples.evaluation_view().batch(np.arange(4))[0]).detach().numpy()
    assert np.allclose(untrained, by_hand)


def test_digits_it_has_not_been_told_apart_are_told_apart_better():
    """k nearest neighbours in the embedding, on held-out digits, against the network before training."""
    digits = open_dataset("digits")
    how = Unlabelled(recipe=RECIPE.changed(epochs=6), distortion=Distortion(least_area=0.3, mirror=False))
    view, test = digits.train.evaluation_view(), digits.test.evaluation_view()

    def accuracy(encoder):
        rows = [features_of(encoder, *part) for part in ((view, np.arange(len(view))), (test, np.arange(len(test))))]
        known, asked = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in rows)
        return KNeighborsClassifier(10).fit(known, digits.train.labels).score(asked, digits.test.labels)

    before = accuracy(without_classifier("convnet-w8", view, seed=0))
    after = accuracy(learn_without_labels("convnet-w8", data(digits.train), how, seed=0))
    assert after > before + 0.1
    assert after > 0.9


def test_a_network_for_one_size_takes_no_smaller_views():
    smaller = Unlabelled(recipe=QUICK.recipe, distortion=Distortion(side=0.5))
    with refusal("model-unsuitable"):
        self_supervised_features("mlp-w8", data(pictures()), smaller, seed=0)
    assert self_supervised_features("mlp-w8", data(pictures()), QUICK, seed=0).shape == (40, 8)


@pytest.mark.parametrize(
    ("network", "view", "told"),
    [
        ("mlp", as_view((np.zeros((6, 5)), np.arange(6) % 2)), ("pictures-required", "(5,)")),
        (nn.Linear(5, 2), as_view((np.zeros((6, 5)), np.arange(6) % 2)), ("model-unsuitable", "Linear")),
        (nn.Conv2d(3, 2, 1), pictures(6).evaluation_view(), ("model-unsuitable", "Conv2d")),
    ],
)
def test_what_cannot_learn_this_way_is_told_why(network, view, told):
    keys = np.arange(6, dtype=np.uint64)
    with refusal(*told):
        self_supervised_features(network, TrainingData(view, np.arange(6), keys), QUICK, seed=0)
