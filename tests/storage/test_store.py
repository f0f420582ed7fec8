"""A store and the working copy that follows it: whole objects, in an order that never lies, and nobody else's."""

import json
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from moso.errors import MosoError
from moso.results import RunDirectory
from moso.storage.store import Store, is_address
from moso.storage.store_copy import WorkingCopy, _in_order, light, word


@pytest.fixture(params=["memory", "file", "s3"])
def address(request, tmp_path) -> str:
    """An empty place of each kind."""
    if request.param == "s3":
        return request.getfixturevalue("bucket") + "/run"
    return f"{request.param}://{tmp_path / 'there'}"


@pytest.fixture
def near(tmp_path):
    """An address on this disk."""
    return f"file://{tmp_path / 'there'}"


def copy_of(address: str, scratch: Path) -> WorkingCopy:
    store = Store.of(address)
    assert store is not None
    return WorkingCopy.of(store, scratch)


def fill(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_json", ".json").replace("_toml", ".toml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def everything(name: str) -> bool:
    return True


def test_objects_come_back_as_they_were_sent(address, tmp_path):
    store = Store.of(address)
    assert store.versions() == {}
    assert store.read("a/b.json") is None
    assert store.top() == []
    content = np.random.default_rng(0).bytes(3_000_000)
    (tmp_path / "large").write_bytes(content)
    store.send(tmp_path / "large", "deep/in/there/large")
    store.send(tmp_path / "gone", "gone")  # taken away before it was its turn
    store.write("a/b.json", "ä")
    assert store.read("a/b.json") == "ä"
    assert set(store.versions()) == {"deep/in/there/large", "a/b.json"}
    assert set(store.versions("a")) == {"a/b.json"}
    assert store.top() == ["a", "deep"]
    assert store.fetch("deep/in/there/large", tmp_path / "back" / "large")
    assert (tmp_path / "back" / "large").read_bytes() == content
    assert not store.fetch("nothing", tmp_path / "back" / "nothing")
    assert not (tmp_path / "back" / "nothing").exists()
    store.remove(["a/b.json", "nothing"])
    assert set(store.versions()) == {"deep/in/there/large"}


def test_an_object_is_made_once_and_another_content_is_another_version(address):
    store = Store.of(address)
    assert store.create("name", "one")
    assert not store.create("name", "two")
    assert store.read("name") == "one"
    before = store.versions()["name"]
    assert store.versions()["name"] == before
    store.write("name", "six")
    assert store.versions()["name"] != before


def test_what_one_machine_leaves_another_finds(address, tmp_path, monkeypatch):
    one, other = copy_of(address, tmp_path / "one"), copy_of(address, tmp_path / "other")
    fill(one.root, run_toml="a", manifest_json="{}", terms__x="1", trajectory__p__step="2", state__part__shards__s="3")
    one.push()
    other.pull()
    assert tree(other.root) == {name: data for name, data in tree(one.root).items() if light(name)}
    other.pull(everything)
    assert tree(other.root) == tree(one.root)
    sent = []
    send = Store.send
    monkeypatch.setattr(Store, "send", lambda self, path, name: (sent.append(name), send(self, path, name))[1])
    one.push()
    other.push()
    assert sent == []
    fill(other.root, manifest_json='{"more": 1}', terms__y="2")
    other.push()
    assert set(sent) == {"manifest.json", "terms/y"}
    one.pull(everything)
    assert tree(one.root) == tree(other.root)


def test_what_has_served_goes_everywhere_and_nothing_else_is_ever_removed(near, tmp_path):
    one, other = copy_of(near, tmp_path / "one"), copy_of(near, tmp_path / "other")
    fill(one.root, run_toml="a", terms__x="1", state__part__shards__s="3", state__part__replay__r="3")
    one.push()
    other.pull(everything)
    (one.root / "state/part/shards/s").unlink()
    (one.root / "state/part/replay/r").unlink()
    (one.root / "terms/x").unlink()  # somebody tidies up the cache folder
    one.push()
    assert set(one.store.versions()) == {"run.toml", "terms/x"}
    other.pull()
    assert set(tree(other.root)) == {"run.toml", "terms/x"}
    assert not (other.root / "state").exists()  # whether there is a folder means something
    one.pull()
    assert set(tree(one.root)) == {"run.toml", "terms/x"}


def test_what_is_under_way_stays_here(near, tmp_path):
    copy = copy_of(near, tmp_path / "one")
    fill(copy.root, run_toml="a", state__part__purpose_json="{}", state__running__x_json="{}", dynamics__p__aum="?")
    for name in (".lock", "x.moso-tmp", "state/part/position.safetensors", "state/part/replay/scratch/s"):
        path = copy.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    dynamics = copy.root / "dynamics" / "p"
    np.save(dynamics / "aum.npy", np.zeros(3))
    np.save(dynamics / "margin.npy", np.zeros(3))
    copy.push()
    assert set(copy.store.versions()) == {"run.toml", "dynamics/p/aum"}
    (dynamics / "dynamics.json").write_text(json.dumps({"columns": ["aum"]}))
    copy.push()
    assert "dynamics/p/aum.npy" in copy.store.versions()
    assert "dynamics/p/margin.npy" not in copy.store.versions()  # of a training that goes on


def test_a_word_about_the_run_is_all_that_status_brings(near, tmp_path):
    one, other = copy_of(near, tmp_path / "one"), copy_of(near, tmp_path / "other")
    fill(one.root, run_toml="a", manifest_json="{}", events__n="x", terms__x="1")
    one.push()
    other.pull(word)
    assert set(tree(other.root)) == {"run.toml", "manifest.json", "events/n"}


@given(st.sets(st.text("abj/.son", min_size=1, max_size=8)))
def test_notes_come_after_what_they_are_about(names):
    groups = _in_order({*names, "run.toml", "manifest.json"})
    assert groups[0] == ["run.toml"]
    assert groups[-1] == ["manifest.json"]
    order = [name.endswith(".json") for group in groups for name in group]
    assert order == sorted(order)


@pytest.mark.parametrize("failing", range(1, 9))
def test_an_upload_that_fails_leaves_no_note_without_what_it_is_about(near, tmp_path, monkeypatch, failing):
    copy = copy_of(near, tmp_path / "one")
    fill(copy.root, run_toml="a")
    copy.push()
    data = {f"trajectory__part__step{number}": "w" for number in range(5)}
    fill(copy.root, **data, state__part__history_json="{}", manifest_json="{}", scores="1")
    put, lock, count = LocalFileSystem.put_file, threading.Lock(), [0]

    def half(self, path, remote, **more):
        with lock:
            count[0] += 1
            fails = count[0] >= failing
        if fails:
            Path(remote).write_text("")
            raise OSError("the network is gone")
        return put(self, path, remote, **more)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "put_file", half)
        broken.setattr("moso.storage.store.PAUSES", (0.0,))
        with pytest.raises(MosoError, match=r"could not be written \(the network is gone\).*start again to go on"):
            copy.push()
    there = tree(tmp_path / "there")
    whole = {name for name in there if "moso-tmp" not in name}
    assert all(there[name] for name in whole)
    if "state/part/history.json" in whole:
        assert {name.replace("__", "/") for name in data} <= whole
    if "manifest.json" in whole:
        assert "state/part/history.json" in whole
    fresh = copy_of(near, tmp_path / "other")
    fresh.pull(everything, leading=True)
    assert set(tree(fresh.root)) == whole
    assert set(tree(tmp_path / "there")) == whole  # halves are swept by who holds the lease
    copy.pull(everything)
    copy.push()
    fresh.pull(everything)
    assert tree(fresh.root) == tree(copy.root)


