"""Input that nobody means is refused in one sentence with exit code 2: absurd numbers, wrong shapes, strange files."""

import io
import json
import os
import pickle
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from moso.data.labels import read_labels
from moso.data.samples import StoredSamples
from moso.data.sources.plain_pickle import read_plain_pickle
from moso.errors import MosoError
from moso.evidence import arrays
from moso.evidence_kinds.given_embedding import read_embedding
from moso.run.imported_scores import read_imported_list, read_imported_scores
from refusals import refusal

SMALL = ["run", "--epochs", "1", "--partitions", "2", "--time-steps", "2", "--workers", "1", "--quiet", "--dry-run"]


@pytest.mark.parametrize(
    "flags",
    [
        *(["--epochs", f"{10**23}"], ["--seeds", "100000000000"], ["--seeds", f"{2**63 - 1}"], ["--seed", f"{2**64}"]),
        *(["--memory-limit", "inf"], ["--memory-limit", "nan"], ["--resize", "1000000000"], ["--threads", "1000000"]),
        *(["--model", "mlp-w99999999999"], ["--model", f"mlp-w{'9' * 5000}"], ["--workers", "100000000000"]),
        *(
            ["--loader-workers", "1000000"],
            ["--selector", ""],
            ["--method", ""],
            ["--ratio", ""],
            ["--batch-size", "9" * 30],
        ),
        *(["--ratio", "0.4", "--ratio", "40%"], ["--method", "moso", "--method", "moso"], ["--time-steps", "9" * 20]),
        *(["--partitions", "9" * 20], ["--initialisations", "9" * 20], ["--checkpoint-seconds", "inf"]),
    ],
)
def test_flags(refused, flags):
    refused(*SMALL, *flags)


@pytest.mark.parametrize(
    "text",
    [
        *("ratios = [[0.4]]", "settings = 3", "ratios = []", "methods = []", "partitions = true", "seeds = true"),
        *("seeds = 9223372036854775807", "seed = 1e400", "ratios = [0.4, 0.4]", 'methods = ["moso", "moso"]'),
        *("match = [[]]", "match = [3]", "also_match = [[]]", "methods = 3", "baselines = [{}]", "methods = [3]"),
        *('selectors = [""]', "model = 3", "model = true", "memory_limit = inf", "ratios = {a = 1}", "resize = true"),
        *(
            f"ratios = {'[' * 3000}{']' * 3000}",
            "[surrogate]\nepochs = true",
            "settings = {moso = 3}",
            "label_noise = nan",
        ),
    ],
)
def test_toml(refused, tmp_path, text):
    (tmp_path / "run.toml").write_text(text + "\n")
    refused("run", "run.toml", "--dry-run", "--quiet")


def test_one_value_stands_for_a_list_of_one():
    assert Configuration.resolve({"ratios": "0.4"}).ratios == (0.4,)
    assert Configuration.resolve({"ratios": ["40%", 0.6]}).ratios == (0.4, 0.6)


def array_file(path, header, content=b""):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<i8", "fortran_order": False, "shape": header})
    path.write_bytes(stream.getvalue() + content)
    return path


