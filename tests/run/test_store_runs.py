"""Runs at an S3 address, on a real server: the bytes of a local run, whatever dies and wherever it goes on."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

import moso
from moso.cli.main import main
from moso.errors import MosoError
from moso.executors import InProcess, TorchRun
from moso.progress import silent
from moso.run.heartbeat import heartbeat
from moso.run.pieces import perform
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage, train_stage
from moso.run.work_plan import training
from moso.storage.store import Store
from refusals import refusal

FLAGS = [
    *("--dataset", "digits", "--model", "mlp-w8", "--epochs", "3", "--partitions", "2", "--time-steps", "3"),
    *("--seeds", "1", "--ratio", "0.5", "--label-noise", "0.1", "--method", "moso", "--method", "tdds"),
    *("--checkpoint-seconds", "0", "--quiet"),
]
RESULTS = ("run.toml", "scores.parquet", "selections.parquet", "evaluation.parquet")


def results(place: str | Path, scratch: Path) -> dict[str, bytes]:
    """All that a run found, by file; of a run at an address, as an empty machine finds it."""
    directory = moso.results.RunDirectory.at(place, scratch=scratch)
    directory.pull(lambda name: True)
    patterns = (*RESULTS, "scores/*", "terms/*/*", "trajectory/*/*", "dynamics/*/*", "state/*/*.safetensors")
    root = directory.root
    found = {str(path.relative_to(root)): path.read_bytes() for one in patterns for path in root.glob(one)}
    assert len(found) > 10
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    with pytest.raises(SystemExit):
        main(["run", *FLAGS, "--out", str(out), "--workers", "1"])
    return results(out, out)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty scratch for what this process does."""
    monkeypatch.setattr("moso.storage.lease_backend.SETTLING_SECONDS", 0.05)  # nobody else is about
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def killed(address: str, mark: str, scratch: Path, workers: int = 1) -> None:
    """A run on a machine that dies as soon as the store has something of this name."""
    flags = [*FLAGS, "--out", address, "--workers", str(workers)]
    environment = {**os.environ, "MOSO_CACHE": str(scratch)}
    process = subprocess.Popen([sys.executable, "-m", "moso", "run", *flags], env=environment, start_new_session=True)
    deadline, store = time.monotonic() + 900, Store.of(address)
    while not any(name.startswith(mark) for name in store.versions()) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_a_run_at_an_address_has_the_bytes_of_a_local_one_and_every_verb_takes_it(
    bucket, undisturbed, here, done, tmp_path, monkeypatch
):
    address = f"{bucket}/runs/a"
    done("run", *FLAGS, "--out", address, "--workers", "1")
    assert results(address, tmp_path / "fresh") == undisturbed
    names = set(Store.of(address).versions())
    assert {"report.html", "events.jsonl", "manifest.json", *RESULTS} <= names
    assert not [name for name in names if "running" in name or ".lock" in name or "position" in name]
    # From a machine that has nothing of it.
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "elsewhere"))
    assert "evaluate  complete" in done("status", address)
    assert not (tmp_path / "elsewhere").exists()
    assert f"scores in {address}/scores.parquet" in done("score", address, "--method", "entropy", "--workers", "1")
    done("select", address, "--ratio", "0.3", "--quiet")
    done("evaluate", address, "--ratio", "0.3", "--workers", "1", "--quiet")
    assert done("report", address).strip() == f"{address}/report.html"
    assert f"see {address}/compare/comparison.md" in done("compare", address)
    assert f"{address}/suspects/" in done("suspects", address, "--workers", "1")
    done("export", address, "--ratio", "0.3", "--method", "moso", "--out", str(tmp_path / "kept.csv"))
    assert (tmp_path / "kept.csv").exists()
    run = moso.Run.open(address)
    assert {"moso", "entropy"} <= set(run.scores())
    names = set(Store.of(address).versions())
    assert {"suspects/suspects.csv", "scores/entropy.parquet", "compare/comparison.md"} <= names
    # What is large comes when somebody looks at it.
    assert not (run.directory.root / "trajectory").exists()
    assert len(run.trajectory(1)) == 3
    assert [path.name for path in (run.directory.root / "trajectory").iterdir()] == ["part-001"]


