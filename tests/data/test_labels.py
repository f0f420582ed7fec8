from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moso.data.dataset import open_dataset
from moso.data.labels import read_labels
from moso.errors import MosoError

CLASSES = ["cat", "dog", "eel"]
EXPECTED = [2, 0, 1, 1]


def save(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".npy":
        np.save(path, content)
    else:
        pq.write_table(pa.table(content), path)
    return path


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("a.npy", np.array(EXPECTED, dtype=np.uint8), ""),
        ("a.npy", np.array(EXPECTED, dtype=np.float32), ""),
        ("a.npy", np.array(["eel", "cat", "dog", "dog"]), ""),
        ("a.npz", {"only": np.array(EXPECTED)}, ""),
        ("a.npz", {"clean": np.zeros(4), "noisy": np.array(EXPECTED)}, ":noisy"),
        ("a.csv", "label\n2\n0\n1\n1\n", ""),
        ("a.csv", "label\neel\ncat\ndog\ndog\n", ""),
        ("a.csv", "\ufefflabel\r\neel\r\ncat\r\ndog\r\ndog\r\n", ""),
        ("a.csv", "anything\n2\n0\n1\n1\n", ""),
        ("a.csv", "2\n0\n1\n1\n", ""),
        ("a.txt", "eel\ncat\ndog\ndog\n", ""),
        ("a.csv", "id,label,other\n0,2,9\n1,0,9\n2,1,9\n3,1,9\n", ""),
        ("a.csv", "id,human\n0,2\n1,0\n2,1\n3,1\n", ""),
        ("a.csv", "label,human\n0,eel\n0,cat\n0,dog\n0,dog\n", ":human"),
        ("a.tsv", "x\tlabel\n9\t2\n9\t0\n9\t1\n9\t1\n", ""),
        ("a.parquet", {"label": EXPECTED}, ""),
        ("a.parquet", {"a": [0] * 4, "b": ["eel", "cat", "dog", "dog"]}, ":b"),
    ],
)
def test_every_format_gives_the_same_labels(tmp_path: Path, name: str, content: object, key: str):
    labels = read_labels(f"{save(tmp_path, name, content)}{key}", 4, CLASSES)
    assert labels.dtype == np.int64
    assert labels.tolist() == EXPECTED


def test_a_colon_in_an_existing_path_is_part_of_it(tmp_path: Path):
    file = save(tmp_path, "of:today.npz", {"a": np.array(EXPECTED), "b": np.zeros(4)})
    assert read_labels(f"{file}:a", 4, CLASSES).tolist() == EXPECTED
    with pytest.raises(MosoError, match=r"several arrays \(a, b\)"):
        read_labels(str(file), 4, CLASSES)


def test_rows_with_ids_may_stand_in_any_order(tmp_path: Path):
    file = save(tmp_path, "a.csv", "id,label\nd.png,dog\nb.png,cat\na.png,eel\nc.png,dog\n")
    ids = pa.array(["a.png", "b.png", "c.png", "d.png"])
    assert read_labels(str(file), 4, CLASSES, ids).tolist() == EXPECTED
    assert read_labels(str(file), 4, CLASSES).tolist() == [1, 0, 2, 1]
    with pytest.raises(MosoError, match=r"column id of label file .* does not name sample 'e.png'"):
        read_labels(str(file), 4, CLASSES, pa.array(["a.png", "b.png", "c.png", "e.png"]))


