"""The engine: finished cells are in the table at once and never run again, whatever happens in between."""

import gc
import json
import re
import subprocess
import weakref
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from small_experiments import GRID, SETTINGS, SMALL_ARM, small

from moso import code_trust
from moso.configuration import Configuration
from moso.data import open_dataset
from moso.experiments import pipeline, provenance
from moso.experiments.cells import cells_of
from moso.experiments.declaration import Arm, Contender
from moso.experiments.declared.presets import MOSO
from moso.experiments.execution import Asked, reproduce
from moso.experiments.places import PLACES
from moso.experiments.provenance import commit
from moso.experiments.publish import publish_scores
from moso.experiments.results import Results, read_rows
from moso.run import Job
from refusals import refusal
from whole_runs import carried_out


def asked(tmp_path, **changes) -> Asked:
    return Asked(**{"results": tmp_path / "results", "out": tmp_path / "runs", "data": tmp_path, **changes})


def values(path) -> dict[str, float]:
    return {key: row["value"] for key, row in read_rows(path).items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small experiment, run to the end."""
    root = tmp_path_factory.mktemp("finished")
    told = []
    outcome = reproduce([small()], asked(root), told=lambda row, done, cells: told.append((row["key"], done, cells)))
    assert (outcome.cells, outcome.finished, outcome.new, outcome.out_of_time) == (6, 6, 6, False)
    assert [done for _, done, _ in told] == [1, 2, 3, 4, 5, 6]
    return root


def test_cells_are_those_of_a_plain_run(finished, tmp_path):
    """The oracle is `moso run` of the same configuration, seed by seed."""
    table = read_rows(finished / "results/figure-1a.jsonl")
    for seed in (0, 1):
        given = {"dataset": "digits", "methods": ["moso"], "ratios": [0.5], "seed": seed, "seeds": 1, **SETTINGS}
        job = Job.open(tmp_path / str(seed), Configuration.resolve(given))
        carried_out(job)
        plain = {
            (row["method"], row["selector"], row["ratio"]): row
            for path in (job.directory.root / "evaluation").glob("*.json")
            for row in [json.loads(path.read_text())]
        }
        own = [row for row in table.values() if row["seed"] == seed]
        assert len(own) == 3
        for row in own:
            expected = plain[row["method"], row["selector"], row["ratio"]]
            assert (row["value"], row["class_correct"]) == (expected["value"], expected["class_correct"])


def test_a_line_says_where_it_comes_from(finished):
    for row in read_rows(finished / "results/figure-1a.jsonl").values():
        assert {"recipe", "network", "epochs", "commit", "finished", "threads", "samples", "seconds"} <= row.keys()
        assert row["data"] == "digits"
        assert row["seconds"]["retraining"] >= 0
        if row["method"] == "moso":
            assert row["seconds"]["surrogates"] > 0
            assert row["seconds"]["method"] > 0


def test_a_fresh_checkout_goes_on_from_the_table_alone(finished, tmp_path, monkeypatch):
    """Half a table and no run directory: only what is missing is run, with the same values."""
    lines = (finished / "results/figure-1a.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/figure-1a.jsonl").write_text("".join(lines[:4]))
    outcome = reproduce([small()], asked(tmp_path))
    assert (outcome.new, outcome.finished) == (2, 6)
    assert values(tmp_path / "results/figure-1a.jsonl") == values(finished / "results/figure-1a.jsonl")
    # With the whole table nothing is opened at all.
    monkeypatch.setattr(pipeline, "open_job", lambda *_: pytest.fail("a finished cell was run again"))
    assert reproduce([small()], asked(tmp_path)).new == 0


def test_other_experiments_take_finished_cells_over(finished, tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/figure-1a.jsonl").write_bytes((finished / "results/figure-1a.jsonl").read_bytes())
    monkeypatch.setattr(pipeline, "open_job", lambda *_: pytest.fail("a finished cell was run again"))
    outcome = reproduce([small(name="class-wise")], asked(tmp_path))
    assert (outcome.new, outcome.finished) == (0, 6)
    assert values(tmp_path / "results/class-wise.jsonl") == values(finished / "results/figure-1a.jsonl")


def test_networks_that_a_declaration_names_are_not_taken_for_a_stranger_s(tmp_path):
    """The run's file names them again; who asks for the experiment has asked for its networks."""
    network = "moso.experiments.networks:resnet8"
    arm = replace(SMALL_ARM, settings={**SMALL_ARM.settings, "model": network}, contenders=(Contender("moso-rank"),))
    first = reproduce([small(arm)], asked(tmp_path, only=("seed=0",)))
    code_trust._allowed.discard(network)  # as in a process that begins anew
    (tmp_path / "results/figure-1a.jsonl").unlink()
    assert reproduce([small(arm)], asked(tmp_path, only=("seed=0",))).finished == first.finished


def test_lines_of_other_programs_in_the_folder_of_tables_are_left_alone(finished, tmp_path):
    """Benchmarks keep their lines beside the tables of experiments, without keys of cells."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results/figure-1a.jsonl").write_bytes((finished / "results/figure-1a.jsonl").read_bytes())
    (tmp_path / "results/noise-stages.jsonl").write_text('{"noise": "symmetric 20%", "auroc": [0.7]}\n')
    assert (
        Results.open(tmp_path / "results", "class-wise").take_over(read_rows(finished / "results/figure-1a.jsonl")) == 6
    )


def test_experiments_together_share_pipelines_and_cells(finished, tmp_path, monkeypatch):
    """Seed by seed, a pipeline's surrogates and a shared cell are made once, and every table has its own lines."""
    opened, order = [], []
    real = pipeline.open_job
    monkeypatch.setattr(pipeline, "open_job", lambda *given: opened.append(given[1].seed) or real(*given))
    other = replace(SMALL_ARM, contenders=(Contender("moso"), Contender("moso-rank")), all_data=False)
    both = small(), small(other, name="class-wise"), GRID
    outcome = reproduce(both, asked(tmp_path), told=lambda row, *counts: order.append((row["seed"], *counts)))
    assert opened == [0, 1]
    assert (outcome.cells, outcome.finished, outcome.new) == (10, 10, 10)  # 6 of the one, 2 more of the other, 2 exact
    assert [done for _, done, _ in order] == list(range(1, 11))
    assert [seed for seed, *_ in order[2:]] == [0] * 4 + [1] * 4
    assert values(tmp_path / "results/figure-1a.jsonl") == values(finished / "results/figure-1a.jsonl")
    methods = [row["method"] for row in read_rows(tmp_path / "results/class-wise.jsonl").values()]
    assert sorted(methods) == ["moso", "moso", "moso-rank", "moso-rank"]
    assert len(read_rows(tmp_path / "results/approximation.jsonl")) == 2


def test_some_cells_of_experiments_together(tmp_path):
    """What `--only` leaves of any of them; one of which nothing is left gets no table."""
    other = replace(SMALL_ARM, contenders=(Contender("moso-rank"),), all_data=False)
    both = small(), small(other, name="class-wise"), GRID
    outcome = reproduce(both, asked(tmp_path, only=("random", "seed=1")))
    assert (outcome.cells, outcome.new) == (1, 1)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["figure-1a.jsonl"]
    with refusal("setting-invalid", "--only"):
        reproduce(both, asked(tmp_path, only=("k-center",)))


def test_a_line_says_which_code_made_it(tmp_path, monkeypatch):
    """Tables that grow in the same checkout are no change of the code."""
    package = tmp_path / "src/moso/experiments"
    package.mkdir(parents=True)
    (package / "provenance.py").write_text("")
    for words in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=b", "commit", "--message", "c"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))

    def said() -> str:
        commit.cache_clear()
        return commit()

    clean = said()
    assert re.fullmatch("[0-9a-f]{7,}", clean)
    (tmp_path / "table.jsonl").write_text("{}")
    assert said() == clean
    (package / "new.py").write_text("")
    assert said() == f"{clean}+"
    monkeypatch.undo()
    commit.cache_clear()


def test_killed_in_the_middle_it_goes_on_from_the_run_directory(finished, tmp_path, monkeypatch):
    """Killed after a cell was finished and before it was written down: it is not retrained."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "row_of", killed)
    with pytest.raises(KeyboardInterrupt):
        reproduce([small()], asked(tmp_path))
    assert not (tmp_path / "results/figure-1a.jsonl").exists()
    done = list((tmp_path / "runs").rglob("evaluation/*.json"))
    assert len(done) == 1
    stamp = done[0].stat().st_mtime_ns
    monkeypatch.undo()
    assert reproduce([small()], asked(tmp_path)).finished == 6
    assert done[0].stat().st_mtime_ns == stamp
    assert values(tmp_path / "results/figure-1a.jsonl") == values(finished / "results/figure-1a.jsonl")


def test_hours_stop_between_cells(tmp_path, monkeypatch):
    outcome = reproduce([small()], asked(tmp_path, hours=0.0))
    assert (outcome.new, outcome.out_of_time) == (0, True)
    # The clock jumps when the second cell is finished.
    jumped = 0.0
    monkeypatch.setattr(pipeline.time, "monotonic", lambda clock=pipeline.time.monotonic: clock() + jumped)

    def told(row, done, cells):
        nonlocal jumped
        jumped = 7200.0 if done == 2 else jumped

    outcome = reproduce([small()], asked(tmp_path, hours=1.0), told=told)
    assert (outcome.new, outcome.finished, outcome.out_of_time) == (2, 2, True)
    assert len(read_rows(tmp_path / "results/figure-1a.jsonl")) == 2


def test_only_and_seeds_choose_cells(tmp_path):
    outcome = reproduce([small()], asked(tmp_path, only=("random",), seeds=1))
    assert (outcome.cells, outcome.finished) == (1, 1)
    # Random selection needs no surrogate.
    assert not list((tmp_path / "runs").rglob("trajectory"))


def test_several_jobs_give_the_same_values(finished, tmp_path):
    reproduce([small()], asked(tmp_path, jobs=2, seeds=1, only=("random", "full")))
    expected = values(finished / "results/figure-1a.jsonl")
    found = values(tmp_path / "results/figure-1a.jsonl")
    assert found == {key: expected[key] for key in found}
    assert len(found) == 2


def test_references_and_scores_of_experiments_are_run_too(tmp_path):
    """Methods with references, derived scores, another retrained network, a baseline."""
    methods = (
        "el2n",
        "moso-last",
        "grand-last",
        "moso-2",
        "moso-standardised-2",
        "moso-rank-2",
        "moso-robust",
        "moso-robust-rank",
    )
    contenders = tuple(Contender(name) for name in methods)
    arm = Arm("digits", {**SETTINGS, "initialisations": 1}, contenders, (0.8,), 1, network="linear", baselines=("rs2",))
    outcome = reproduce([small(arm)], asked(tmp_path))
    rows = read_rows(tmp_path / "results/figure-1a.jsonl").values()
    assert outcome.finished == len(rows) == 10
    assert {row["network"] for row in rows} == {"linear"}
    (run,) = (tmp_path / "runs").iterdir()
    scores = {path.stem: path for path in (run / "scores").glob("*.parquet")}
    assert set(methods) <= set(scores)


def test_a_pipeline_that_is_done_is_let_go(tmp_path, monkeypatch):
    """An experiment of forty pipelines holds the data of one, not of forty."""
    opened = []

    def watched(*arguments, open_job=pipeline.open_job):
        job = open_job(*arguments)
        opened.append(weakref.ref(job))
        return job

    monkeypatch.setattr(pipeline, "open_job", watched)
    reproduce([small(replace(SMALL_ARM, seeds=3, all_data=False))], asked(tmp_path))
    gc.collect()
    assert len(opened) == 3
    assert [job() for job in opened] == [None] * 3


def test_wrong_labels_found_and_kept_are_told_where_they_are_known(tmp_path):
    """The oracles are scikit-learn's AUROC and the data set itself."""
    noisy = {**SETTINGS, "label_noise": 0.3, "validation_share": 0.1, "risk": "validation"}
    arm = Arm("digits", noisy, (Contender("moso"), Contender("moso-adjoint", "top"), Contender("random")), (0.5,), 1)
    reproduce([small(arm)], asked(tmp_path))
    rows = {row["method"]: row for row in read_rows(tmp_path / "results/figure-1a.jsonl").values()}
    (folder,) = (tmp_path / "runs").iterdir()
    data = open_dataset("digits", label_noise=0.3, seed=0, validation_share=0.1)
    wrong = data.clean_labels != data.train.labels
    for name in ("moso", "moso-adjoint"):
        scores = pq.read_table(folder / f"scores/{name}.parquet")["score"].to_numpy()
        assert rows[name]["auroc"] == pytest.approx(roc_auc_score(wrong, -scores), abs=1e-5)
        assert rows[name]["risk"] == "validation"
        kept = next(
            pq.read_table(path)["kept"].to_numpy(zero_copy_only=False)
            for path in (folder / "selections").glob("*.parquet")
            if json.loads(pq.read_schema(path).metadata[b"moso"])["method"] == name
        )
        assert rows[name]["wrong_kept"] == pytest.approx(wrong[kept].mean(), abs=1e-5)
    assert rows["random"]["wrong_kept"] == pytest.approx(wrong.mean(), abs=0.05)
    assert not {"auroc", "wrong_kept"} & rows["full"].keys()


def test_exact_cells_go_into_a_table_as_well(tmp_path):
    assert reproduce([GRID], asked(tmp_path)).finished == 2
    rows = list(read_rows(tmp_path / "results/approximation.jsonl").values())
    # A single step from the start ranks as the truth does.
    assert rows[0]["spearman"]["moso"] > 0.9
    assert all(row["bound"] >= row["largest_error"] for row in rows)
    assert reproduce([GRID], asked(tmp_path)).new == 0
    with refusal("setting-invalid", "--only"):
        reproduce([GRID], asked(tmp_path, only=("moso",)))


def test_a_line_cut_short_is_named(tmp_path):
    path = tmp_path / "figure-1a.jsonl"
    path.write_text('{"key":"a","value":1}\n{"key":"b","val')
    with refusal("file-unreadable", 2):
        Results.open(tmp_path, "figure-1a")
    # A last line that is whole but not ended is not run into.
    path.write_text('{"key":"a","value":1}')
    Results.open(tmp_path, "figure-1a").add({"key": "b"})
    assert set(read_rows(path)) == {"a", "b"}


@pytest.mark.parametrize("changes", [{"jobs": 0}, {"seeds": 0}, {"hours": -1.0}, {"hours": float("nan")}])
def test_what_makes_no_sense_is_refused(tmp_path, changes):
    with refusal("setting-invalid"):
        reproduce([small()], asked(tmp_path, **changes))


def test_the_order_is_what_costs_least_first():
    cells = cells_of([Arm("digits", SETTINGS, SMALL_ARM.contenders, (0.2, 0.8), 2)])
    assert [cell.retraining.seed for cell in cells] == [0] * 5 + [1] * 5
    assert [cell.retraining.ratio for cell in cells[:5]] == [0.8, 0.8, 0.2, 0.2, 0.0]


def test_scores_are_published_with_what_made_them(tmp_path):
    names, file = [one.method for one in MOSO], tmp_path / "scores.parquet"
    arm = Arm("digits", SETTINGS, (*MOSO, Contender("random")), (0.5,), 2)
    with refusal("stage-incomplete"):
        publish_scores(cells_of([arm]), tmp_path / "runs", file)
    reproduce([small(arm)], asked(tmp_path))
    (run,) = publish_scores(cells_of([arm], seeds=1), tmp_path / "runs", file)
    table = pq.read_table(file)
    assert table.column_names == ["id", "label", "partition", *names]
    np.testing.assert_allclose(table["moso-rank"].to_numpy(), run.scores()["moso-rank"], rtol=1e-6)
    note = json.loads(table.schema.metadata[b"moso"])["configurations"]
    assert note["moso"]["dataset"] == "digits"
    assert note["moso"]["surrogate"]["epochs"] == 2

    _, second = publish_scores(cells_of([arm]), tmp_path / "runs", file)
    table = pq.read_table(file)
    both = [f"{name}, seed {seed}" for seed in (0, 1) for name in ("partition", *names)]
    assert table.column_names == ["id", "label", *both]
    np.testing.assert_allclose(table["moso, seed 1"].to_numpy(), second.scores()["moso"], rtol=1e-6)

    noisy = replace(arm, settings={**SETTINGS, "label_noise": 0.4}, seeds=1)
    reproduce([small(noisy)], asked(tmp_path))
    with refusal("data-changed", 0, "--only"):
        publish_scores(cells_of([arm, noisy]), tmp_path / "runs", file)


def test_other_data_under_the_same_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(PLACES, "digits", replace(PLACES["digits"], test=360))
    with refusal("data-changed", 1438, 359, 360):
        reproduce([small()], asked(tmp_path))