def test_a_driver_that_is_killed_is_followed_on_another_machine(bucket, undisturbed, here, done, tmp_path):
    address = f"{bucket}/killed"
    killed(address, "terms/part-000/", tmp_path / "first")
    assert "evaluation.parquet" not in Store.of(address).versions()
    done("run", *FLAGS, "--out", address, "--workers", "1")
    assert results(address, tmp_path / "fresh") == undisturbed


@pytest.mark.long
def test_drivers_that_are_killed_one_after_the_other_change_no_byte(bucket, undisturbed, here, done, tmp_path):
    address = f"{bucket}/killed"
    marks = ("run.toml", "state/reference", "state/part-000/history.json", "terms/part-000/", "scores/", "evaluation/")
    for machine, mark in enumerate(marks):
        killed(address, mark, tmp_path / f"machine-{machine % 2}-{machine // 4}", workers=1 + machine % 2)
    done("run", *FLAGS, "--out", address, "--workers", "2")
    assert results(address, tmp_path / "fresh") == undisturbed


class InTurn:
    """Pieces done by machines that share an address alone, one after the other."""

    def __init__(self, address: str, scratches: list[Path]) -> None:
        self.machines = [moso.results.RunDirectory.at(address, f"machine-{one.name}", one) for one in scratches]

    def run(self, job, pieces) -> None:
        for number, piece in enumerate(pieces):
            perform(replace(job, directory=self.machines[number % len(self.machines)]), piece, silent)
        job.directory.pull()


def test_machines_that_share_an_address_alone_do_one_run(small_run, tmp_path):
    settings = {"methods": ["moso", "tdds"], "epochs": 3, "time_steps": 2, "shard_size": 500}
    alone, shared = small_run("alone", **settings), small_run("shared", **settings)
    address = f"file://{tmp_path / 'there'}"
    shared.directory = moso.results.RunDirectory.at(address, scratch=tmp_path / "driver")
    machines = [tmp_path / "one", tmp_path / "other"]
    for job, executor in ((alone, InProcess()), (shared, InTurn(address, machines))):
        with job.directory.locked():
            begin(job)
            score_stage(job, executor)
            select_stage(job)
            evaluate_stage(job, executor)
    assert results(address, tmp_path / "fresh") == results(alone.directory.root, tmp_path)
    assert not [name for name in Store.of(address).versions() if "shards" in name or "running" in name]
    assert not (shared.directory.root / "trajectory").exists()
    done_by = {path.name for path in (shared.directory.root / "events").iterdir()}
    assert done_by == {"machine-one.jsonl", "machine-other.jsonl"}


def test_an_upload_that_fails_leaves_no_piece_that_looks_complete(small_run, tmp_path, monkeypatch):
    monkeypatch.setattr("moso.storage.store.PAUSES", ())
    job = small_run(methods=["moso", "tdds"], epochs=3)
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
    root, send, complete = job.directory.root, LocalFileSystem.put_file, set()
    local = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for failing in range(len(local) + 1):
        place = f"file://{tmp_path / str(failing) / 'there'}"
        sender = moso.results.RunDirectory.at(place, scratch=tmp_path / str(failing) / "sender")
        shutil.copytree(root, sender.root)
        left = itertools.count(failing, -1)

        def put(self, path, remote, left=left, **more):
            if next(left) <= 0:
                Path(remote).write_bytes(Path(path).read_bytes()[:10])
                raise ConnectionError("the network is gone")
            send(self, path, remote, **more)

        with monkeypatch.context() as broken, contextlib.suppress(MosoError):
            broken.setattr(LocalFileSystem, "put_file", put)
            sender.push()
        found = replace(job, directory=moso.results.RunDirectory.at(place, scratch=tmp_path / str(failing) / "fresh"))
        found.directory.pull(lambda name: True)
        for piece in training(job, job.configuration.needs()):
            if piece.is_complete(found):
                complete.add((failing, piece.name))
                own = {name: data for name, data in local.items() if piece.name.rpartition("/")[2] in name.split("/")}
                assert len(own) > 2
                assert own == {name: (found.directory.root / name).read_bytes() for name in own}
    assert {name for failing, name in complete if failing == len(local)} == {name for _, name in complete}
    assert len({failing for failing, _ in complete}) > 2
    assert len(complete) < 3 * len(local)


