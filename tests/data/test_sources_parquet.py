import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_pictures import encoded

from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from moso.data.readers import MemoryReader
from moso.data.sources.registry import fitting
from refusals import refusal


def write(path: Path, columns: dict[str, object], names: list[str] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if names is not None:
        features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": names}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)
    return path


def images(count: int, start: int = 0) -> pa.Array:
    """Hugging Face's `Image` column; the red channel numbers the image."""
    rows = [{"bytes": encoded((start + i, 0, 0)), "path": f"{i}.png"} for i in range(count)]
    return pa.array(rows, type=pa.struct({"bytes": pa.binary(), "path": pa.string()}))


def reds(data) -> list[int]:
    return data.reader.read(np.arange(len(data)))[:, 0, 0, 0].tolist()


def test_hugging_face_images_in_shards(tmp_path: Path):
    for shard in range(3):
        labels = [0, 1, 2, 0]
        write(tmp_path / f"train-0000{shard}.parquet", {"image": images(4, 4 * shard), "label": labels}, list("abc"))
    write(tmp_path / "test-00000.parquet", {"image": images(2, 50), "label": [2, 1]}, list("abc"))
    data = open_dataset(f"parquet:{tmp_path}")
    assert data.train.ids.to_pylist() == list(range(12))
    assert reds(data.train) == list(range(12))
    assert data.train.labels.tolist() == [0, 1, 2, 0] * 3
    assert data.train.classes == data.test.classes == ("a", "b", "c")
    assert reds(data.test) == [50, 51]
    assert isinstance(data.train.reader, MemoryReader)


def test_a_train_file_brings_the_test_file_beside_it_and_any_other_stands_alone(tmp_path: Path):
    columns = {"image": images(20), "label": [0, 1] * 10}
    train = write(tmp_path / "train.parquet", columns)
    write(tmp_path / "test.parquet", {"image": images(2, 100), "label": [0, 1]})
    alone = write(tmp_path / "pets.parquet", columns)
    assert reds(open_dataset(f"parquet:{train}").test) == [100, 101]
    held_out = open_dataset(f"parquet:{alone}")
    assert (len(held_out.train), len(held_out.test)) == (16, 4)


def test_the_data_folder_of_a_hub_checkout_is_found(tmp_path: Path):
    write(tmp_path / "data" / "train-00000-of-00001.parquet", {"image": images(4), "label": [0, 1, 0, 1]})
    write(tmp_path / "data" / "validation-00000-of-00001.parquet", {"image": images(2, 9), "label": [0, 1]})
    assert reds(open_dataset(f"parquet:{tmp_path}").test) == [9, 10]


def test_a_test_split_without_labels_is_passed_over(tmp_path: Path):
    write(tmp_path / "train.parquet", {"image": images(4), "label": [0, 1, 0, 1]})
    write(tmp_path / "test.parquet", {"image": images(2), "label": [-1, -1]})
    write(tmp_path / "val.parquet", {"image": images(2, 70), "label": [1, 0]})
    assert reds(open_dataset(f"parquet:{tmp_path}").test) == [70, 71]


def test_plain_binary_images(tmp_path: Path):
    file = write(tmp_path / "x.parquet", {"img": [encoded((i, 0, 0)) for i in range(10)], "target": [0, 1] * 5})
    assert reds(open_dataset(f"parquet:{file}", test_share=0).train) == list(range(10))


def test_numeric_columns_and_lists_become_features(tmp_path: Path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(40.0)), 2)
    columns = {"id": range(100, 120), "a": np.arange(20), "b": lists, "coarse_label": [5] * 20, "label": [0, 1] * 10}
    data = open_dataset(f"parquet:{write(tmp_path / 'x.parquet', columns)}", test_share=0)
    assert data.train.shape == (3,)
    assert data.train.reader.read(np.array([3])).tolist() == [[3, 6, 7]]
    chosen = open_dataset(f"parquet:{tmp_path / 'x.parquet'}?features=b&label=label", test_share=0)
    assert chosen.train.shape == (2,)


