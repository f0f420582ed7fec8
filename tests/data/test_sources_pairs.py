"""`pairs:`: one set of pairs in every layout is the same set of pairs, and what is unsafe or incomplete is refused."""

import io
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import moso
from moso.data import open_dataset
from moso.data.sources.tar_shards import read_shards
from moso.export.kept import export_kept
from refusals import refusal

TEXTS = [f"a {colour} {thing}" for colour in ("red", "green", "blue") for thing in ("cat", "dog", "tree", "house")]


def pictures(count: int = 12) -> list[bytes]:
    found = []
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 60, (8, 8, 3)).astype(np.uint8)
        pixels[..., (number // 4) % 3] += 150
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        found.append(stream.getvalue())
    return found


def as_folder(root, count=12):
    root.mkdir(parents=True)
    for number, picture in enumerate(pictures(count)):
        (root / f"{number:03d}.png").write_bytes(picture)
        (root / f"{number:03d}.txt").write_text(TEXTS[number % 12] + "\n")
    return root


def as_captions(root):
    (root / "images").mkdir(parents=True)
    rows = ["image,text"]
    for number, picture in enumerate(pictures()):
        (root / "images" / f"{number:03d}.png").write_bytes(picture)
        rows.append(f"images/{number:03d}.png,{TEXTS[number]}")
    (root / "captions.csv").write_text("\n".join(rows) + "\n")
    return root


def as_parquet(root):
    root.mkdir()
    table = pa.table({"image": pa.array(pictures()), "text": pa.array(TEXTS)})
    pq.write_table(table, root / "train.parquet")
    return root / "train.parquet"


def shard(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def as_shards(root, count=12):
    root.mkdir(parents=True)
    for start in range(0, count, 5):
        members = []
        for number, picture in list(enumerate(pictures(count)))[start : start + 5]:
            members += [(f"{number:03d}.txt", TEXTS[number % 12].encode()), (f"{number:03d}.png", picture)]
            members += [(f"{number:03d}.json", b'{"by": "hand"}')]
        shard(root / f"pairs-{start:03d}.tar", members)
    return root


@pytest.mark.parametrize("made", [as_folder, as_captions, as_parquet, as_shards])
def test_every_layout_gives_the_same_pairs(tmp_path, made):
    place = made(tmp_path / "data")
    data = open_dataset(f"pairs:{place}", test_share=0.25)
    assert (len(data.train), len(data.test)) == (9, 3)
    assert data.task.name == "contrastive"
    texts = np.concatenate([data.train.targets, data.test.targets])
    assert sorted(texts.tolist()) == sorted(TEXTS)
    by_text = dict(zip(TEXTS, pictures(), strict=True))
    for position in range(9):
        expected = np.asarray(Image.open(io.BytesIO(by_text[data.train.targets[position]])))
        assert np.array_equal(np.asarray(data.train.picture(position)), expected)


def test_words_are_those_of_the_training_split(tmp_path):
    root = tmp_path / "data"
    as_folder(root / "train")
    as_folder(root / "test")
    for file in (root / "test").glob("*.txt"):
        file.write_text("an unheard of thing")
    data = open_dataset(f"pairs:{root}")
    assert set(data.train.answer_tokenizer.words) <= set(" ".join(TEXTS).split())
    assert data.test.answers.shape[1] == data.train.answers.shape[1]


def test_options_are_those_of_the_task_and_bad_ones_are_refused(tmp_path):
    place = as_parquet(tmp_path / "data")
    task = open_dataset(f"pairs:{place}?negatives=5&temperature=0.2&form=siglip").task
    assert (task.negatives, task.temperature, task.form) == (5, 0.2, "siglip")
    with refusal("setting-invalid"):
        open_dataset(f"pairs:{place}?negatives=few")
    with refusal("unknown-name", "clip"):
        open_dataset(f"pairs:{place}?form=clip")
    with refusal("column-missing", "words"):
        open_dataset(f"pairs:{place}?text=words")
    with refusal("classes-required"):
        open_dataset(f"pairs:{place}", label_noise=0.2)


@pytest.mark.parametrize(
    ("name", "code"),
    [("../out.txt", "file-unsafe"), ("/etc/out.txt", "file-unsafe"), ("003.pkl", "file-unsafe"),
     ("003.weights.pth", "file-unsafe"), ("003.seg.png", None)],
)  # fmt: skip
def test_members_that_are_unsafe_are_refused_and_others_ignored(tmp_path, name, code):
    path = shard(tmp_path / "a.tar", [("003.png", pictures()[0]), ("003.txt", b"a cat"), (name, b"x")])
    if code is None:
        assert read_shards([path]).texts.tolist() == ["a cat"]
        return
    with refusal(code, name):
        open_dataset(f"pairs:{path}")


def test_links_in_a_shard_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("003.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    with refusal("file-unsafe", "003.png"):
        open_dataset(f"pairs:{tmp_path / 'a.tar'}")


def test_what_is_incomplete_is_refused(tmp_path):
    root = as_folder(tmp_path / "data")
    (root / "004.txt").unlink()
    with refusal("labels-missing", "004.txt"):
        open_dataset(f"pairs:{root}")
    (root / "004.txt").write_text(" \n")
    with refusal("labels-missing", "004.png"):
        open_dataset(f"pairs:{root}")
    with refusal("file-missing"):
        open_dataset(f"pairs:{tmp_path / 'none'}")
    (tmp_path / "empty").mkdir()
    with refusal("data-empty"):
        open_dataset(f"pairs:{tmp_path / 'empty'}")
    (tmp_path / "b.tar").write_bytes(b"no tar file at all" * 50)
    with refusal("file-unreadable", f"{tmp_path / 'b.tar'}"):
        open_dataset(f"pairs:{tmp_path / 'b.tar'}")
    captions = as_captions(tmp_path / "captions")
    (captions / "captions.csv").write_text("image,text\n../secret.png,a cat\n")
    with refusal("file-unsafe", "../secret.png"):
        open_dataset(f"pairs:{captions}")


def run_on(tmp_path, place):
    from moso.configuration import Configuration
    from moso.executors.local import local_executor
    from moso.run.job import Job
    from moso.run.stages import begin, compare

    settings = {
        "dataset": f"pairs:{place}?negatives=8", "model": "two-towers-w8", "epochs": 2, "time_steps": 2, "seeds": 1,
        "partitions": 2, "ratios": [0.5], "methods": ["moso-rank"],
    }  # fmt: skip
    job = Job.open(tmp_path / "run", Configuration.resolve(settings))
    with job.directory.locked(), local_executor(1) as executor:
        begin(job)
        compare(job, executor)
    return moso.Run.open(tmp_path / "run")


def test_a_run_on_shards_leaves_filtered_shards_with_the_same_bytes(tmp_path):
    place = as_shards(tmp_path / "data", 40)
    run = run_on(tmp_path, place)
    kept = [run.table()["id"].to_pylist()[position] for position in run.kept("moso-rank")]
    export_kept(run, tmp_path / "kept", method="moso-rank", form="shards")
    again = read_shards(sorted((tmp_path / "kept").glob("*.tar")))
    assert sorted(again.keys.to_pylist()) == sorted(kept)
    texts = {f"{number:03d}": TEXTS[number % 12] for number in range(40)}
    assert [texts[key] for key in again.keys.to_pylist()] == again.texts.tolist()
    for position, key in enumerate(again.keys.to_pylist()):
        assert again.members(position) == pictures(40)[int(key)]
    with tarfile.open(next((tmp_path / "kept").glob("*.tar"))) as archive:
        assert any(name.endswith(".json") for name in archive.getnames())


@pytest.mark.parametrize("form", ["shards", "parquet-data"])
def test_pairs_of_a_folder_are_exported_and_opened_again(tmp_path, form):
    run = run_on(tmp_path, as_folder(tmp_path / "data", 40))
    kept = run.kept("moso-rank")
    export_kept(run, tmp_path / "kept", method="moso-rank", form=form, with_test=True)
    again = open_dataset(f"pairs:{tmp_path / 'kept'}")
    assert len(again.train) == len(kept)
    assert sorted(again.train.targets.tolist()) == sorted(run.samples("train").targets[kept].tolist())
    assert len(again.test) == len(run.samples("test"))