@pytest.mark.parametrize("shape", [(), (10**15,), (4, 4), (0,)])
def test_label_arrays(tmp_path, shape):
    content = bytes(8 * int(np.prod(shape))) if np.prod(shape) < 100 else b"12345678"
    with pytest.raises(MosoError) as caught:
        read_labels(str(array_file(tmp_path / "labels.npy", shape, content)), 4, ["a", "b"])
    assert "labels.npy" in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        *(
            "'descr': '<i8', 'fortran_order': False, 'shape': (), }",
            "{'descr': '<i8', 'shape': (4,)",
            "{'descr': '''<i8",
        ),
        *("{" * 500, "[" * 5000, "{'descr': [[]], 'fortran_order': 0, 'shape': (4,)}", "\0", "{[]: 1}", " \n  x\n y"),
    ],
)
def test_headers_of_arrays_that_are_no_headers(tmp_path, header):
    """NumPy parses headers as Python, and what it raises is what Python's parser raises."""
    text = header.encode().ljust(118) + b"\n"
    for name in ("labels.npy", "scores.npy", "train.npy"):
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(32))
    np.save(tmp_path / "train_labels.npy", np.arange(4) % 2)
    for read in (
        lambda: read_labels(str(tmp_path / "labels.npy"), 4, ["a", "b"]),
        lambda: read_imported_scores(tmp_path / "scores.npy", samples()),
        lambda: read_imported_list(tmp_path / "scores.npy", samples()),
        lambda: open_dataset(f"features:{tmp_path}"),
        lambda: read_embedding(tmp_path / "train.npy", samples().ids),
    ):
        with refusal("file-unreadable"):
            read()
    with refusal("file-damaged", tmp_path / "train.npy"):
        arrays.read(tmp_path / "train.npy")


def samples(count=4):
    return StoredSamples.from_arrays(np.zeros((count, 2), np.float32), np.arange(count) % 2)


@pytest.mark.parametrize(
    "column",
    [
        *(["a", "b", "c", "d"], [[1.0], [2.0], [3.0], [4.0]], [{"x": 1}] * 4, [b"1"] * 4),
        pa.array([1, 2, 3, 4], pa.date32()),
        pa.array([None] * 4, pa.null()),
    ],
)
def test_scores_that_are_no_numbers(tmp_path, column):
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "score": column}), tmp_path / "scores.parquet")
    with refusal("column-type", "score"):
        read_imported_scores(tmp_path / "scores.parquet", samples())


def test_columns_of_one_name(tmp_path):
    twice = pa.Table.from_arrays(
        [pa.array([0, 1, 2, 3]), *[pa.array([1.0, 2.0, 3.0, 4.0])] * 2], ["id", "score", "score"]
    )
    pq.write_table(twice, tmp_path / "scores.parquet")
    with refusal("data-ambiguous", "score"):
        read_imported_scores(tmp_path / "scores.parquet", samples())
    labels = pa.Table.from_arrays([pa.array([0.0, 1.0]), pa.array([0, 1]), pa.array([1, 0])], ["x", "label", "label"])
    pq.write_table(labels, tmp_path / "train.parquet")
    with refusal("data-ambiguous", "label"):
        open_dataset(f"parquet:{tmp_path / 'train.parquet'}")


def test_archives_that_are_called_arrays(tmp_path):
    np.savez(tmp_path / "scores.npz", a=np.ones(4))
    (tmp_path / "scores.npz").rename(tmp_path / "scores.npy")
    with refusal("file-unreadable", tmp_path / "scores.npy"):
        read_imported_scores(tmp_path / "scores.npy", samples())
    with refusal("file-unreadable", tmp_path / "scores.npy"):
        read_labels(str(tmp_path / "scores.npy"), 4, ["a"])


@pytest.mark.parametrize("kept", [[1, 0, 0, 1], ["yes", "no", "no", "yes"], ["True", "False", "FALSE", "true"]])
def test_kept_may_be_said_in_words(tmp_path, kept):
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "kept": kept}), tmp_path / "kept.parquet")
    assert read_imported_list(tmp_path / "kept.parquet", samples()).tolist() == [0, 3]


@pytest.mark.parametrize("kept", [[1, 2, 0, 1], ["maybe"] * 4, [0.5] * 4, [[True]] * 4])
def test_kept_that_is_neither_true_nor_false(tmp_path, kept):
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "kept": kept}), tmp_path / "kept.parquet")
    with refusal("column-type", "'kept'"):
        read_imported_list(tmp_path / "kept.parquet", samples())


def test_numbers_of_classes_that_no_data_can_have(tmp_path):
    pq.write_table(pa.table({"x": [0.0, 1.0], "label": [0, 10**7]}), tmp_path / "train.parquet")
    with refusal("label-invalid", 10**7):
        open_dataset(f"parquet:{tmp_path / 'train.parquet'}")


