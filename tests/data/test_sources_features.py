"""`features:DIR`: rows of numbers, labels beside them, and what happens when they do not fit each other."""

import json

import numpy as np
import pytest

from moso.configuration import Configuration
from moso.data import open_dataset
from moso.data.mapped import MappedReader
from moso.errors import MosoError
from moso.results.originals import Originals


@pytest.fixture
def folder(tmp_path):
    """Twelve training and six test rows of five numbers, three classes."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 6)):
        np.save(tmp_path / f"{split}.npy", draw.normal(size=(count, 5)).astype(np.float16))
        np.save(tmp_path / f"{split}_labels.npy", np.arange(count) % 3)
    return tmp_path


def opened(folder, **settings):
    return open_dataset(f"features:{folder}", **settings)


def test_rows_are_read_from_the_disk_in_order(folder):
    data = opened(folder)
    assert isinstance(data.train.reader, MappedReader)
    assert data.train.shape == (5,)
    assert data.train.ids.to_pylist() == list(range(12))
    assert data.train.labels.tolist() == [0, 1, 2] * 4
    raw = np.load(folder / "train.npy").astype(np.float32)
    np.testing.assert_array_equal(data.train.reader.read(np.array([7, 2])), raw[[7, 2]])
    assert len(data.test) == 6


def test_features_keep_their_proportions(folder):
    """All numbers are divided by one deviation, so that long axes stay long."""
    raw = np.load(folder / "train.npy").astype(np.float64)
    raw[:, 0] *= 10
    np.save(folder / "train.npy", raw.astype(np.float32))
    inputs = opened(folder).train.evaluation_view().batch(np.arange(12))[0].numpy()
    expected = (raw - raw.mean(0)) / np.sqrt(raw.var(0).mean())
    np.testing.assert_allclose(inputs, expected, atol=1e-5)


def test_float32_and_float16_are_one_data_set_to_rounding(folder):
    half = opened(folder).train.evaluation_view().batch(np.arange(12))[0]
    np.save(folder / "train.npy", np.load(folder / "train.npy").astype(np.float32))
    assert (half == opened(folder).train.evaluation_view().batch(np.arange(12))[0]).all()


def test_float64_is_rounded_to_float32_as_numpy_saves_it_by_default(folder):
    exact = np.load(folder / "train.npy").astype(np.float64) + 1e-9
    np.save(folder / "train.npy", exact.astype(np.float32))
    single = opened(folder).train.evaluation_view().batch(np.arange(12))[0]
    np.save(folder / "train.npy", exact)
    assert (single == opened(folder).train.evaluation_view().batch(np.arange(12))[0]).all()


def test_float64_that_float32_cannot_hold_is_named(folder):
    exact = np.load(folder / "train.npy").astype(np.float64)
    exact[3, 1], exact[5, 0] = 1e39, np.nan
    np.save(folder / "train.npy", exact)
    with pytest.raises(MosoError, match=r"2 of 12 rows of .*: row 3, 5;") as refused:
        opened(folder)
    assert refused.value.code == "values-not-finite"


@pytest.mark.parametrize("name", ["train-labels.npy", "labels_train.npy", "y_train.npy", "train_labels.csv"])
def test_other_names_of_labels(folder, name):
    labels = np.load(folder / "train_labels.npy")
    (folder / "train_labels.npy").unlink()
    if name.endswith(".csv"):
        (folder / name).write_text("label\n" + "".join(f"{one}\n" for one in labels))
    else:
        np.save(folder / name, labels)
    assert opened(folder).train.labels.tolist() == labels.tolist()


def test_class_names_and_ids(folder):
    (folder / "classes.json").write_text(json.dumps({"cat": 1, "ant": 0, "bee": 2}))
    np.save(folder / "train_ids.npy", np.array([f"{number}.png" for number in range(12)]))
    rows = "".join(f"{number}.png,{['ant', 'cat', 'bee'][number % 3]}\n" for number in reversed(range(12)))
    (folder / "train_labels.npy").unlink()
    (folder / "train_labels.csv").write_text("id,label\n" + rows)
    train = opened(folder).train
    assert train.classes == ("ant", "cat", "bee")
    assert train.ids.to_pylist()[3] == "3.png"
    assert train.labels.tolist() == [0, 1, 2] * 4  # matched by id, whatever the order of the file


def test_without_a_test_split_some_rows_are_held_out(folder):
    (folder / "test.npy").unlink()
    data = opened(folder, test_share=0.25)
    assert (len(data.train), len(data.test)) == (9, 3)


def test_numbers_to_predict(folder):
    for split, count in (("train", 12), ("test", 6)):
        np.save(folder / f"{split}_labels.npy", np.linspace(0, 1, count))
    data = opened(folder, task="regression")
    assert data.task.name == "regression"
    assert data.train.targets.shape[0] == 12


def damage(folder, what):
    train, labels = np.load(folder / "train.npy"), np.load(folder / "train_labels.npy")
    match what:
        case "short labels":
            np.save(folder / "train_labels.npy", labels[:-1])
        case "no labels":
            (folder / "test_labels.npy").unlink()
        case "not a number":
            train[4, 1] = np.nan
            np.save(folder / "train.npy", train)
        case "infinite":
            train[4, 1] = np.inf
            np.save(folder / "train.npy", train)
        case "whole numbers":
            np.save(folder / "train.npy", train.astype(np.int32))
        case "three dimensions":
            np.save(folder / "train.npy", train[:, :, None])
        case "another width":
            np.save(folder / "test.npy", np.zeros((6, 4), np.float32))
        case "objects":
            np.save(folder / "train.npy", train.astype(object), allow_pickle=True)
        case "unknown class":
            np.save(folder / "test_labels.npy", np.arange(6))
        case "no training":
            (folder / "train.npy").unlink()
        case "an id twice":
            np.save(folder / "train_ids.npy", np.zeros(12, np.int64))
        case "short ids":
            np.save(folder / "train_ids.npy", np.arange(11))
        case "a text":
            (folder / "train.npy").write_text("no array")
        case "half labels":
            np.save(folder / "train_labels.npy", labels + 0.5)


@pytest.mark.parametrize(
    ("what", "code", "named"),
    [
        ("short labels", "length-mismatch", "11"),
        ("no labels", "labels-missing", "test_labels.npy"),
        ("not a number", "values-not-finite", "row 4"),
        ("infinite", "values-not-finite", "row 4"),
        ("whole numbers", "wrong-type", "int32"),
        ("three dimensions", "shape-mismatch", "(12, 5, 1)"),
        ("another width", "shape-mismatch", "4"),
        ("objects", "file-unreadable", "train.npy"),
        ("unknown class", "label-invalid", "test_labels.npy"),
        ("no training", "split-missing", "train.npy"),
        ("an id twice", "ids-not-unique", "train_ids.npy"),
        ("short ids", "length-mismatch", "11"),
        ("a text", "file-unreadable", "train.npy"),
        ("half labels", "label-invalid", "train_labels.npy"),
    ],
)
def test_what_does_not_fit_is_refused(folder, what, code, named):
    damage(folder, what)
    with pytest.raises(MosoError) as caught:
        opened(folder)
    assert caught.value.code == code
    assert named in str(caught.value)


def test_the_originals_of_features_are_found_by_id(folder, class_folder):
    original = open_dataset(f"folder:{class_folder}").train
    np.save(folder / "train.npy", np.zeros((len(original), 5), np.float32))
    np.save(folder / "train_labels.npy", original.labels)
    np.save(folder / "train_ids.npy", np.array(original.ids.to_pylist()))
    (folder / "features.json").write_text(json.dumps({"dataset": f"folder:{class_folder}"}))
    originals = Originals.open(Configuration.resolve({"dataset": f"features:{folder}"}))
    last = original.ids.to_pylist()[-1]
    assert originals.picture(last).getpixel((0, 0)) == original.picture(len(original) - 1).getpixel((0, 0))
    assert originals.samples.classes[originals.samples.labels[originals.position(last)]] == "cat"
