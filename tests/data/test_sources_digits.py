import numpy as np
import pytest
from sklearn.datasets import load_digits

from moso.data.dataset import open_dataset
from moso.data.sources.digits import open_digits
from moso.data.sources.source import Request
from refusals import refusal


@pytest.mark.parametrize("seen", [True, False])
def test_digits_are_scikit_learns_in_their_order(monkeypatch, seen):
    if not seen:  # a release that has its file elsewhere
        monkeypatch.setattr("moso.data.sources.digits.find_spec", lambda name: None)
    samples, test = open_digits(Request())
    assert test is None
    assert samples.ids.to_pylist() == list(range(1797))
    assert np.array_equal(samples.labels, load_digits().target)
    assert np.array_equal(samples.reader.read(np.arange(1797))[:, 0], load_digits().images * 15)


def test_digits_hold_out_a_fifth_of_every_class_and_every_seed_the_same():
    first, second = open_dataset("digits", seed=0), open_dataset("digits", seed=7, label_noise=0.4)
    assert first.test.ids.equals(second.test.ids)
    assert np.array_equal(first.test.labels, second.test.labels)
    assert not set(first.test.ids.to_pylist()) & set(first.train.ids.to_pylist())
    sizes = np.bincount(np.concatenate([first.train.labels, first.test.labels]))
    assert np.array_equal(np.bincount(first.test.labels), np.round(sizes * 0.2))


def test_digits_are_normalised_by_the_training_split():
    data = open_dataset("digits")
    inputs, _ = data.train.evaluation_view().batch(np.arange(len(data.train)))
    assert abs(float(inputs.mean())) < 1e-4
    assert abs(float(inputs.std()) - 1) < 1e-3
    assert data.test.normalisation == data.train.normalisation


def test_digits_can_be_resized():
    data = open_dataset("digits", resize=16)
    assert data.train.shape == data.test.shape == (1, 16, 16)


def test_digits_take_no_path():
    with refusal("dataset-name-invalid", "digits", "somewhere"):
        open_dataset("digits:somewhere")


def test_without_a_test_share_nothing_is_held_out():
    data = open_dataset("digits", test_share=0)
    assert data.test is None
    assert len(data.train) == 1797
