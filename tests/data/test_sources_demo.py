import numpy as np
import pytest

from benchmarks.demo_features import CLASSES, COMPONENTS, PER_CLASS, smaller, write
from moso.data.dataset import open_dataset
from moso.data.sources.demo import FILE
from refusals import refusal


def test_the_demo_is_small_balanced_and_split():
    assert FILE.stat().st_size < 2e6
    data = open_dataset("demo")
    assert (len(data.train), len(data.test), data.train.shape) == (6000, 2000, (COMPONENTS,))
    assert np.array_equal(np.bincount(data.train.labels), np.full(CLASSES, PER_CLASS))
    assert np.array_equal(np.bincount(data.test.labels), np.full(CLASSES, 100))
    ids = data.train.ids.to_numpy()
    assert np.all(np.diff(ids) > 0)


def test_the_demo_takes_no_path():
    with refusal("dataset-name-invalid", "demo", "somewhere"):
        open_dataset("demo:somewhere")


def made_up(folder):
    draw = np.random.default_rng(0)
    for split, per_class in (("train", PER_CLASS + 5), ("test", 7)):
        labels = draw.permutation(np.repeat(np.arange(CLASSES + 3), per_class))
        np.save(folder / f"{split}_labels.npy", labels)
        np.save(folder / f"{split}.npy", draw.normal(size=(len(labels), COMPONENTS + 4)).astype(np.float16))
    return [f"class-{number}" for number in range(CLASSES + 3)]


def test_the_demo_is_made_of_the_first_samples_of_the_first_classes(tmp_path):
    names = made_up(tmp_path)
    found = smaller(tmp_path, names)
    labels = np.load(tmp_path / "train_labels.npy")
    for label in range(CLASSES):
        own = found["train_ids"][found["train_labels"] == label]
        assert np.array_equal(own, np.flatnonzero(labels == label)[:PER_CLASS])
    rows = np.load(tmp_path / "train.npy")[found["train_ids"], :COMPONENTS].astype(np.float32)
    # One byte per number: half a step of the scale to either side.
    assert np.all(np.abs(found["train"] * found["scale"] - rows) <= found["scale"] * 0.5001)
    for number in (1, 2):
        write(found, tmp_path / f"{number}.npz")
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


@pytest.mark.shared_data
def test_the_demo_is_what_its_program_makes_of_the_features(shared_data, tmp_path):
    names = (shared_data / "cifar100/classes.txt").read_text().split()
    write(smaller(shared_data / "cifar100-features", names), tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as again, np.load(FILE) as shipped:
        assert sorted(again) == sorted(shipped)
        assert all(np.array_equal(again[name], shipped[name]) for name in again)