def test_a_download_that_fails_goes_on_where_it_was(near, tmp_path, monkeypatch):
    one, other = copy_of(near, tmp_path / "one"), copy_of(near, tmp_path / "other")
    fill(one.root, run_toml="a", state__part__history_json="{}", **{f"terms__{number}": "1" for number in range(9)})
    one.push()
    get, count = LocalFileSystem.get_file, [0]

    def fails(self, path, local, **more):
        count[0] += 1
        if count[0] > 4:
            raise OSError("the network is gone")
        return get(self, path, local, **more)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "get_file", fails)
        broken.setattr("moso.storage.store.PAUSES", ())
        with pytest.raises(MosoError, match="could not be read"):
            other.pull()
    assert "state/part/history.json" not in tree(other.root)
    other.pull()
    assert tree(other.root) == tree(one.root)


def test_a_copy_of_a_run_that_is_no_more_is_given_up(address, tmp_path):
    one, other = copy_of(address, tmp_path / "one"), copy_of(address, tmp_path / "other")
    fill(one.root, run_toml="a", terms__x="1")
    one.push()
    other.pull()
    position = other.root / "state/part/position.safetensors"
    position.parent.mkdir(parents=True)
    position.touch()
    one.store.remove(one.store.versions())
    one.pull(leading=True)
    assert tree(one.root) == {}
    time.sleep(1.1 if address.startswith("s3") else 0)  # S3 tells two contents apart, and of the same one two seconds
    fill(one.root, run_toml="a", terms__y="2")  # the same configuration, perhaps on other data
    one.push()
    other.pull()
    assert tree(other.root) == tree(one.root)


