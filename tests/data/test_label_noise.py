import numpy as np
import pyarrow as pa
import pytest

from moso.data.dataset import open_dataset
from moso.data.samples import id_keys
from moso.tasks.label_noise import add_label_noise
from refusals import refusal


def keys_of(count: int) -> np.ndarray:
    return id_keys(pa.array(np.arange(count)))


@pytest.mark.parametrize("seed", range(3))
def test_noise_reaches_every_class_the_last_and_its_own_included(seed: int):
    labels = np.repeat(np.arange(10), 500)
    noisy, drawn = add_label_noise(labels, keys_of(5000), 10, 0.4, seed)
    fresh = noisy[drawn]
    # 2,000 uniform draws over ten classes: 200 each, give or take four standard deviations of 13.4.
    assert np.abs(np.bincount(fresh, minlength=10) - 200).max() < 54
    own = (fresh == labels[drawn]).mean()
    assert 0.07 < own < 0.13
    # And from every class, evenly.
    assert np.abs(np.bincount(labels[drawn]) - 200).max() < 54


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.333, 1.0])
def test_the_number_of_samples_drawn_is_exact_and_the_rest_is_untouched(rate: float):
    labels = np.arange(997) % 7
    noisy, drawn = add_label_noise(labels, keys_of(997), 7, rate, seed=1)
    assert drawn.sum() == round(rate * 997)
    assert np.array_equal(noisy[~drawn], labels[~drawn])


def test_noise_belongs_to_the_sample_and_not_to_its_place():
    labels = np.arange(300) % 5
    order = np.random.default_rng(0).permutation(300)
    noisy, drawn = add_label_noise(labels, keys_of(300), 5, 0.3, seed=2)
    moved, moved_drawn = add_label_noise(labels[order], keys_of(300)[order], 5, 0.3, seed=2)
    assert np.array_equal(noisy[order], moved)
    assert np.array_equal(drawn[order], moved_drawn)


def test_more_noise_keeps_what_less_noise_changed():
    labels = np.arange(300) % 5
    _, few = add_label_noise(labels, keys_of(300), 5, 0.2, seed=0)
    _, many = add_label_noise(labels, keys_of(300), 5, 0.4, seed=0)
    assert not (few & ~many).any()


def test_noise_reaches_the_loader_and_is_recorded():
    clean, noisy = open_dataset("digits"), open_dataset("digits", label_noise=0.2, seed=3)
    everything = np.arange(len(noisy.train))
    for view in (noisy.train.training_view("none", 0), noisy.train.evaluation_view()):
        seen = view.batch(everything)[1].numpy()
        assert np.array_equal(seen, noisy.train.labels)
    changed = noisy.train.labels != clean.train.labels
    assert 0.15 < changed.mean() < 0.2
    assert noisy.noisy.sum() == round(0.2 * len(everything))
    assert not (changed & ~noisy.noisy).any()
    assert np.array_equal(noisy.clean_labels, clean.train.labels)
    assert np.array_equal(noisy.test.labels, clean.test.labels)
    assert clean.noisy is None
    assert clean.clean_labels is None


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_noise_outside_the_unit_interval_is_refused(rate: float):
    with refusal("setting-invalid"):
        open_dataset("digits", label_noise=rate)


def test_pair_noise_gives_every_drawn_sample_the_next_class_and_draws_the_same_samples():
    labels = np.arange(997) % 7
    flipped, drawn = add_label_noise(labels, keys_of(997), 7, 0.4, seed=1, kind="pair")
    assert np.array_equal(drawn, add_label_noise(labels, keys_of(997), 7, 0.4, seed=1)[1])
    assert np.array_equal(flipped[drawn], (labels[drawn] + 1) % 7)
    assert np.array_equal(flipped[~drawn], labels[~drawn])


def test_the_kind_of_noise_reaches_the_data_set_and_an_unknown_kind_is_refused():
    flipped = open_dataset("digits", label_noise=0.4, noise_kind="pair")
    wrong = flipped.train.labels != flipped.clean_labels
    assert np.array_equal(wrong, flipped.noisy)
    assert np.array_equal(flipped.train.labels[wrong], (flipped.clean_labels[wrong] + 1) % 10)
    with refusal("setting-invalid", "sideways"):
        open_dataset("digits", label_noise=0.4, noise_kind="sideways")
