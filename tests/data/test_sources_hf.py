from pathlib import Path

import numpy as np
import pytest
from small_pictures import encoded

from moso.data.dataset import open_dataset
from refusals import refusal

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def pets():
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})

    def split(start: int, labels: list[int]):
        rows = [{"bytes": encoded((start + i, 0, 0)), "path": None} for i in range(len(labels))]
        return datasets.Dataset.from_dict({"img": rows, "label": labels}, features=features)

    return datasets.DatasetDict(
        {"train": split(0, [0, 1] * 5), "test": split(0, [-1, -1]), "validation": split(90, [1, 0])}
    )


def check(data) -> None:
    assert data.train.reader.read(np.arange(10))[:, 0, 0, 0].tolist() == list(range(10))
    assert data.train.labels.tolist() == [0, 1] * 5
    assert data.train.ids.to_pylist() == list(range(10))
    assert data.train.classes == data.test.classes == ("cat", "dog")
    assert data.test.reader.read(np.arange(2))[:, 0, 0, 0].tolist() == [90, 91]
    assert data.test.labels.tolist() == [1, 0]


def test_a_folder_of_data_files(tmp_path: Path, pets):
    for name, split in pets.items():
        split.to_parquet(tmp_path / "pets" / f"{name}-00000-of-00001.parquet")
    check(open_dataset(f"hf:{tmp_path / 'pets'}"))


def test_what_save_to_disk_wrote(tmp_path: Path, pets):
    pets.save_to_disk(tmp_path / "pets")
    check(open_dataset(f"hf:{tmp_path / 'pets'}"))
    pets["train"].select([9, 3, 4, 0]).save_to_disk(tmp_path / "few")
    few = open_dataset(f"hf:{tmp_path / 'few'}", test_share=0)
    assert few.train.reader.read(np.arange(4))[:, 0, 0, 0].tolist() == [9, 3, 4, 0]


def test_images_that_stay_in_their_files(class_folder: Path):
    data = open_dataset(f"hf:{class_folder}")
    assert (len(data.train), len(data.test)) == (30, 6)
    assert data.train.classes == ("ant", "bee", "cat")
    assert sorted(data.train.reader.read(np.arange(30))[:, 0, 0, 0].tolist()) == sorted(list(range(10)) * 3)


def test_options_name_columns(tmp_path: Path):
    table = datasets.Dataset.from_dict({"x": [0.0, 1, 2, 3], "y": [0.0, 0, 0, 9], "kind": ["a", "b", "a", "b"]})
    table.save_to_disk(tmp_path / "points")
    data = open_dataset(f"hf:{tmp_path / 'points'}?label=kind", test_share=0)
    assert (data.train.shape, data.train.classes) == ((2,), ("a", "b"))


def test_a_data_set_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    for name in ("no/such-data", "no/such-data:config", str(tmp_path / "nowhere")):
        with refusal("file-unreadable") as caught:
            open_dataset(f"hf:{name}")
        assert "\n" not in str(caught.value)
    with refusal("dataset-name-invalid", "hf"):
        open_dataset("hf:")


def test_no_training_split_is_one_sentence(tmp_path: Path, pets):
    datasets.DatasetDict({"test": pets["train"]}).save_to_disk(tmp_path / "pets")
    with refusal("split-missing", "train"):
        open_dataset(f"hf:{tmp_path / 'pets'}")
