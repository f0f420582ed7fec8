"""An S3 that answers slowly, late, with errors or by halves: the bytes of an undisturbed run, or one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faulty_proxy import faulty
from moso.results import RunDirectory
from moso.storage.store import Store
from refusals import refusal

RUN = [
    *("-m", "moso", "run", "--dataset", "digits", "--model", "mlp-w8", "--epochs", "3", "--partitions", "2"),
    *("--time-steps", "2", "--seeds", "1", "--ratio", "0.5", "--method", "moso", "--method", "tdds", "--workers", "1"),
    *("--checkpoint-seconds", "0", "--quiet", "--out"),
]
FAULTS = {"e500": 0.05, "e503": 0.05, "lost": 0.03, "cut": 0.03, "late": 0.1}


def results(place: str | Path, scratch: Path) -> dict[str, bytes]:
    """All that a run found, as an empty machine finds it."""
    directory = RunDirectory.at(place, scratch=scratch)
    directory.pull(lambda name: True)
    patterns = ("run.toml", "*.parquet", "scores/*", "terms/*/*", "trajectory/*/*", "state/*/*.safetensors")
    found = {
        path.relative_to(directory.root).as_posix(): path.read_bytes()
        for one in patterns
        for path in directory.root.glob(one)
    }
    assert len(found) > 10
    return found


def carried_out(out: str, endpoint: str, scratch: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "AWS_ENDPOINT_URL": endpoint, "MOSO_CACHE": str(scratch), "NO_PROXY": "127.0.0.1"}
    return subprocess.run([sys.executable, *RUN, out], env=environment, capture_output=True, text=True, timeout=1800)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run([sys.executable, *RUN, str(out)], check=True)
    return results(out, out)


@pytest.fixture
def through(s3_server, monkeypatch):
    """A function that makes this process ask S3 through a proxy."""
    s3fs = pytest.importorskip("s3fs")

    def ask(proxy) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        s3fs.S3FileSystem.clear_instance_cache()  # which has the address of the server itself

    yield ask
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_run_on_a_store_that_fails_now_and_then_has_the_same_bytes(s3_server, bucket, undisturbed, tmp_path):
    with faulty(s3_server, 0.3, **FAULTS) as proxy:
        done = carried_out(f"{bucket}/run", proxy.address, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert {"500", "503", "late"} <= set(proxy.met), proxy.met
    assert results(f"{bucket}/run", tmp_path / "fresh") == undisturbed
    assert not [name for name in Store.of(f"{bucket}/run").versions() if ".lock" in name]


def test_a_store_that_fails_for_good_is_one_sentence_and_the_run_goes_on(s3_server, bucket, undisturbed, tmp_path):
    with faulty(s3_server, e503=1.0) as proxy:
        said = carried_out(f"{bucket}/run", proxy.address, tmp_path / "cache")
    assert said.returncode == 2, said.stderr
    assert "Traceback" not in said.stderr
    assert len([line for line in said.stderr.splitlines() if "moso: error" in line]) == 1
    done = carried_out(f"{bucket}/run", s3_server, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert results(f"{bucket}/run", tmp_path / "fresh") == undisturbed


@pytest.mark.parametrize("fault", ["lost", "cut", "e500", "late"])
def test_objects_come_back_as_they_were_sent_whatever_the_answers(s3_server, bucket, through, tmp_path, fault):
    with faulty(s3_server, 0.2, **{fault: 0.3}) as proxy:
        through(proxy)
        store = Store.of(f"{bucket}/objects")
        assert store.read("nothing") is None  # it has answered
        sent = {f"a/{number}": bytes([number]) * 100_000 for number in range(12)}
        for name, content in sent.items():
            (tmp_path / "file").write_bytes(content)
            store.send(tmp_path / "file", name)
        for name, content in sent.items():
            assert store.fetch(name, tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == content
        assert set(store.versions()) == set(sent)
        assert proxy.met[fault.removeprefix("e")] > 0
        # Of two who make one object, one did, although the answer may be lost.
        for number in range(10):
            made = store.create(f"b/{number}", "mine")
            assert store.read(f"b/{number}") == "mine"
            assert not store.create(f"b/{number}", "another")
            assert made or fault in ("lost", "cut", "e500")


def test_a_lease_survives_answers_that_are_lost(s3_server, bucket, through, tmp_path, monkeypatch):
    from moso.storage.lease import held
    from moso.storage.lease_backend import StoreLease, read_lease

    monkeypatch.setattr("moso.storage.lease_backend.SETTLING_SECONDS", 0.2)
    with faulty(s3_server, 0.3, lost=0.2, e503=0.1, late=0.2) as proxy:
        through(proxy)
        backend = StoreLease(Store.of(f"{bucket}/run"), tmp_path)
        assert backend.store.read("nothing") is None
        for _ in range(3):
            with held(backend, renew=0.1) as mine:
                assert read_lease(backend).owner == mine.owner
                with refusal("run-locked", "out"), held(backend):
                    pass
        assert backend.store.versions() == {}