def test_nested_lists_keep_their_shape(tmp_path: Path):
    grid = np.arange(4 * 2 * 3).reshape(4, 2, 3)
    data = open_dataset(
        f"parquet:{write(tmp_path / 'x.parquet', {'x': grid.tolist(), 'label': [0, 1, 0, 1]})}", test_share=0
    )
    assert np.array_equal(data.train.reader.read(np.arange(4)), grid)


def test_text_labels_are_numbered_in_sorted_order_and_the_training_split_decides(tmp_path: Path):
    write(tmp_path / "train.parquet", {"x": range(4), "label": ["dog", "cat", "dog", "eel"]})
    write(tmp_path / "test.parquet", {"x": range(2), "label": ["eel", "dog"]})
    data = open_dataset(f"parquet:{tmp_path}")
    assert data.train.classes == ("cat", "dog", "eel")
    assert data.train.labels.tolist() == [1, 0, 1, 2]
    assert data.test.labels.tolist() == [2, 1]
    write(tmp_path / "test.parquet", {"x": range(2), "label": ["fox", "dog"]})
    with refusal("classes-mismatch", "fox", "test.parquet", 3):
        open_dataset(f"parquet:{tmp_path}")


def test_class_names_beside_the_file(tmp_path: Path):
    columns = {"x": range(4), "label": [0, 1, 0, 1], "coarse_label": [0, 0, 1, 1]}
    write(tmp_path / "train.parquet", columns)
    assert open_dataset(f"parquet:{tmp_path}", test_share=0).train.classes == ("0", "1")
    (tmp_path / "classes.txt").write_text("ant\nbee\n")
    (tmp_path / "coarse_classes.txt").write_text("animal\nplant\n")
    assert open_dataset(f"parquet:{tmp_path}", test_share=0).train.classes == ("ant", "bee")
    coarse = open_dataset(f"parquet:{tmp_path}?label=coarse_label", test_share=0).train
    assert coarse.classes == ("animal", "plant")
    assert coarse.labels.tolist() == [0, 0, 1, 1]


def test_images_too_many_for_memory_are_mapped_from_disk_and_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    for shard in range(2):
        write(tmp_path / f"train-{shard}.parquet", {"image": images(10, 10 * shard), "label": [0, 1] * 5})
    write(tmp_path / "test.parquet", {"image": images(2), "label": [0, 1]})
    whole = open_dataset(f"parquet:{tmp_path}")
    with pytest.warns(UserWarning, match="too large for memory"):
        mapped = open_dataset(f"parquet:{tmp_path}", memory_limit=100)
    again = open_dataset(f"parquet:{tmp_path}", memory_limit=100)  # no second copy, so no warning
    assert mapped.train.evaluation_view().streamed
    for data in (mapped, again):
        assert reds(data.train) == reds(whole.train)
        assert data.train.normalisation == whole.train.normalisation


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"x": [1, 2], "label": [0, None]}, ("labels-missing", 1, "x.parquet")),
        ({"x": [1, 2], "label": [0, 0.5]}, ("label-invalid", "0.5", 1)),
        ({"x": [1, 2], "label": [0, -3]}, ("label-invalid", -3, 1)),
        ({"x": [1.0, float("nan")], "label": [0, 1]}, ("values-not-finite", 1, 2)),
        ({"x": [1, None], "label": [0, 1]}, ("values-not-finite", 1, 2)),
        ({"x": [[1], [1, 2]], "label": [0, 1]}, ("shape-mismatch", "x", "x.parquet")),
        ({"x": ["a", "b"], "label": [0, 1]}, ("column-type", "x", "x.parquet")),
        ({"x": [1, 2]}, ("column-missing", "fine_label")),
        ({"label": [0, 1]}, ("column-missing", "x.parquet", "label")),
        ({"label": pa.array([], pa.int64()), "x": pa.array([], pa.int64())}, ("data-empty", "x.parquet")),
        ({"a": [b"x"], "b": [b"y"], "label": [0]}, ("data-ambiguous", "x.parquet")),
    ],
)
def test_bad_tables_are_one_sentence(tmp_path: Path, columns: dict[str, object], told: str):
    with refusal(*told):
        open_dataset(f"parquet:{write(tmp_path / 'x.parquet', columns)}", test_share=0)


