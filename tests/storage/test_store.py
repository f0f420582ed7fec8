"""A store: whole objects, and errors in one sentence."""

import re
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

from moso.results import RunDirectory
from moso.storage.store import Store, is_address
from refusals import refusal


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
    with refusal("storage-failed", "no answer"):
        store.read("note")
    left[0] = 1
    with refusal("storage-failed", "no answer"):
        store.read("note")  # it has not answered since
    assert store.read("note") == "here"
    left[0] = 1
    with refusal("storage-failed", "no answer"):
        Store.of(near).read("note")


def test_no_right_to_write_is_said_at_once(near, monkeypatch):
    def forbidden(self, *_, **__):
        raise PermissionError("Access Denied")

    store = Store.of(near)
    store.write("note", "here")
    monkeypatch.setattr(LocalFileSystem, "put_file", forbidden)
    with refusal("storage-failed", "Access Denied"):
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
    with refusal("package-missing", "moso-prune[store]"):
        Store.of("s3://bucket/run")
    with refusal("package-missing", "gcsfs"):
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
    with refusal("executor-unsuitable", "workers"):
        directory.check_seen_by_others()
