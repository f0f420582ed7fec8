"""A working copy of a run at an address: in an order that never lies, and of nobody else's files."""

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from moso.results.working_copy import WorkingCopy, _in_order, is_small_file, is_status_file
from moso.storage.store import Store
from refusals import refusal


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


def test_what_one_machine_leaves_another_finds(address, tmp_path, monkeypatch):
    one, other = copy_of(address, tmp_path / "one"), copy_of(address, tmp_path / "other")
    fill(one.root, run_toml="a", manifest_json="{}", terms__x="1", trajectory__p__step="2", state__part__shards__s="3")
    one.push()
    other.pull()
    assert tree(other.root) == {name: data for name, data in tree(one.root).items() if is_small_file(name)}
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
    other.pull(is_status_file)
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
        with refusal("storage-failed"):
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
        with refusal("storage-failed"):
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
    with refusal("not-a-run", "out"):
        copy.pull()
    assert tree(copy.root) == {}