def test_descriptions_without_names(tmp_path):
    table = pa.table({"x": [0.0, 1.0], "label": [0, 1]})
    about = {"info": {"features": {"label": {"_type": "ClassLabel", "names": 5}}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), tmp_path / "train.parquet")
    with refusal("file-unreadable", "'label'"):
        open_dataset(f"parquet:{tmp_path / 'train.parquet'}")


def picture():
    stream = io.BytesIO()
    Image.new("RGB", (4, 4), (9, 9, 9)).save(stream, "PNG")
    return stream.getvalue()


def test_features_that_are_images(tmp_path):
    pq.write_table(pa.table({"image": [picture()] * 4, "label": [0, 1, 0, 1]}), tmp_path / "train.parquet")
    with refusal("column-type", "'image'"):
        open_dataset(f"parquet:{tmp_path / 'train.parquet'}?features=image")


@pytest.fixture
def photos(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            (tmp_path / "photos" / name / f"{number}.png").write_bytes(picture())
    return tmp_path / "photos"


@pytest.mark.parametrize("target", [".", "..", "../dog", "../.."])
def test_a_link_that_makes_images_count_twice_is_refused(photos, target):
    (photos / "cat" / "loop").symlink_to(target, target_is_directory=True)
    with refusal("data-ambiguous", photos / "cat" / "loop") if target != "../dog" else refusal("data-ambiguous"):
        open_dataset(f"folder:{photos}")


def test_links_to_other_disks_are_followed(photos, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "7.png").write_bytes(picture())
    (photos / "cat" / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (photos / "dog" / "8.png").symlink_to(tmp_path / "elsewhere" / "7.png")
    train = open_dataset(f"folder:{photos}", test_share=0.1).train
    assert {"cat/more/7.png", "dog/8.png"} & set(train.ids.to_pylist())


@pytest.mark.parametrize("kind", ["pipe", "socket", "nowhere"])
def test_what_is_no_file_is_not_waited_for(photos, kind, monkeypatch):
    path = photos / "cat" / "x.png"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    else:
        path.symlink_to(photos / "gone.png")
    with refusal("file-unreadable", path):
        open_dataset(f"folder:{photos}")


@pytest.mark.parametrize("place", [b"cat/\xff.png", b"\xff/1.png"])
def test_names_that_are_not_utf_8(photos, place):
    path = photos / os.fsdecode(place)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(picture())
    with refusal("file-unreadable"):
        open_dataset(f"folder:{photos}")


def test_texts_that_are_not_utf_8(photos):
    (photos / "words.txt").write_bytes(b"cat\t\xff\n")
    with refusal("file-unreadable", photos / "words.txt"):
        open_dataset(f"folder:{photos}")


def test_images_outside_of_the_data_set_are_not_opened(tmp_path):
    (tmp_path / "secret.png").write_bytes(picture())
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "own.png").write_bytes(picture())

    def table(*paths):
        images = [{"bytes": None, "path": path} for path in paths]
        pq.write_table(
            pa.table({"image": images, "label": [0, 1] * (len(paths) // 2)}), tmp_path / "data/train.parquet"
        )
        return open_dataset(f"parquet:{tmp_path / 'data' / 'train.parquet'}", test_share=0.5)

    for outside in (str(tmp_path / "secret.png"), "../secret.png"):
        with refusal("file-unsafe"):
            table("own.png", outside)
    assert len(table(*["own.png"] * 4).train) == 2


def test_pickles_that_hold_themselves(tmp_path):
    ring = []
    ring.append([ring, ring])
    laughs = ["ha"] * 10
    for _ in range(40):
        laughs = [laughs] * 10
    (tmp_path / "ring").write_bytes(pickle.dumps(ring))
    (tmp_path / "laughs").write_bytes(pickle.dumps(laughs))
    with refusal("file-unreadable", tmp_path / "ring"):
        read_plain_pickle(tmp_path / "ring")
    assert len(read_plain_pickle(tmp_path / "laughs")) == 10