def test_an_address_of_other_things_is_refused_and_not_downloaded(near, tmp_path):
    copy = copy_of(near, tmp_path / "one")
    fill(tmp_path / "there", photo="large")
    with pytest.raises(MosoError, match=r"is not empty and not a run directory \(it holds photo\); use another --out"):
        copy.pull()
    assert tree(copy.root) == {}


def test_what_fails_for_a_moment_is_tried_again_but_not_at_an_address_that_never_answered(near, monkeypatch):
    monkeypatch.setattr("moso.storage.store.PAUSES", (0.0, 0.0, 0.0))
    cat, left = LocalFileSystem.cat_file, [0]

    def shaky(self, path, **more):
        if left[0]:
            left[0] -= 1
            raise TimeoutError("no answer")
        return cat(self, path, **more)

    store = Store.of(near)
    store.write("note", "here")
    monkeypatch.setattr(LocalFileSystem, "cat_file", shaky)
    left[0] = 3
    assert store.read("note") == "here"
    left[0] = 4
    with pytest.raises(MosoError, match=r"could not be read \(no answer\)"):
        store.read("note")
    left[0] = 1
    with pytest.raises(MosoError, match="no answer"):
        store.read("note")  # it has not answered since
    assert store.read("note") == "here"
    left[0] = 1
    with pytest.raises(MosoError, match=r"does not answer \(no answer\); look at the address"):
        Store.of(near).read("note")


def test_no_right_to_write_is_said_at_once(near, monkeypatch):
    def forbidden(self, *_, **__):
        raise PermissionError("Access Denied")

    store = Store.of(near)
    store.write("note", "here")
    monkeypatch.setattr(LocalFileSystem, "put_file", forbidden)
    with pytest.raises(MosoError, match=r"may not be written by you \(Access Denied\)"):
        store.send(Path(__file__), "x")


def test_a_mistake_of_ours_is_not_taken_for_the_network(near, monkeypatch):
    def wrong(self, *_, **__):
        raise TypeError("a mistake")

    monkeypatch.setattr(LocalFileSystem, "put_file", wrong)
    with pytest.raises(TypeError, match="a mistake"):
        Store.of(near).send(Path(__file__), "x")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere://bucket/run", r"nothing is known about nowhere:// .*use a path, s3://, gs://"),
        ("s3://", r"s3:// names no place; give a bucket or folder as well, such as s3://bucket/run"),
        ("s3://no-such-bucket-of-mine/run", r"no such bucket or folder .*make it first"),
        ("s3://Not_A_Bucket!/run", r"s3://Not_A_Bucket!/run does not answer .*Invalid bucket name"),
    ],
)
def test_a_bad_address_is_one_sentence(refused, bucket, place, sentence, monkeypatch, tmp_path):
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    said = refused("run", "--dataset", "digits", "--epochs", "1", "--out", place, "--quiet")
    assert re.search(sentence, said)
    assert len(said.strip().splitlines()) == 1


def test_a_package_that_is_missing_is_named(monkeypatch):
    import fsspec

    def missing(*_, **__):
        raise ImportError("Install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(MosoError, match=r'pip install "moso-prune\[store\]"'):
        Store.of("s3://bucket/run")
    with pytest.raises(MosoError, match="Install gcsfs to access Google Storage"):
        Store.of("gs://bucket/run")


def test_a_path_is_no_address_and_an_address_no_path(tmp_path, refused):
    assert not is_address(tmp_path)
    assert not is_address("a/b")
    assert not is_address("C:/runs")
    assert str(RunDirectory.at(str(tmp_path))) == str(tmp_path)
    assert RunDirectory.at("file:///mnt/run/").copy == RunDirectory.at("file:///mnt/run").copy
    said = refused("export", str(tmp_path), "--out", "s3://bucket/kept.csv")
    assert "s3://bucket/kept.csv is an address, and this is written on this machine alone" in said


def test_a_run_in_the_memory_of_one_process_has_no_other_workers(small_run):
    directory = RunDirectory.at("memory://alone/run")
    with pytest.raises(MosoError, match="is seen by this process alone; use another address, or --workers 1"):
        directory.check_seen_by_others()
