from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from moso.data.dataset import open_dataset
from moso.data.labels import read_labels
from moso.errors import MosoError
from refusals import refusal

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
    with refusal("data-ambiguous", "today.npz"):
        read_labels(str(file), 4, CLASSES)


def test_rows_with_ids_may_stand_in_any_order(tmp_path: Path):
    file = save(tmp_path, "a.csv", "id,label\nd.png,dog\nb.png,cat\na.png,eel\nc.png,dog\n")
    ids = pa.array(["a.png", "b.png", "c.png", "d.png"])
    assert read_labels(str(file), 4, CLASSES, ids).tolist() == EXPECTED
    assert read_labels(str(file), 4, CLASSES).tolist() == [1, 0, 2, 1]
    with refusal("sample-unknown", "a.csv", "e.png"):
        read_labels(str(file), 4, CLASSES, pa.array(["a.png", "b.png", "c.png", "e.png"]))


@pytest.mark.parametrize(
    ("name", "content", "key", "told"),
    [
        ("a.npy", np.zeros(9, int), "", ("length-mismatch", "a.npy", 9, 4)),
        ("a.npy", np.array([0, 1, 2, 3]), "", ("label-invalid", 3, 0)),
        ("a.npy", np.array([0, 1, -1, 0]), "", ("label-invalid", -1, 2)),
        ("a.npy", np.array([0, 1, 0.5, 0]), "", ("label-invalid", "0.5", 2)),
        ("a.npy", np.array([0, 1, np.nan, 0]), "", ("labels-missing", 2)),
        ("a.npy", np.zeros((4, 3)), "", ("shape-mismatch", "a.npy", "(4, 3)")),
        ("a.npy", np.array([0, 1, 2, None]), "", ("file-unreadable", "a.npy")),
        ("a.npy", np.zeros(4, int), ":x", ("column-missing", "x")),
        ("a.npz", {"clean": np.zeros(4), "noisy": np.zeros(4)}, "", ("data-ambiguous", "a.npz")),
        ("a.npz", {"clean": np.zeros(4), "noisy": np.zeros(4)}, ":x", ("column-missing", "x")),
        ("a.csv", "label\n0\n1\n\n1\n", "", ("length-mismatch", 3, 4)),
        ("a.csv", "id,label\n0,0\n1,1\n2,\n3,1\n", "", ("labels-missing", 2)),
        ("a.csv", "label\n0\n1\n1.5\n1\n", "", ("label-invalid", "1.5", 2)),
        ("a.csv", "label\n0\n1\nfox\n1\n", "", ("label-invalid", "fox", 2)),
        ("a.csv", "label\ncat\n1\ncat\n1\n", "", ("label-invalid", "cat")),
        ("a.csv", "label\n0\n1\n7\n1\n", "", ("label-invalid", 7, 2)),
        ("a.csv", "a,b\n0,0\n1,1\n1,1\n1,1\n", "", ("data-ambiguous", "a.csv")),
        ("a.csv", "a,b\n0,0\n1\n", "", ("file-unreadable", 1, 3, 2)),
        ("a.csv", "", "", ("data-empty", "a.csv")),
        ("a.csv", "id\n0\n", "", ("data-ambiguous", "a.csv")),
        ("a.parquet", {"label": [0, 1, None, 1]}, "", ("labels-missing", 2)),
        ("a.parquet", {"label": ["cat", None, "dog", "eel"]}, "", ("labels-missing", 1)),
        ("a.npz", "garbage", "", ("file-unreadable",)),
        ("a.npy", "garbage", "", ("file-unreadable",)),
        ("a.parquet", "garbage", "", ("file-unreadable",)),
        ("a.json", "[]", "", ("file-unreadable", "a.json")),
    ],
)
def test_bad_label_files_are_one_sentence(tmp_path: Path, name: str, content: object, key: str, told: str):
    with refusal(*told):
        read_labels(f"{save(tmp_path, name, content)}{key}", 4, CLASSES)


def test_a_label_file_that_is_not_there_is_one_sentence(tmp_path: Path):
    with refusal("file-missing", "x.npz"):
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


def test_corrections_name_some_samples_and_the_others_keep_their_labels(tmp_path):
    file = tmp_path / "corrections.csv"
    file.write_text("id,label\n7,3\n1500,9\n")
    before = open_dataset("digits")
    ids = before.train.ids.to_pylist()
    with pytest.warns(UserWarning, match="2 of 1797 samples"):
        after = open_dataset("digits", labels=str(file))
    changed = {ids[place] for place in np.flatnonzero(before.train.labels != after.train.labels)}
    expected = {7: 3, 1500: 9}
    assert changed == {one for one in ids if one in expected and expected[one] != before.train.labels[ids.index(one)]}
    assert all(after.train.labels[ids.index(one)] == expected[one] for one in expected if one in ids)
    assert after.train.ids.to_pylist() == ids


@pytest.mark.parametrize("rows", ["7,3\n7,4\n", "99999,3\n"])
def test_corrections_of_no_sample_or_twice_are_refused(tmp_path, rows):
    file = tmp_path / "corrections.csv"
    file.write_text(f"id,label\n{rows}")
    with pytest.raises(MosoError) as refused:
        open_dataset("digits", labels=str(file))
    assert refused.value.code == "sample-unknown"


def test_a_broken_file_that_is_skipped_needs_no_label(tmp_path):
    for name in ("ant", "bee"):
        place = tmp_path / "data" / "train" / name
        place.mkdir(parents=True)
        for number in range(4):
            Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(place / f"{number}.png")
    (tmp_path / "data" / "train" / "ant" / "0.png").write_bytes(b"no picture")
    kept = [f"{name}/{number}.png" for name in ("ant", "bee") for number in range(4)][1:]
    (tmp_path / "labels.csv").write_text(
        "id,label\n" + "".join(f"{one},{'bee' if one[:3] == 'ant' else 'ant'}\n" for one in kept)
    )
    with pytest.warns(UserWarning, match="left out|7 of 8 samples"):
        found = open_dataset(
            f"folder:{tmp_path / 'data'}", on_broken="skip", labels=str(tmp_path / "labels.csv"), test_share=0.0
        )
    assert found.train.ids.to_pylist() == kept
    assert found.train.labels.tolist() == [1, 1, 1, 0, 0, 0, 0]
