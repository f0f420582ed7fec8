"""The benchmark of scoring: its rivals are right, its counters count, its page says what its files say."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.scoring.__main__ import main
from benchmarks.scoring.compare import WRONG, Effort, affordable, compare, largest_error
from benchmarks.scoring.engines import ENGINES, Engine, find_engines, truth_of
from benchmarks.scoring.engines.brute_force import gradient_of_one
from benchmarks.scoring.engines.engine import one_at_a_time
from benchmarks.scoring.growth import Axis, Setting, exponent, grow
from benchmarks.scoring.inputs import pictures, sentences
from benchmarks.scoring.kinks import clear_of_kinks, margins
from benchmarks.scoring.memory import peak_memory
from benchmarks.scoring.page import PAGE, write_page
from benchmarks.scoring.problem import Problem
from moso.errors import MosoError
from moso.gradients import cross_entropy

PACKAGES = {"opacus": "opacus", "backpack": "backpack", "captum": "captum"}
SAMPLES = 10


def tiny_network(*norm: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, 2), *norm, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(36, 10)).eval()


@pytest.fixture
def problem() -> Problem:
    return Problem("tiny", tiny_network(), cross_entropy, pictures(SAMPLES, 8), batch=4)


def needed(name: str) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], reason="the benchmarks' extra is not installed", exc_type=ImportError)


def run(engine: Engine, problem: Problem, count: int = SAMPLES) -> np.ndarray:
    return engine.run(deepcopy(problem.model), problem.loss, problem.batches(count))


def test_brute_force_is_the_gradient_of_the_others_mean_loss_along_ones_own(problem):
    truth, exact = truth_of(problem, SAMPLES), problem.double()
    images, labels = exact.samples
    for z, single in enumerate(one_at_a_time(exact.batches())):
        others = torch.arange(SAMPLES) != z
        rest = gradient_of_one(
            exact.model, lambda *given: cross_entropy(*given).mean(), (images[others], labels[others])
        )
        own = gradient_of_one(exact.model, exact.loss, single)
        assert truth.score[z] == pytest.approx(float(rest @ own), rel=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_gives_the_brute_force_scores(name, problem):
    needed(name)
    truth = getattr(truth_of(problem, SAMPLES), ENGINES[name].quantity)
    assert largest_error(run(ENGINES[name], problem.double()), truth) < 1e-12
    assert largest_error(run(ENGINES[name], problem), truth) < 1e-5


@pytest.mark.parametrize("name", ["batch-of-one", "vmap", "backpack", "captum"])
def test_rivals_that_know_batch_norm_are_right_about_it(name):
    needed(name)
    problem = (
        Problem("tiny", tiny_network(nn.BatchNorm2d(4)), cross_entropy, pictures(SAMPLES, 8), 4).trained(3).double()
    )
    assert largest_error(run(ENGINES[name], problem), truth_of(problem, SAMPLES).score) < 1e-9


def test_engines_leave_the_problem_as_it_was(problem):
    before = deepcopy(problem.model.state_dict())
    for name in ("moso", "batch-of-one", "vmap"):
        run(ENGINES[name], problem)
    assert all(bool((value == before[name]).all()) for name, value in problem.model.state_dict().items())
    assert all(parameter.grad is None for parameter in problem.model.parameters())


def test_the_counter_counts_a_known_allocation_to_the_byte():
    def work() -> torch.Tensor:
        first = torch.zeros(1000, dtype=torch.float64)
        del first
        return torch.zeros(300)

    kept = torch.zeros(10_000)
    result, peak = peak_memory(work)
    assert (peak, len(result), len(kept)) == (8000, 300, 10_000)


def test_the_counter_sees_gradients_of_a_whole_batch():
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Flatten(), nn.Linear(192, 200), nn.Tanh(), nn.Linear(200, 10)), 32
    problem = Problem("wide", model.eval(), cross_entropy, pictures(2 * batch, 8), batch)
    held = batch * sum(value.numel() for value in model.parameters()) * 4
    assert peak_memory(lambda: run(ENGINES["vmap"], problem, 2 * batch))[1] > held
    assert peak_memory(lambda: run(ENGINES["batch-of-one"], problem, 2 * batch))[1] < held / 4


def test_rows_say_cost_memory_and_error_or_why_not(problem):
    def refuses(*_):
        raise NotImplementedError("no such network. Sorry.")

    engines = {**find_engines(["moso", "batch-of-one"]), "other": Engine("another", refuses)}
    result = compare(problem, engines, Effort(checked=8, repeats=2))
    ours, one, other = result["rows"]
    for row in (ours, one):
        assert row["refused"] is None
        assert row["epochs"]["times"] == 2
        assert 0 < row["epochs"]["smallest"] <= row["epochs"]["median"] <= row["epochs"]["upper_quartile"]
        assert row["memory"] == row["peak_bytes"] / result["training_step_bytes"] > 0
        assert row["largest_error"] < 1e-5
        assert row["samples"] == SAMPLES
    assert ours["largest_error_float64"] < 1e-12
    assert one["largest_error_float64"] is None
    assert other["refused"] == "NotImplementedError: no such network"
    assert other["epochs"] is None
    json.dumps(result)


def test_an_engine_of_ours_that_fails_is_an_error_and_not_a_row(problem):
    def fails(*_):
        raise RuntimeError("ours to mend")

    with pytest.raises(RuntimeError, match="ours to mend"):
        compare(problem, {"moso": Engine("moso", fails, rival=False)}, Effort(checked=4, repeats=1))


def test_a_slow_engine_takes_fewer_whole_batches(problem):
    assert affordable(problem, seconds_a_sample=0.1, limit=100) == SAMPLES
    assert affordable(problem, seconds_a_sample=1.0, limit=9) == 8
    assert affordable(problem, seconds_a_sample=1.0, limit=1) == 4


def test_opacus_refuses_batch_norm():
    needed("opacus")
    model = tiny_network(nn.BatchNorm2d(4))
    problem = Problem("tiny", model, cross_entropy, pictures(SAMPLES, 8), batch=4)
    (row,) = compare(problem, find_engines(["opacus"]), Effort(checked=4, repeats=1))["rows"]
    assert row["refused"] == "no trainable layers with buffers (BatchNorm2d)"


@pytest.mark.parametrize("room", [0, 50_000])
def test_memory_of_a_time_step_is_flat_in_the_number_of_samples(room, monkeypatch):
    """But for what the first sweep may keep for the second, which is bounded."""
    monkeypatch.setattr("moso.gradients.engine.KEPT_CALLS", room)
    small = Setting(samples=16, width=4, batch=8, image=8)
    axis = Axis("samples", "samples", (16, 32, 64))
    result = grow(axis, 1, torch.device("cpu"), small, say=lambda _: None)
    peaks = [row["peak_bytes"] for row in result["rows"]]
    assert [row["value"] for row in result["rows"]] == [16, 32, 64]
    assert max(peaks) < 1.05 * min(peaks) + room
    assert result["memory_exponent"] == pytest.approx(exponent((16, 32, 64), peaks))


def test_recorded_steps_are_scored_through_the_library():
    small = Setting(samples=8, width=4, batch=8, image=8)
    axis = Axis("steps", "steps", (1, 3), through_library=True)
    result = grow(axis, 1, torch.device("cpu"), small, say=lambda _: None)
    assert [row["value"] for row in result["rows"]] == [1, 3]
    assert all(row["seconds"]["median"] > 0 for row in result["rows"])


def test_samples_near_a_kink_are_left_out():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU(), nn.Linear(6, 10)).eval()
    problem = Problem("kinked", model, cross_entropy, pictures(12, 8), batch=5)
    inputs = model[1].double()(problem.samples[0].double().flatten(1)).abs()
    model.float()
    sizes = torch.cat([part.square().mean().sqrt().expand(len(part)) for part in inputs.split(5)])
    expected = (inputs / sizes[:, None]).min(1).values
    assert torch.allclose(margins(problem), expected, rtol=1e-9)
    left = clear_of_kinks(problem, 7)
    assert left.size == 7
    assert torch.equal(left.samples[1], problem.samples[1][expected.argsort(descending=True)[:7].sort().values])


def test_networks_without_kinks_keep_their_first_samples():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.Tanh(), nn.Linear(6, 10)).eval()
    problem = clear_of_kinks(Problem("smooth", model, cross_entropy, pictures(12, 8), batch=5), 7)
    assert torch.equal(problem.samples[0], pictures(7, 8)[0])


def test_sentences_are_padded_where_the_mask_says_so():
    batch = sentences(20, 16)
    assert bool(((batch["input_ids"] == 0) == (batch["attention_mask"] == 0)).all())
    assert len(set(batch["attention_mask"].sum(1).tolist())) > 3


def test_the_page_says_what_the_files_say(tmp_path):
    arguments = ["--network", "resnet8-w16", "--samples", "4", "--batch", "2", "--checked", "4", "--repeats", "1"]
    main([*arguments, "--engine", "moso", "vmap", "--threads", "1", "--parts", "networks", "--out", str(tmp_path)])
    path = tmp_path / "scoring-resnet8-w16.json"
    result = json.loads(path.read_text())
    assert {"cores", "processor", "threads", "load_at_start", "torch"} <= set(result["machine"])
    ours, rival = result["rows"]
    ours["epochs"]["median"], ours["memory"], ours["largest_error"] = 2.345, 1.125, 3.21e-6
    rival["epochs"]["median"], rival["samples"] = 4.69, 2
    result["rows"].append({**rival, "title": "wrong one", "largest_error": 2 * WRONG, "samples": 4})
    result["rows"].append({**rival, "title": "refuser", "refused": "no such layer"})
    path.write_text(json.dumps(result))
    assert write_page(tmp_path) == tmp_path / PAGE
    page = (tmp_path / PAGE).read_text()
    assert "| moso | 2.35 | " in page
    assert " | 1.12 | 3e-06 | " in page
    assert "(on 2 of 4 samples) | 4.69 |" in page
    assert "2e-02 (wrong)" in page
    assert "| refuser | refused: no such layer |" in page
    assert "vmap(grad), takes 2.0 times as long as `moso`" in page


def test_growth_has_a_table_and_a_picture(tmp_path):
    row = {
        "seconds": {"median": 1.0, "lower_quartile": 0.9, "upper_quartile": 1.2},
        "milliseconds_a_sample_and_step": 2.0,
        "against_the_smallest": {"median": 1.03},
        "epochs": {"median": 2.5},
        "peak_bytes": 3 * 2**20,
    }
    rows = [{**row, "value": 256}, {**row, "value": 512}]
    axis = {"title": "samples (N)", "setting": {"batch": 4}, "rows": rows, "exponent": 1.01, "memory_exponent": 0.0}
    machine = {"processor": "a", "threads": 1, "cores": 2, "gigabytes": 3, "torch": "b", "load_at_start": [0.1]}
    growth = {"network": "resnet8", "machine": machine, "axes": {"samples": axis}}
    (tmp_path / "scoring-growth.json").write_text(json.dumps(growth))
    from benchmarks.scoring.plots import write_growth_figure

    write_growth_figure(tmp_path / "growth-samples.png", axis)
    page = write_page(tmp_path).read_text()
    assert "| 512 | 1.00 | 2.00 | 1.03 | 2.50 | 3.0 |" in page
    assert "the power 1.01" in page
    assert "](growth-samples.png)" in page


def test_names_that_are_not_known_are_refused_with_the_nearest():
    with pytest.raises(MosoError, match="nearest: backpack"):
        find_engines(["bakpack"])
    with pytest.raises(MosoError, match="resnet18"):
        main(["--network", "resnet81"])
