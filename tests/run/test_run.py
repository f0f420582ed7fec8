"""A run as its reader finds it, and the invariants that hold whatever does the work."""

import json
from dataclasses import fields, replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from moso.analysis.costs import costs
from moso.configuration import Configuration
from moso.data.views import load
from moso.evidence import read_state, step_terms
from moso.executors import InProcess, LocalProcesses
from moso.results.retrainings import Retraining
from moso.run.job import Runtime
from moso.run.stages import begin, evaluate_stage, evaluation_pieces, score_stage, select_stage, train_stage
from moso.run.training import record_initial_state
from refusals import refusal
from whole_runs import carried_out, scored


def test_the_contract_of_the_run_directory(small_run):
    run = carried_out(small_run(label_noise=0.2))
    root = run.directory.root
    table = pq.read_table(root / "scores.parquet")
    assert table.column_names == ["id", "label", "partition", "moso", "moso-rank", "moso-standardised", "random"]
    assert len(table) == 1438
    selections = pq.read_table(root / "selections.parquet")
    assert selections.column_names == ["method", "selector", "parameters", "ratio", "seed", "id", "kept"]
    evaluation = pq.read_table(root / "evaluation.parquet")
    assert set(evaluation.column_names) >= {"method", "selector", "ratio", "seed", "network", "recipe", "accuracy"}
    assert len(evaluation) == 6  # full data, three MoSo scores, random twice
    for part in range(2):
        steps = [point.step for point in run.trajectory(part)]
        assert [path.name for path in sorted((root / f"trajectory/part-{part:03d}").iterdir())] == [
            f"step-{step:08d}.safetensors" for step in steps
        ]
        with np.load(root / f"terms/part-{part:03d}/step-{steps[0]:08d}.npz", allow_pickle=False) as terms:
            assert terms["dot"].shape == terms["squared_norm"].shape == (719,)
    manifest = json.loads((root / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert set(manifest["stages"]) == {"train", "score", "select", "evaluate"}
    assert len(manifest["dataset"]["labels_drawn_at_random"]) == round(0.2 * 1438)
    assert (root / "run.toml").read_text().partition("\n")[2].startswith("format = 1")
    assert all(json.loads(line)["time"] for line in (root / "events.jsonl").read_text().splitlines())


def test_the_loop_of_the_docs_gives_the_scores_of_the_run(small_run):
    """Proposition 1.1 from what the run left, by the library's own reading interface."""
    run = carried_out(small_run())
    net, data = run.build_model(), run.dataset("train")
    scores = np.full(len(data), np.nan)
    for part, indices in enumerate(run.partitions()):
        trajectory, total = run.trajectory(part), np.zeros(len(indices))
        N, T = len(indices), trajectory.total_steps
        for point in trajectory:
            point.load_into(net)
            terms = step_terms(net, point, data, indices)
            total += point.learning_rate * (N * terms.dot[0] - terms.squared_norm[0]) / (N - 1)
        scores[indices] = total * T / N / len(trajectory)
    np.testing.assert_allclose(run.scores()["moso"], scores, rtol=1e-9)
    inputs, label = data[7]
    assert inputs.shape == (1, 8, 8)
    assert label == run.table()["label"][7].as_py()


def brute_force(run, part, net, data, indices, parameters):
    """Proposition 1.1 for a partition, by plain autograd one sample at a time, with the gradients of `parameters`."""
    trajectory, total = run.trajectory(part), np.zeros(len(indices))
    N, T = len(indices), trajectory.total_steps
    for point in trajectory:
        point.load_into(net)
        rows = []
        for index in indices:
            inputs, label = data[int(index)]
            loss = F.cross_entropy(net(inputs.double()[None]), torch.tensor([label]))
            rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)]))
        gradients = torch.stack(rows)
        others = (gradients.sum(0) - gradients) / (N - 1)
        total += point.learning_rate * (others * gradients).sum(1).numpy()
    return total * T / N / len(trajectory)


