"""Ray does what this machine alone does, to the byte, and survives what clusters do to their workers."""

import random
import subprocess
import time
import warnings
from dataclasses import replace

import pytest
from clusters import alive, at_work, begun, command, finished, kill, results, wait_until

from moso.errors import MosoError
from moso.executors import RayTasks
from moso.results import RunDirectory
from moso.run.network_pieces import TrainSurrogate

pytest.importorskip("ray")
LONG = ("--epochs", "6", "--retrain-epochs", "2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run(command(out, *LONG, "--workers", "1", "--quiet"), check=True)
    return results(out)


@pytest.fixture(scope="module")
def cluster():
    """Two machines of one core, each of them processes of this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.nodes = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
        yield made
        made.shutdown()


def on(cluster) -> list[str]:
    return ["--executor", "ray", "--address", cluster.address, "--quiet"]


def test_without_an_address_a_ray_of_this_machine_gives_the_same_bytes(tmp_path, undisturbed):
    finished(begun(tmp_path / "run", *LONG, "--executor", "ray", "--workers", "2"))
    assert results(tmp_path / "run") == undisturbed
    workers = {event["piece"] for event in RunDirectory(tmp_path / "run").events() if event["event"] == "measured"}
    assert any("score-sums" in name for name in workers)


def test_workers_and_machines_that_die_are_made_up_for(tmp_path, undisturbed, cluster):
    out = tmp_path / "run"
    process = begun(out, *LONG, *on(cluster))
    for stage in ("train", "score"):
        victims = wait_until(lambda stage=stage: at_work(out, stage), process)
        kill(victims[0])
        wait_until(lambda before=victims[0]: not alive(before), process)
    wait_until(lambda: at_work(out, "evaluate"), process)
    cluster.remove_node(cluster.nodes.pop(), allow_graceful=False)
    cluster.nodes.append(cluster.add_node(num_cpus=1))
    finished(process)
    assert sum(event["event"] == "lost" for event in RunDirectory(out).events()) >= 2
    assert results(out) == undisturbed


def test_a_driver_that_is_killed_is_followed_by_another(tmp_path, undisturbed, cluster):
    out = tmp_path / "run"
    process = begun(out, *LONG, *on(cluster))
    wait_until(lambda: at_work(out, "train"), process)
    kill(process.pid)
    process.communicate()
    finished(begun(out, *LONG, *on(cluster)))
    assert results(out) == undisturbed


@pytest.mark.long
def test_kills_at_random_moments_change_no_byte(tmp_path, undisturbed, cluster):
    draw = random.Random(3)
    for trial in range(10):
        out = tmp_path / str(trial)
        for _ in range(9):
            process = begun(out, *LONG, *on(cluster))
            before = len(RunDirectory(out).events())
            wait_until(lambda out=out, before=before: len(RunDirectory(out).events()) > before, process)
            time.sleep(draw.random() * 3)
            victims = at_work(out, "") if draw.random() < 0.5 else []
            for victim in victims or [process.pid]:
                kill(victim)
            if victims:
                time.sleep(1)
                if process.poll() is None:
                    kill(process.pid)
            process.communicate()
        finished(begun(out, *LONG, *on(cluster)))
        assert results(out) == undisturbed


def test_a_piece_that_fails_for_its_own_reason_ends_the_run_with_its_sentence(tmp_path):
    flags = ["--learning-rate", "1e30", "--epochs", "3", "--executor", "ray", "--workers", "1", "--quiet"]
    process = begun(tmp_path / "run", *flags)
    _, said = process.communicate(timeout=900)
    assert process.returncode == 2
    [sentence] = [line for line in said.splitlines() if line.startswith("moso: error:")]
    assert "the loss became" in sentence
    assert "Traceback" not in said
    assert not [event for event in RunDirectory(tmp_path / "run").events() if event["event"] == "lost"]


def test_what_only_this_process_has_is_refused(small_run):
    job = small_run()
    own = replace(job.task, own_loss=lambda model, batch: model(batch[0])[:, 0])
    job.data = replace(job.data, train=replace(job.data.train, task=own))
    with RayTasks() as tasks, pytest.raises(MosoError, match="cannot be sent to a cluster"):
        tasks.run(job, [TrainSurrogate(0, 0)])


def test_an_address_where_there_is_no_cluster_is_one_sentence(tmp_path):
    flags = ["--epochs", "1", "--executor", "ray", "--address", "127.0.0.1:1", "--quiet"]
    done = subprocess.run(command(tmp_path / "run", *flags), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "moso: error: there is no Ray cluster at --address 127.0.0.1:1" in done.stderr


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("moso.executors.ray.find_spec", lambda name: None)
    with pytest.raises(MosoError, match=r'pip install "moso-prune\[ray\]"'), RayTasks():
        pass


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--executor", "slurm"), "--executor slurm is not known; use local, ray or torchrun"),
        (("--address", "auto"), "--address is for --executor ray"),
        (("--gpus-per-partition", "1"), "--gpus-per-partition is for --executor ray"),
    ],
)
def test_flags_that_no_executor_knows_are_refused(tmp_path, flags, said):
    from typer.testing import CliRunner

    from moso.cli.main import app

    result = CliRunner().invoke(app, ["run", "--out", str(tmp_path / "run"), *flags])
    assert said in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_not_worth_a_cluster(small_run, monkeypatch):
    """Nothing is connected to before the first piece; what has none needs no cluster."""
    with RayTasks("nowhere:1") as tasks:
        assert tasks._ray is None