def test_bad_places_and_options_are_one_sentence(tmp_path: Path):
    write(tmp_path / "x.parquet", {"x": range(4), "label": [0, 1, 0, 1]})
    (tmp_path / "y.parquet").write_bytes(b"garbage")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "only-test" / "test.parquet", {"x": range(4), "label": [0, 1, 0, 1]})
    for place, told in {
        "": ("dataset-name-invalid", "parquet"),
        "nowhere": ("file-missing",),
        "empty": ("data-empty",),
        "only-test": ("split-missing", "test.parquet"),
        "y.parquet": ("file-unreadable", "y.parquet"),
        "x.parquet?label=z": ("column-missing", "z"),
        "x.parquet?lable=x": ("unknown-name", "lable", "label"),
        "x.parquet?image=x": ("column-type", "x", "x.parquet"),
        "x.parquet?label": ("dataset-name-invalid", "x.parquet", "&"),
    }.items():
        with refusal(*told):
            open_dataset(f"parquet:{tmp_path / place if place else ''}")


def test_a_test_split_that_numbers_its_classes_otherwise_is_refused(tmp_path: Path):
    write(tmp_path / "train.parquet", {"image": images(2), "label": [0, 1]}, ["ant", "bee"])
    write(tmp_path / "test.parquet", {"image": images(2), "label": [0, 1]}, ["bee", "ant"])
    with refusal("classes-mismatch", "test.parquet"):
        open_dataset(f"parquet:{tmp_path}")


def test_a_missing_image_is_a_broken_one_with_its_row(tmp_path: Path):
    rows = [{"bytes": encoded(), "path": None}, {"bytes": None, "path": None}] * 2
    file = write(tmp_path / "x.parquet", {"image": rows, "label": [0, 0, 1, 1]})
    with refusal("broken-image", 2, 4, "x.parquet", 1):
        open_dataset(f"parquet:{file}", test_share=0)


@pytest.mark.shared_data
def test_cifar100_is_complete(shared: Path):
    data = open_dataset(
        f"parquet:{shared / 'cifar100'}", labels=f"{shared / 'cifar100n' / 'cifar100n_train_labels.npz'}:noisy_label"
    )
    assert (len(data.train), len(data.test), data.train.shape) == (50_000, 10_000, (3, 32, 32))
    assert data.train.classes[:3] == ("apple", "aquarium_fish", "baby")
    assert (len(data.train.classes), data.train.classes[99]) == (100, "worm")
    assert np.bincount(data.clean_labels).tolist() == [500] * 100
    assert np.bincount(data.test.labels).tolist() == [100] * 100
    # The first training picture, a bull before a white sky, as everybody who opened the official file has seen it.
    assert data.clean_labels[0] == 19
    assert data.train.reader.read(np.array([0]))[0, :, 0, 0].tolist() == [255, 255, 255]
    # The published channel means of CIFAR-100.
    assert np.allclose(np.array(data.train.normalisation.mean) / 255, [0.5071, 0.4865, 0.4409], atol=5e-4)
    assert (data.train.labels != data.clean_labels).mean() == pytest.approx(0.402, abs=5e-4)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ({"a": [0.5, 1.5], "b": [1, 2], "label": [0, 1]}, "", ("mlp-w32", "table")),
        ({"vector": [[0.5, 1.5], [1.0, 2.0]], "label": [0, 1]}, "", ("linear", "linear-probe")),
        ({"vector": [[0.5, 1.5], [1.0, 2.0]], "y": [0.1, 0.2]}, "?target=y", ("mlp-w32", "table")),
        ({"image": images(2), "label": [0, 1]}, "", ("convnet", "cpu-small")),
        ({"image": images(2), "width": [8, 9], "label": [0, 1]}, "?features=width", ("mlp-w32", "table")),
        ({"a": [0.5, 1.5]}, "", ("convnet", "cpu-small")),  # without a label: refused when it is opened
    ],
)
def test_the_default_network_fits_what_the_columns_hold(tmp_path, columns, options, expected):
    file = write(tmp_path / "data.parquet", columns)
    assert fitting(f"parquet:{file}{options}") == expected
    assert Configuration.resolve({"dataset": f"parquet:{file}{options}"}).model == expected[0]