def test_scores_of_a_real_run_equal_brute_force_in_float64(small_run):
    """Batch-norm, momentum, augmentation, label noise: plain autograd from what the run left, one sample at a time."""
    run = carried_out(small_run(model="convnet-w4", partitions=5, label_noise=0.2, augmentation="crop"))
    net, data, indices = run.build_model().double().eval(), run.dataset("train"), run.partitions()[2]
    expected = brute_force(run, 2, net, data, indices, list(net.parameters()))
    assert np.abs(run.scores()["moso"][indices] - expected).max() <= 1e-4 * np.abs(expected).max()


def test_workers_do_not_change_a_bit(small_run):
    alone = carried_out(small_run("alone"))
    with LocalProcesses(2) as executor:
        beside = carried_out(small_run("beside"), executor)
    for name in ("scores.parquet", "selections.parquet", "evaluation.parquet"):
        assert (alone.directory.root / name).read_bytes() == (beside.directory.root / name).read_bytes()


def test_images_beyond_memory_are_decoded_by_loader_workers_to_the_same_bits(small_run, tmp_path):
    draw = np.random.default_rng(0)
    for number in range(60):
        folder = tmp_path / "pictures" / f"class-{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (12, 12, 3)).astype(np.uint8)).save(folder / f"{number}.png")
    settings = {"dataset": f"folder:{tmp_path / 'pictures'}", "batch_size": 16, "memory_limit": 0}
    alone = small_run("alone", **settings)
    assert alone.data.train.evaluation_view().streamed
    beside = small_run("beside", **settings)
    beside.runtime = Runtime(loader_workers=2)
    with LocalProcesses(2) as executor:
        runs = carried_out(alone), carried_out(beside, executor)
    for name in ("scores.parquet", "selections.parquet", "evaluation.parquet"):
        assert (runs[0].directory.root / name).read_bytes() == (runs[1].directory.root / name).read_bytes()


def test_every_surrogate_starts_from_one_recorded_state_and_follows_one_schedule(small_run):
    """The first update of every surrogate, made by hand from the recorded w_0, ends where its own first step did."""
    job = small_run(partitions=3, batch_size=100, time_steps=10)
    run = carried_out(job)
    initial, _ = read_state(run.directory.root / "state/initial.safetensors")
    recipe, rates = job.configuration.surrogate, set()
    for part, positions in enumerate(run.partitions()):
        data, model = job.training_data(recipe, positions, seed=0), run.build_model()
        model.load_state_dict(initial)
        optimizer = torch.optim.SGD(
            model.parameters(), recipe.learning_rate, recipe.momentum, 0, recipe.weight_decay, recipe.nesterov
        )
        (inputs, labels), *_ = load(data.view, data.epoch_batches(recipe.batch_size, 0, seed=0)[:1], 0)
        F.cross_entropy(model(inputs), labels).backward()
        first = run.trajectory(part)[0]
        (optimizer.param_groups[0]["lr"],) = first.learning_rates
        optimizer.step()
        assert first.step == 1
        assert len(run.trajectory(part)) == run.trajectory(part).total_steps
        for name, value in first.state().items():
            torch.testing.assert_close(value, model.state_dict()[name], msg=f"{name} of partition {part}")
        rates.add(tuple(point.learning_rate for point in run.trajectory(part)))
    assert len(rates) == 1
    assert {len(part) for part in run.partitions()} <= {479, 480}


def test_one_partition_is_no_partition(small_run):
    run = carried_out(small_run(partitions=1))
    assert [part.tolist() for part in run.partitions()] == [list(range(1438))]


def test_a_seed_is_the_whole_pipeline(small_run):
    run = carried_out(small_run(seeds=2, seed=5))
    first, second = run.scores(), run.scores(seed=6)
    assert not np.array_equal(first["moso"], second["moso"])
    assert not np.array_equal(run.partitions()[0], run.partitions(seed=6)[0])
    assert {row["seed"] for row in run.evaluation()} == {5, 6}
    # What a single seed gives does not depend on how many there are.
    alone = carried_out(small_run("alone", seeds=1, seed=6))
    np.testing.assert_array_equal(alone.scores()["moso"], second["moso"])


