"""Files of strangers: whatever they hold, they are read or refused, and what is read is what it must be."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from fuzz_inputs import LINES, NAMES, TABLE_FILES, TEXTS, array_files, damaged, parquet_files, picture
from fuzz_limits import answer, fuzzed
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from moso.data.dataset import open_dataset
from moso.data.labels import read_labels
from moso.data.samples import StoredSamples
from moso.data.sources.plain_pickle import read_plain_pickle
from moso.models.weights import read_weights
from moso.results.overrides import read_overrides
from moso.run.imported_scores import read_imported_list, read_imported_scores

SAMPLES = 6


def samples() -> StoredSamples:
    return StoredSamples.from_arrays(np.zeros((SAMPLES, 2), np.float32), np.arange(SAMPLES) % 2)


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="moso-fuzz-"))


def written(content: bytes, suffix: str) -> Path:
    path = folder() / f"given{suffix}"
    path.write_bytes(content)
    return path


def is_data(data) -> None:
    """What was opened has labels in range, unique ids and inputs of one shape."""
    for split in (data.train, data.test):
        if split is None:
            continue
        assert len(split.ids) == len(split)
        assert len(set(split.ids.to_pylist())) == len(split)
        if split.task.by_class:
            assert split.labels.min() >= 0
            assert split.labels.max() < len(split.classes)
            assert len(split.classes) < 10**6


@fuzzed
@given(TABLE_FILES)
def test_labels(file):
    path = written(file[1], file[0])
    found = answer(lambda: read_labels(str(path), SAMPLES, ["cat", "dog"], pa.array(range(SAMPLES))))
    assert found is None or (found.shape == (SAMPLES,) and set(found.tolist()) <= {0, 1})


@fuzzed
@given(TABLE_FILES)
def test_scores(file):
    path = written(file[1], file[0])
    found = answer(lambda: read_imported_scores(path, samples()))
    assert found is None or (found.shape == (SAMPLES,) and np.isfinite(found).all())


@fuzzed
@given(TABLE_FILES)
def test_lists(file):
    path = written(file[1], file[0])
    found = answer(lambda: read_imported_list(path, samples()))
    assert found is None or (len(set(found.tolist())) == len(found) > 0 and set(found.tolist()) <= set(range(SAMPLES)))


@fuzzed
@given(LINES | st.binary(max_size=80))
def test_overrides(content):
    path = written(content, ".csv")
    found = answer(lambda: read_overrides(path, samples()))
    assert found is None or not set(found.keep.tolist()) & set(found.drop.tolist())


@fuzzed
@given(
    parquet_files(rows=12),
    st.sampled_from(["", "?label=y", "?target=x", "?features=x,y", "?image=image", "?x", "?label="]),
)
def test_parquet(content, options):
    data = answer(lambda: open_dataset(f"parquet:{written(content, '.parquet')}{options}"))
    if data is not None:
        is_data(data)


@fuzzed
@given(st.sampled_from([".csv", ".tsv", ".jsonl", ".json", ".txt"]), LINES | st.binary(max_size=120), NAMES)
def test_texts(suffix, content, label):
    options = f"?label={label}" if label else ""
    data = answer(lambda: open_dataset(f"text:{written(content, suffix)}{options}"))
    if data is not None:
        is_data(data)


KINDS = st.sampled_from(["image", "image", "image", "garbage", "empty", "pipe", "link", "loop", "folder", "text"])
PLACES = st.lists(
    st.sampled_from(["train", "val", "test", "cat", "dog", "images", ".hidden", "é"]), min_size=1, max_size=3
)
FILES = st.sampled_from(
    ["a.png", "b.PNG", "c.jpg", "words.txt", "val_annotations.txt", "._d.png", "e.txt", "classes.txt"]
)


@fuzzed
@given(st.lists(st.tuples(PLACES, FILES, KINDS), min_size=1, max_size=10), st.binary(max_size=30))
def test_folders(entries, garbage):
    root = folder()
    for places, name, kind in entries:
        place = root.joinpath(*places)
        target = place / name
        if any(parent.exists() and not parent.is_dir() for parent in (place, *place.parents)) or os.path.lexists(
            target
        ):
            continue
        place.mkdir(parents=True, exist_ok=True)
        match kind:
            case "pipe":
                os.mkfifo(target)
            case "link":
                target.symlink_to(root / "nowhere.png")
            case "loop":
                (place / "loop").exists() or (place / "loop").is_symlink() or (place / "loop").symlink_to(root)
            case "folder":
                target.mkdir()
            case _:
                target.write_bytes({"image": picture(), "garbage": garbage, "empty": b""}.get(kind, b"a.png\tcat\n"))
    data = answer(lambda: open_dataset(f"folder:{root}", resize=4, on_broken="skip"))
    if data is not None:
        is_data(data)
        assert len(data.train) <= len(entries)
    shutil.rmtree(root)


@fuzzed
@given(st.data())
def test_weights(data):
    content = save({"weight": torch.zeros(3, 2)}, metadata={"a": "b"})
    path = written(data.draw(damaged(content)), data.draw(st.sampled_from([".safetensors", ".pth", ".bin", ""])))
    answer(lambda: read_weights(str(path)))


@fuzzed
@given(st.binary(max_size=200) | array_files())
def test_pickles(content):
    answer(lambda: read_plain_pickle(written(content, "")))


@fuzzed
@given(st.sampled_from(["", "parquet:", "folder:", "text:", "features:", "cifar10:", "digits:", "diabetes:"]), TEXTS)
def test_names_of_data(source, name):
    answer(lambda: open_dataset(f"{source}{name}"))