@pytest.mark.parametrize(
    ("name", "content", "key", "sentence"),
    [
        ("a.npy", np.zeros(9, int), "", r"a.npy has 9 labels but the data set has 4 samples"),
        ("a.npy", np.array([0, 1, 2, 3]), "", "label 3 of sample 3 is out of range 0..2"),
        ("a.npy", np.array([0, 1, -1, 0]), "", "label -1 of sample 2 is out of range"),
        ("a.npy", np.array([0, 1, 0.5, 0]), "", "label 0.5 of sample 2 is not a whole number"),
        ("a.npy", np.array([0, 1, np.nan, 0]), "", "label of sample 2 is missing"),
        ("a.npy", np.zeros((4, 3)), "", "one number a sample"),
        ("a.npy", np.array([0, 1, 2, None]), "", r"a.npy cannot be read: Object arrays cannot be loaded"),
        ("a.npy", np.zeros(4, int), ":x", "has no key 'x'"),
        ("a.npz", {"clean": np.zeros(4), "noisy": np.zeros(4)}, "", r"several arrays \(clean, noisy\); choose one"),
        ("a.npz", {"clean": np.zeros(4), "noisy": np.zeros(4)}, ":x", "no array 'x'; it has: clean, noisy"),
        ("a.csv", "label\n0\n1\n\n1\n", "", "has 3 labels but the data set has 4"),
        ("a.csv", "id,label\n0,0\n1,1\n2,\n3,1\n", "", "label of sample 2 is missing"),
        ("a.csv", "label\n0\n1\n1.5\n1\n", "", "label 1.5 of sample 2 is not a whole number"),
        ("a.csv", "label\n0\n1\nfox\n1\n", "", "label 'fox' of sample 2 is neither a class name nor a number"),
        ("a.csv", "label\ncat\n1\ncat\n1\n", "", r"class names \('cat'\) and some are numbers"),
        ("a.csv", "label\n0\n1\n7\n1\n", "", "label 7 of sample 2 is out of range"),
        ("a.csv", "a,b\n0,0\n1,1\n1,1\n1,1\n", "", r"several columns \(a, b\)"),
        ("a.csv", "a,b\n0,0\n1\n", "", "has 1 cells in row 3 where row 1 has 2"),
        ("a.csv", "", "", "is empty"),
        ("a.csv", "id\n0\n", "", "has no column of labels"),
        ("a.parquet", {"label": [0, 1, None, 1]}, "", "label of sample 2 is missing"),
        ("a.parquet", {"label": ["cat", None, "dog", "eel"]}, "", "label of sample 1 is missing"),
        ("a.npz", "garbage", "", "cannot be read"),
        ("a.npy", "garbage", "", "cannot be read"),
        ("a.parquet", "garbage", "", "cannot be read"),
        ("a.json", "[]", "", "is none of npz, npy, csv"),
    ],
)
def test_bad_label_files_are_one_sentence(tmp_path: Path, name: str, content: object, key: str, sentence: str):
    with pytest.raises(MosoError, match=sentence):
        read_labels(f"{save(tmp_path, name, content)}{key}", 4, CLASSES)


def test_a_label_file_that_is_not_there_is_one_sentence(tmp_path: Path):
    with pytest.raises(MosoError, match=r"there is no label file .*x.npz"):
        read_labels(f"{tmp_path / 'x.npz'}:noisy", 4, CLASSES)


def test_replaced_labels_reach_the_loader_and_only_the_training_split(tmp_path: Path):
    plain = open_dataset("digits")
    shifted = (np.concatenate([plain.train.labels, plain.test.labels]) + 1) % 10
    order = np.argsort(np.concatenate([plain.train.ids.to_numpy(), plain.test.ids.to_numpy()]))
    file = save(tmp_path, "shifted.npy", shifted[order])
    data = open_dataset("digits", labels=str(file))
    assert data.train.ids.equals(plain.train.ids)
    assert data.test.ids.equals(plain.test.ids)
    assert np.array_equal(data.train.labels, (plain.train.labels + 1) % 10)
    assert np.array_equal(data.clean_labels, plain.train.labels)
    assert np.array_equal(data.test.labels, plain.test.labels)
    assert np.array_equal(data.train.training_view("none", 0).batch(np.arange(9))[1], data.train.labels[:9])
    assert data.noisy is None


def test_noise_comes_after_replacement(tmp_path: Path):
    file = save(tmp_path, "a.npy", (np.arange(1797) % 2))
    data = open_dataset("digits", labels=str(file), label_noise=0.5)
    assert set(data.train.labels[~data.noisy].tolist()) == {0, 1}
    assert set(data.train.labels.tolist()) == set(range(10))
    assert set(data.clean_labels.tolist()) == set(range(10))


def test_labels_are_not_shifted_by_images_that_are_left_out(tmp_path: Path, class_folder: Path):
    (class_folder / "train" / "ant" / "ant_3.png").write_bytes(b"broken")
    wanted = np.arange(30) % 3
    file = save(tmp_path, "a.npy", wanted)
    with pytest.warns(UserWarning, match="1 of 36 images"):
        data = open_dataset(f"folder:{class_folder}", labels=str(file), on_broken="skip")
    assert np.array_equal(data.train.labels, np.delete(wanted, 3))
    assert np.array_equal(data.clean_labels, np.delete(np.repeat([0, 1, 2], 10), 3))