def test_a_network_that_is_gone_in_the_middle_is_one_sentence_and_the_run_goes_on(
    bucket, undisturbed, here, done, refused, tmp_path, monkeypatch
):
    address, send, sent = f"{bucket}/cut", Store._whole, []
    train = ("train", *FLAGS, "--out", address, "--workers", "1")

    def cut(self, name, write):
        sent.append(name)
        if any("history" in name for name in sent):
            raise ConnectionError("the network is gone")
        send(self, name, write)

    with monkeypatch.context() as broken:
        broken.setattr(Store, "_whole", cut)
        broken.setattr("moso.storage.store.PAUSES", (0.0,))
        said = refused(*train)
    assert "could not be written (the network is gone); what was complete is kept" in said
    assert len(said.strip().splitlines()) == 1
    assert not [name for name in Store.of(address).versions() if "history" in name]
    [history] = here.glob("runs/*/run/state/*/history.json")
    trained = history.stat().st_mtime_ns
    done(*train)
    assert history.stat().st_mtime_ns == trained  # kept here, and not done again
    found = results(address, tmp_path / "fresh")
    assert found == {name: undisturbed[name] for name in found}


def test_another_configuration_is_refused_by_name_of_the_address(bucket, here, small_run, refused):
    address, job = f"{bucket}/other", small_run()
    job.directory = moso.results.RunDirectory.at(address)
    with job.directory.locked():
        begin(job)
    said = refused("train", *FLAGS, "--out", address, "--workers", "1")
    assert f"{address} holds a run of another configuration" in said
    assert f"{address}-nothing is not a run directory" in refused("score", f"{address}-nothing")


def test_torchrun_on_several_machines_needs_a_mount(small_run, monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "1", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    job = small_run()
    job.directory = moso.results.RunDirectory.at("memory://team/run")
    with refusal("executor-unsuitable", "--out"):
        TorchRun()._join(job)


def test_the_library_prunes_at_an_address(here):
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8")
    settings = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 1, "epochs": 3}
    address = "memory://library/run"
    pruned = moso.prune((images, np.arange(40) % 2), ratio=0.5, out=address, **settings)
    assert "scores.parquet" in Store.of(address).versions()
    assert np.array_equal(moso.Run.open(address).kept(), pruned.kept)


def test_status_sees_a_run_at_work_without_holding_it(bucket, here, done, small_run):
    job = small_run()
    job.directory = moso.results.RunDirectory.at(f"{bucket}/watched")
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
        with heartbeat(job.directory, "score", "seed-0/part-000", lambda *_: None):
            seen = json.loads(done("status", str(job.directory), "--json"))
            assert seen["holder"]["process"] == os.getpid()
            assert [one["piece"] for one in seen["running"]] == ["seed-0/part-000"]
            assert seen["stages"][0]["complete"]
    seen = json.loads(done("status", str(job.directory), "--json"))
    assert seen["holder"] is None
    assert seen["running"] == []


def test_a_failure_is_seen_at_the_address(bucket, here, refused, done):
    address = f"{bucket}/failed"
    flags = [*FLAGS, "--learning-rate", "1e30", "--out", address, "--workers", "1"]
    assert "the loss became" in refused("run", *flags)
    assert re.search(r"failed: seed-0/\S+: .*the loss became", done("status", address))


def test_of_two_drivers_the_second_is_refused(bucket, here, refused, tmp_path):
    address = f"{bucket}/two"
    with moso.results.RunDirectory.at(address, scratch=tmp_path / "another").locked():
        said = refused("run", *FLAGS, "--out", address, "--workers", "1")
    assert f"another moso is working in {address} (process {os.getpid()}" in said
    with refusal("not-a-run", "run.toml"):
        moso.Run.open(address)
