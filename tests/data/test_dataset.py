import numpy as np
import pytest

from moso.data.dataset import datasets, open_dataset
from moso.data.samples import StoredSamples
from moso.errors import MosoError
from moso.tasks.classification import check_labels


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("digit", "unknown data set 'digit'; nearest: digits"),
        ("folders:/x", "unknown data set 'folders:/x'; nearest: folder:PATH"),
        ("", "unknown data set ''"),
    ],
)
def test_unknown_names_get_the_nearest(name: str, sentence: str):
    with pytest.raises(MosoError, match=sentence):
        open_dataset(name)


def test_a_bare_path_is_told_what_to_write(tmp_path):
    with pytest.raises(MosoError, match=f"for example folder:{tmp_path}"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"resize": 0}, "resize 0 is not a number of pixels"),
        ({"test_share": 1.0}, "test share 1.0 is outside"),
        ({"test_share": 0.0001}, "leaves the test"),
        ({"labels": "nowhere.npz:x"}, "there is no label file nowhere.npz"),
    ],
)
def test_bad_options_are_one_sentence(options, sentence: str):
    with pytest.raises(MosoError, match=sentence):
        open_dataset("digits", **options)


def test_labels_of_one_class_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.full(1797, 4))
    with pytest.raises(MosoError, match=r"all 1438 training samples of digits are of one class \(4\)"):
        open_dataset("digits", labels=str(tmp_path / "one.npy"))


def test_what_is_listed_can_be_asked_for():
    names = [name for name, description in datasets() if description]
    assert {"digits", "cifar10", "cifar100", "parquet:PATH", "folder:PATH"} <= set(names)


def test_opening_twice_gives_the_same_data():
    first, second = (open_dataset("digits", label_noise=0.3, seed=5) for _ in range(2))
    assert first.train.fingerprint() == second.train.fingerprint()
    assert first.test.fingerprint() == second.test.fingerprint()
    assert first.train.fingerprint() != open_dataset("digits", label_noise=0.3, seed=6).train.fingerprint()


@pytest.mark.parametrize(
    ("inputs", "labels", "sentence"),
    [
        (np.array([[1.0], [np.nan]]), [0, 1], "1 of 2 inputs hold NaN or infinite values, the first is sample 1"),
        (np.array([[np.inf], [1.0]]), [0, 1], "the first is sample 0"),
        (np.zeros((2, 1)), [0, 1, 0], "2 inputs but 3 labels"),
        (np.zeros((0, 1)), [], "empty"),
        (np.zeros((2, 1)), [0, 0.5], "not a whole number"),
        (np.zeros((2, 1)), [0, float("nan")], "missing"),
        (np.zeros((2, 1)), [0, -1], "out of range"),
        (np.zeros((2, 1)), ["a", "b"], "must be whole numbers"),
        (np.array([["a"], ["b"]]), [0, 1], "inputs must be numbers"),
    ],
)
def test_bad_arrays_are_one_sentence(inputs, labels, sentence: str):
    with pytest.raises(MosoError, match=sentence):
        StoredSamples.from_arrays(inputs, labels)


def test_ids_must_be_unique():
    with pytest.raises(MosoError, match="ids are not unique"):
        StoredSamples.from_arrays(np.zeros((2, 1)), [0, 1], ids=["a", "a"])


def test_labels_out_of_range_are_refused():
    with pytest.raises(MosoError, match=r"label 2 of sample 1 is out of range 0..1"):
        check_labels([0, 2], classes=2)
