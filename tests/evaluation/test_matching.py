"""Laws of what retrainings keep equal: epochs, steps, or epochs in smaller batches, and of all three side by side."""

import json
import math

import numpy as np
import pytest

import moso
from moso.analysis.comparison import comparison
from moso.configuration import Configuration
from moso.evaluation.matching import LEAST_BATCH, smaller_batch
from moso.executors import InProcess
from moso.report.comparison.compare_tables import side_by_side
from moso.report.page.overview import overview
from moso.results.retrainings import Retraining
from moso.run import stages
from moso.run.job import Job
from refusals import refusal

SETTINGS = {
    "dataset": "digits",
    "model": "mlp-w8",
    "epochs": 2,
    "batch_size": 64,
    "seeds": 2,
    "ratios": [0.5, 0.9],
    "methods": ["random"],
    "baselines": ["rs2", "infobatch", "full-fewer-steps"],
    "device": "cpu",
}


def test_batches_are_those_of_dual_tdds_and_zcore_at_their_ratios():
    assert [smaller_batch(128, ratio) for ratio in (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)] == [128, 128, 128, 128, 64, 32]


def test_the_batch_halves_whenever_the_kept_share_does():
    for ratio in np.linspace(0, 0.995, 400):
        halvings = 0
        while 0.4 / 2 ** (halvings + 1) >= 1 - ratio - 1e-9:
            halvings += 1
        assert smaller_batch(1 << 12, ratio) == max(LEAST_BATCH, (1 << 12) // 2**halvings)
    assert smaller_batch(10, 0.99) == 10


def test_the_names_of_files_of_older_runs_stay():
    # The hash of evaluation/HASH.json, as an earlier version wrote it.
    old = Retraining("moso-rank", "balanced", 0.4, 0, "convnet", "digits", "epochs", "{}")
    assert old.digest() == "2b557a62dad5792d"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    given = {**SETTINGS, "match": ["epochs", "steps", "batches"]}
    job = Job.open(tmp_path_factory.mktemp("run"), Configuration.resolve(given))
    with job.directory.locked():
        stages.begin(job)
        stages.compare(job, InProcess())
    return moso.Run.open(job.directory.root)


def test_all_three_are_retrained_and_all_data_once(finished):
    rows = {match: finished.evaluation(match) for match in ("epochs", "steps", "batches")}
    keys = {
        match: {(row["method"], row["selector"], row["ratio"], row["seed"]) for row in own}
        for match, own in rows.items()
    }
    assert keys["epochs"] == keys["batches"]
    assert {key for key in keys["epochs"] if key[0] != "full-fewer-steps"} == keys["steps"]
    full = [row for row in rows["steps"] if row["method"] == "full"]
    assert len(full) == 2
    assert all(row in rows["epochs"] for row in full)
    assert finished.evaluation() == rows["epochs"]


def test_each_makes_the_updates_that_it_says(finished):
    """Passes are counted by losses, one number each, and updates are recorded with the result."""

    def epochs(match, method, ratio):
        own = [row for row in finished.evaluation(match) if (row["method"], row["ratio"]) == (method, ratio)]
        return {(len(row["loss"]), row["updates"]) for row in own}

    samples, kept = 1438, 144
    full = 2 * math.ceil(samples / 64)
    assert epochs("epochs", "random", 0.9) == {(2, 2 * 3)}
    assert epochs("batches", "random", 0.9) == {(2, 2 * 9)}  # batches of 16
    # As many updates as on all data, of 3 batches per pass over 144 samples.
    assert epochs("steps", "random", 0.9) == {(math.ceil(full / math.ceil(kept / 64)), full)}
    for method in ("rs2", "full-fewer-steps", "infobatch"):
        assert {updates for _, updates in epochs("epochs", method, 0.9)} == {6}
        assert {updates for _, updates in epochs("batches", method, 0.9)} == {18}


def test_with_as_large_batches_the_result_is_that_of_equal_epochs(finished):
    def values(match, ratio):
        own = [row for row in finished.evaluation(match) if row["ratio"] == ratio]
        return {(row["method"], row["selector"], row["seed"]): row["value"] for row in own}

    assert values("epochs", 0.5) == values("batches", 0.5)
    assert values("epochs", 0.9) != values("batches", 0.9)


def test_the_table_has_the_means_of_the_rows_side_by_side(finished):
    table = side_by_side(comparison(finished).by_match)
    assert table.columns[1:] == [
        f"{ratio} %, {match}" for ratio in (50, 90) for match in ("epochs", "steps", "batches")
    ]
    own = next(row for row in table.rows if row[0] == "rs2")
    for cell, column in zip(own[1:], table.columns[1:], strict=True):
        ratio, match = float(column.split()[0]) / 100, column.split(", ")[1]
        mean = np.mean(
            [row["value"] for row in finished.evaluation(match) if (row["method"], row["ratio"]) == ("rs2", ratio)]
        )
        assert cell.startswith(f"{mean:.1f} (")


def test_the_page_shows_the_same_table(finished):
    shown, table = overview(finished)["accuracy"], side_by_side(comparison(finished).by_match)
    assert shown["by_match"] == {"columns": table.columns, "rows": table.rows, "note": table.note}
    assert "table below" in shown["note"]


def test_a_file_of_the_run_says_what_is_kept_equal_and_reads_back(finished):
    assert Configuration.read(finished.directory.configuration_path).matches == ("epochs", "steps", "batches")
    assert Configuration.resolve({"match": "steps"}).matches == ("steps",)
    assert Configuration.resolve({"match": ["steps", "steps"]}).also_match == ()


def test_other_words_are_refused():
    with refusal("setting-invalid", "match"):
        Configuration.resolve({"match": "time"})
    with refusal("setting-invalid", "also_match.0"):
        Configuration.resolve({"match": ["epochs", "time"]})


def test_files_of_a_comparison_hold_every_match(finished):
    from moso.report.comparison.compare_files import write_comparison

    found = comparison(finished)
    folder = write_comparison(finished, found, [side_by_side(found.by_match)])
    rows = json.loads((folder / "comparison.json").read_text())
    assert {row["match"] for row in rows} == {"epochs", "steps", "batches"}
    assert len([row for row in rows if row["method"] == "full"]) == 1
