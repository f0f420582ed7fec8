"""The benchmark of the zoo: its rivals are right, and its page says what its file says."""

import json
from contextlib import contextmanager

import pytest
import torch

import moso.gradients
from benchmarks.scoring.compare import largest_error
from benchmarks.zoo.__main__ import main
from benchmarks.zoo.checks import SWITCH
from benchmarks.zoo.compare import LATER, MOSO, RIVALS, announcements, exact_problem, own_state
from benchmarks.zoo.networks import ZOO, find_networks
from benchmarks.zoo.page import PAGE, RESULTS, write_page
from benchmarks.zoo.problem import built, make
from benchmarks.zoo.truth import true_scores
from moso.errors import MosoError
from moso.gradients.fallback import warn_once

FEW = ["--samples", "8", "--checked", "6", "--batch", "4", "--turns", "2", "--threads", "1"]


@pytest.mark.parametrize("name", ["bare-matrices", "two-tasks", "fourier", "dora", "unet"])
@pytest.mark.parametrize("rival", RIVALS)
def test_rivals_give_the_true_scores(name, rival):
    problem, states = exact_problem(ZOO[name], 6)
    assert largest_error(RIVALS[rival](problem, 4), true_scores(problem, states, total_steps=6)) < 1e-12


@pytest.mark.parametrize("name", ["packed-lstm", "graph", "deep-sets", "experts-top2"])
def test_the_loop_takes_what_cannot_be_sliced(name):
    problem, states = exact_problem(ZOO[name], 6)
    assert largest_error(RIVALS["loop"](problem, 4), true_scores(problem, states, total_steps=6)) < 1e-12


def test_seeds_differ_and_repeat():
    network = ZOO["bare-matrices"]
    first, again, other = (built(network, torch.float32, seed).first for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_state_of_a_problem_is_its_networks_own():
    problem = make(ZOO["bare-matrices"], samples=3)
    assert torch.equal(own_state(problem)["first"], problem.model.first)


def test_announcements_are_kept_for_every_network_anew():
    for _ in range(2):
        with announcements() as kept:
            warn_once("said before")
        assert kept == ["said before"]


def test_rows_and_page_say_what_was_measured(tmp_path):
    main(["--only", "bare-matrices", "graph", *FEW, "--out", str(tmp_path)])
    found = json.loads((tmp_path / RESULTS).read_text())
    row = found["rows"]["bare-matrices"]
    assert set(row["seconds"]) == {MOSO, LATER, "training", *RIVALS}
    assert row["seconds"][MOSO]["times"] == 2
    assert row["errors"][MOSO] <= 1e-5
    assert row["error_in_float64"] <= 1e-9
    assert set(row["against"]) == set(RIVALS)
    assert "GraphBatch" in found["rows"]["graph"]["refusals"]["vmap"]
    row["seconds"][LATER]["median"], row["against"] = 1.234, {"vmap": 0.876, "loop": 3.21}
    row["against_first"] = {"vmap": 0.5, "loop": 2.0}
    row["epochs"], row["slow"] = 4.56, ["Net: 3 parameters have no closed form (because)"]
    refused = {**row, "refusals": {MOSO: "MosoError: no such layer"}, "errors": {}, "against": {}, "against_first": {}}
    fails = {**refused, "refusals": {MOSO: "IndexError: out of range"}}
    wrong = {**row, "errors": {**row["errors"], MOSO: 0.5, "loop": 0.5}}
    found["rows"] = {"one": row, "two": refused, "three": fails, "four": wrong}
    (tmp_path / RESULTS).write_text(json.dumps(found))
    assert write_page(tmp_path) == tmp_path / PAGE
    page = (tmp_path / PAGE).read_text()
    assert "| 1.23 | **0.88** | 0.50 | 3.21 | 4.6 |" in page
    assert "| 3 parameters have no closed form |" in page
    assert "refused: MosoError: no such layer |" in page
    assert "**fails**: IndexError: out of range |" in page
    assert "3.21 (wrong) | 4.6 | 5e-01 **wrong**" in page
    assert "moso refuses or fails on 2: two, three. It errs by more than 1e-05 on 1: four." in page
    assert "Of 2 on which `vmap(grad)` runs, moso is slower on 2: one (0.88), four (0.88); at the first" in page


def test_networks_that_are_not_asked_for_stay(tmp_path):
    main(["--only", "bare-matrices", *FEW, "--out", str(tmp_path)])
    main(["--only", "tied-autoencoder", *FEW, "--out", str(tmp_path)])
    assert set(json.loads((tmp_path / RESULTS).read_text())["rows"]) == {"bare-matrices", "tied-autoencoder"}


def test_the_cost_of_the_identities_is_measured_where_they_can_be_switched_off(tmp_path, monkeypatch):
    switched = []

    @contextmanager
    def off():
        switched.append(True)
        yield

    arguments = ["--only", "bare-matrices", "--checks", *FEW, "--out", str(tmp_path)]
    monkeypatch.delattr(moso.gradients, SWITCH, raising=False)
    with pytest.raises(MosoError, match="nothing to switch off"):
        main(arguments)
    main(["--only", "bare-matrices", *FEW, "--out", str(tmp_path)])
    monkeypatch.setattr(moso.gradients, SWITCH, off, raising=False)
    main(arguments)
    assert len(switched) == 3  # two turns, and one before them to warm up
    assert "| bare-matrices | 8 | 4 |" in (tmp_path / PAGE).read_text()


def test_names_that_are_not_known_are_refused_with_the_nearest():
    with pytest.raises(MosoError, match="nearest: swin"):
        find_networks(["swn"])