def test_the_last_layer_alone_is_an_option(small_run):
    """Proposition 1.1 with the gradients of the last linear layer alone, by plain autograd in float64."""
    run = scored(small_run(parameters="head", partitions=5))
    net, data, indices = run.build_model().double().eval(), run.dataset("train"), run.partitions()[1]
    *_, last = (module for module in net.modules() if isinstance(module, torch.nn.Linear))
    expected = brute_force(run, 1, net, data, indices, list(last.parameters()))
    assert np.abs(run.scores()["moso"][indices] - expected).max() <= 1e-4 * np.abs(expected).max()


def test_costs_and_when_they_are_paid(small_run):
    """Of events whose seconds are made up: under one seed two surrogates of 7 s and two partitions scored in 4 s each,
    a retraining takes 10 s on all data and 6 s on half of it. Pruning costs 22 s and saves 4 s every time."""
    job = small_run(seeds=2, methods=["moso"])
    run = carried_out(job)
    path = job.directory.root / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    full = {
        Retraining(**{one.name: row[one.name] for one in fields(Retraining)}).digest()
        for row in run.evaluation()
        if not row["ratio"]
    }
    seconds = {"train": 7.0, "score": 4.0}
    computed = [event for event in events if event["event"] == "computed"]
    assert {event["stage"] for event in computed} == {"train", "score", "evaluate"}
    done = {(event["stage"], event["piece"]) for event in computed}
    path.unlink()
    for stage, piece in sorted(done):
        whole = seconds.get(stage, 10.0 if piece in full else 6.0)
        for part in (0.25, 0.75):  # killed once on the way
            job.directory.event("computed", stage=stage, piece=piece, seconds=part * whole)
    spent = costs(job.directory, job.configuration)
    assert (spent.surrogates, spent.scoring, spent.retraining) == (14.0, 8.0, {0.0: 10.0, 0.5: 6.0})
    assert spent.all_retrainings == 2 * (10.0 + 3 * 6.0)
    assert spent.paid_after(0.5) == 6
    assert spent.paid_after(0.8) is None
    assert replace(spent, retraining={0.0: 10.0, 0.5: 10.0}).paid_after(0.5) is None


def test_a_configuration_survives_its_file(tmp_path):
    configuration = Configuration.resolve(
        {"recipe": "paper-cifar", "ratios": [0.7], "retrain_epochs": 3, "labels": "a.npz:b"}
    )
    (tmp_path / "run.toml").write_text(configuration.to_toml())
    assert Configuration.read(tmp_path / "run.toml") == configuration
    assert configuration.retraining.epochs == 3
    assert configuration.surrogate.epochs == 50


def test_kept_must_be_clear(small_run):
    run = carried_out(small_run())
    with refusal("selection-ambiguous"):
        run.kept()
    with refusal("selection-ambiguous"):
        run.kept("moso", ratio=0.3)
    assert len(run.kept("moso")) == 719


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_run_is_led_from_a_machine_without_the_device_of_its_workers(small_run):
    job = small_run(device="cuda")
    job.check()
    record_initial_state(job, job.configuration.seed)
    with refusal("device-unavailable", "cuda"):
        job.model(job.configuration.seed)


def test_what_a_killed_writer_left_is_cleared_away_with_the_piece(small_run):
    """A worker that dies while it saves leaves a temporary name where the next one saves."""
    job = small_run(methods=["moso"])
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
        score_stage(job, InProcess())
        select_stage(job)
        for piece in evaluation_pieces(job):
            left = job.directory.root / "state" / f"retrain-{piece.name}" / ".position.safetensors.1.moso-tmp"
            left.parent.mkdir(parents=True)
            left.write_bytes(b"half")
        evaluate_stage(job, InProcess())
    assert not list((job.directory.root / "state").glob("retrain-*"))
