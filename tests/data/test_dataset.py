import numpy as np
import pytest

from moso.data.dataset import datasets, open_dataset
from moso.data.samples import StoredSamples
from moso.tasks.classification import check_labels
from refusals import refusal


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("digit", ("unknown-name", "digit", "digits")),
        ("folders:/x", ("unknown-name", "folders:/x", "folder")),
        ("", ("unknown-name",)),
    ],
)
def test_unknown_names_get_the_nearest(name: str, told: str):
    with refusal(*told):
        open_dataset(name)


def test_a_bare_path_is_told_what_to_write(tmp_path):
    with refusal("dataset-name-invalid", f"folder:{tmp_path}"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"resize": 0}, ("setting-invalid", "resize", 0)),
        ({"test_share": 1.0}, ("setting-invalid", "test share", 1.0)),
        ({"test_share": 0.0001}, ("too-few-samples", 0.0001, "digits")),
        ({"labels": "nowhere.npz:x"}, ("file-missing", "nowhere.npz")),
    ],
)
def test_bad_options_are_one_sentence(options, told):
    with refusal(*told):
        open_dataset("digits", **options)


def test_labels_of_one_class_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.full(1797, 4))
    with refusal("too-few-classes", 1438, "(4)"):
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
    ("inputs", "labels", "told"),
    [
        (np.array([[1.0], [np.nan]]), [0, 1], ("values-not-finite", 1, 2)),
        (np.array([[np.inf], [1.0]]), [0, 1], ("values-not-finite", 0)),
        (np.zeros((2, 1)), [0, 1, 0], ("length-mismatch", 2, 3)),
        (np.zeros((0, 1)), [], ("data-empty",)),
        (np.zeros((2, 1)), [0, 0.5], ("label-invalid",)),
        (np.zeros((2, 1)), [0, float("nan")], ("labels-missing",)),
        (np.zeros((2, 1)), [0, -1], ("label-invalid",)),
        (np.zeros((2, 1)), [None, "b"], ("label-invalid",)),
        (np.array([["a"], ["b"]]), [0, 1], ("wrong-type",)),
    ],
)
def test_bad_arrays_are_one_sentence(inputs, labels, told: str):
    with refusal(*told):
        StoredSamples.from_arrays(inputs, labels)


def test_ids_must_be_unique():
    with refusal("ids-not-unique"):
        StoredSamples.from_arrays(np.zeros((2, 1)), [0, 1], ids=["a", "a"])


def test_labels_out_of_range_are_refused():
    with refusal("label-invalid", 2, 1, 0):
        check_labels([0, 2], classes=2)
