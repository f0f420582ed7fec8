"""Ray workers that share no disk: what each leaves at an address, the others find there."""

import subprocess
import sys
import warnings

import pytest

import moso
from moso.storage.store import Store

pytest.importorskip("ray")
FLAGS = [
    *("--dataset", "digits", "--model", "mlp-w8", "--epochs", "2", "--partitions", "2", "--time-steps", "2"),
    *("--seeds", "1", "--ratio", "0.5", "--method", "moso", "--shard-size", "400", "--quiet"),
]


@pytest.fixture
def machines(tmp_path, s3_server):
    """A cluster of two machines of one core, each with a scratch of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for name in ("one", "other"):
            made.add_node(num_cpus=1, env_vars={"MOSO_CACHE": str(tmp_path / name)})
        yield made
        made.shutdown()


def results(directory) -> dict[str, bytes]:
    patterns = ("scores.parquet", "evaluation.parquet", "terms/*/*", "trajectory/*/*", "state/*/*.safetensors")
    root = directory.root
    found = {str(path.relative_to(root)): path.read_bytes() for one in patterns for path in root.glob(one)}
    assert len(found) > 10
    return found


@pytest.mark.long
def test_machines_that_share_an_address_alone_give_the_bytes_of_one(tmp_path, bucket, machines, monkeypatch):
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "driver"))
    address, alone = f"{bucket}/run", tmp_path / "alone"
    start = [sys.executable, "-m", "moso", "run", *FLAGS]
    subprocess.run([*start, "--out", address, "--executor", "ray", "--address", machines.address], check=True)
    subprocess.run([*start, "--out", str(alone), "--workers", "1"], check=True)
    directory = moso.results.RunDirectory.at(address, scratch=tmp_path / "fresh")
    directory.pull(lambda name: True)
    assert results(directory) == results(moso.results.RunDirectory(alone))
    # Both have worked, each in a copy of its own, and what was left for a while is gone.
    copies = [list((tmp_path / name / "runs").glob("*/run")) for name in ("one", "other", "driver")]
    assert [len(found) for found in copies] == [1, 1, 1]
    assert not [name for name in Store.of(address).versions() if "shards" in name or "running" in name]
    assert all(event["event"] != "lost" for event in directory.events())
    writers = {name for name in Store.of(address).versions() if name.startswith("events/")}
    assert len(writers) == 2
    # A machine has the trajectories that it scored, and the driver none.
    assert not (copies[2][0] / "trajectory").exists()
