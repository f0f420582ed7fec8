"""A comparison is a run: the same pieces, baselines that are what they say, and tables that its files bear out."""

import csv
import json
import math
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr, ttest_rel

import moso
from moso.analysis.comparison import comparison
from moso.configuration import Configuration
from moso.data.views import load, split_evenly
from moso.evaluation.baselines import BASELINES
from moso.executors import InProcess
from moso.randomness import hashes
from moso.report.comparison.compare_files import write_comparison
from moso.report.comparison.compare_tables import main_tables, tables
from moso.results.retrainings import Retraining, retraining_path
from moso.run import Job
from moso.run.stages import begin, compare
from moso.training.schedule import learning_rate
from refusals import refusal
from torch_optimizers import torch_optimizer

SETTINGS = {"model": "mlp-w8", "epochs": 3, "partitions": 2, "time_steps": 2, "seeds": 2, "ratios": [0.3, 0.7]}
METHODS = ["moso", "el2n", "herding"]


def carried_out(root, scores=(), lists=(), **settings) -> Job:
    given = {**SETTINGS, "methods": METHODS, "baselines": list(BASELINES), "label_noise": 0.1, **settings}
    job = Job.open(root, Configuration.resolve(given))
    with job.directory.locked():
        begin(job)
        compare(job, InProcess(), scores, lists)
    return job


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Job:
    root = tmp_path_factory.mktemp("comparison")
    np.save(root / "mine.npy", np.arange(1438.0))
    np.save(root / "odd.npy", np.arange(0, 1438, 2))
    np.save(root / "long.npy", np.arange(1438 - 431))
    lists = [("every-other", root / "odd.npy"), ("first-ones", root / "long.npy")]
    return carried_out(root / "run", [("mine", root / "mine.npy")], lists)


@pytest.fixture(scope="module")
def found(job):
    return comparison(moso.Run(job.directory), tolerance=5.0)


@pytest.fixture(scope="module")
def folder(job, found):
    return write_comparison(moso.Run(job.directory), found, tables(found))


def test_every_method_ratio_seed_and_baseline_is_there(job, found):
    names = {row.entry.name for row in found.rows if row.entry.ratio == 0.7}
    scored = {"moso (balanced)", "el2n (top)", "herding (herding)", "mine (balanced)"}
    assert names == scored | {"random (random)", "random (balanced)", "rs2", "infobatch", "full-fewer-steps"}
    assert all(len(row.entry.by_seed) == 2 for row in found.rows)
    assert found.rows[0].entry.name == "all data"
    assert moso.Run(job.directory).manifest["stages"]["evaluate"]["complete"]


def test_lists_are_rows_beside_random_selections_of_their_size(found):
    rows = {row.entry.name: row for row in found.rows if row.entry.selector == "listed"}
    assert rows["first-ones (listed)"].entry.ratio == 0.3
    assert rows["every-other (listed)"].entry.ratio == 0.5
    assert all(row.against_random is not None for row in rows.values())


def trained(job: Job, seed: int, batches_of, total: int) -> float:
    """Accuracy after plain descent on the batches that `batches_of(epoch)` gives, written out step by step."""
    recipe = job.configuration.retraining
    model, step, epoch = job.model(seed), 0, 0
    view = job.data.train.training_view(recipe.augmentation, seed)
    optimizer = torch_optimizer(model, recipe)
    while step < total:
        plan = batches_of(epoch)[: total - step]
        for inputs, labels in load(view, plan, epoch):
            step += 1
            rate = learning_rate(recipe, step, total, max(1, round(total / recipe.epochs)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        epoch += 1
    test = job.data.test
    inputs, labels = test.evaluation_view().batch(np.arange(len(test)))
    with torch.no_grad():
        return 100 * float((model.eval()(inputs).argmax(1) == labels).double().mean())


def value_of(job: Job, method: str, ratio: float, seed: int) -> float:
    rows = moso.Run(job.directory).evaluation()
    return next(r["value"] for r in rows if (r["method"], r["ratio"], r["seed"]) == (method, ratio, seed))


@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_fewer_steps_are_all_data_for_as_many_updates_as_pruned_data_gets(job, ratio):
    recipe, train = job.configuration.retraining, job.data.train
    kept = len(train) - math.floor(ratio * len(train))

    def batches(epoch: int):
        order = np.argsort(hashes(train.keys, 1, "order", epoch), kind="stable")
        return split_evenly(order, recipe.batch_size)

    total = recipe.epochs * math.ceil(kept / recipe.batch_size)
    assert value_of(job, "full-fewer-steps", ratio, 1) == pytest.approx(trained(job, 1, batches, total))


@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_rs2_cuts_random_orders_of_all_data_into_epochs(job, ratio):
    recipe, train = job.configuration.retraining, job.data.train
    count, kept = len(train), len(train) - math.floor(ratio * len(train))
    stream: list[int] = []

    def extend(number: int) -> None:
        drawn = np.argsort(hashes(train.keys, 1, "fresh-subsets", number), kind="stable").tolist()
        begun = stream[len(stream) // kept * kept :]
        head = [one for one in drawn if one not in begun][: kept - len(begun)] if begun else []
        stream.extend([*head, *(one for one in drawn if one not in set(head))])

    def batches(epoch: int):
        while len(stream) < (epoch + 1) * kept:
            extend(len(stream) // count)
        return split_evenly(np.array(stream[epoch * kept : (epoch + 1) * kept]), recipe.batch_size)

    total = recipe.epochs * math.ceil(kept / recipe.batch_size)
    assert value_of(job, "rs2", ratio, 1) == pytest.approx(trained(job, 1, batches, total))


def test_with_equal_steps_fewer_steps_would_be_all_data_and_are_left_out():
    configuration = Configuration.resolve({**SETTINGS, "baselines": list(BASELINES), "match": "steps"})
    assert configuration.retrained_baselines() == ["rs2", "infobatch"]
    assert Configuration.resolve({**SETTINGS, "baselines": ["none"]}).baselines == ()


def test_a_cell_that_is_lost_is_retrained_to_the_same_bytes(job, tmp_path):
    shutil.copytree(job.directory.root, tmp_path / "run")
    before = (tmp_path / "run/evaluation.parquet").read_bytes()
    kind = {"network": "mlp-w8", "recipe": "digits", "match": "epochs"}
    retraining_path(tmp_path / "run", Retraining("rs2", "none", 0.7, 1, **kind)).unlink()
    done = len(moso.Run.open(tmp_path / "run").evaluation())
    again = carried_out(tmp_path / "run")
    assert len(moso.Run(again.directory).evaluation()) == done + 1
    assert (tmp_path / "run/evaluation.parquet").read_bytes() == before


def test_tables_say_what_the_evaluation_says(job, folder):
    cells = pq.read_table(job.directory.root / "evaluation.parquet").to_pylist()
    by_seed: dict[tuple, dict[int, float]] = {}
    for cell in cells:
        by_seed.setdefault((cell["method"], cell["selector"], cell["ratio"]), {})[cell["seed"]] = cell["accuracy"]
    rows = pq.read_table(folder / "comparison.parquet").to_pylist()
    assert len(rows) == len(by_seed)
    for row in rows:
        own = by_seed[row["method"], row["selector"], row["ratio"]]
        assert row["mean"] == pytest.approx(np.mean(list(own.values())))
        assert row["standard_deviation"] == pytest.approx(np.std(list(own.values()), ddof=1))
        if row["against_random"] is not None:
            random = by_seed["random", row["random_selector"], row["ratio"]]
            first, second = ([one[seed] for seed in (0, 1)] for one in (own, random))
            assert row["against_random"] == pytest.approx(np.subtract(first, second).mean())
            if np.std(np.subtract(first, second), ddof=1) > 100 / 359:
                expected = ttest_rel(first, second).confidence_interval(0.95)
                assert row["against_random_low"] == pytest.approx(expected.low)
    with (folder / "comparison.csv").open() as file:
        assert [float(row["mean"]) for row in csv.DictReader(file)] == [row["mean"] for row in rows]


def test_likeness_is_that_of_the_files(job, found):
    run = moso.Run(job.directory)
    names = found.overlap[0.7].names
    first, second = names.index("moso (balanced)"), names.index("random (random)")
    shares = []
    for seed in (0, 1):
        kept = [set(run.kept(*pair, seed=seed).tolist()) for pair in (("moso", 0.7), ("random", 0.7, "random"))]
        shares.append(len(kept[0] & kept[1]) / len(kept[0] | kept[1]))
    assert found.overlap[0.7].values[first, second] == pytest.approx(np.mean(shares))
    names = found.correlations.names
    scores = [run.scores(seed) for seed in (0, 1)]
    expected = np.mean([spearmanr(own["moso"], own["el2n"]).statistic for own in scores])
    assert found.correlations.values[names.index("moso"), names.index("el2n")] == pytest.approx(expected)


def test_costs_are_those_of_what_a_method_needs(found):
    costs = {(cost.method, cost.selector): cost for cost in found.costs}
    assert costs["moso", "balanced"].networks == 0
    assert costs["moso", "balanced"].measuring > 0
    assert costs["el2n", "top"].networks > costs["herding", "herding"].networks > 0
    assert costs["random", "random"].measuring == costs["random", "random"].networks == 0
    assert all(cost.choosing > 0 for cost in costs.values())


def test_a_finished_run_makes_its_tables_again_to_the_same_bytes(job, folder, tmp_path):
    shutil.copytree(job.directory.root, tmp_path / "elsewhere")
    run = moso.Run.open(tmp_path / "elsewhere")
    again = comparison(run, tolerance=5.0)
    (tmp_path / "elsewhere/compare/comparison.md").unlink()
    second = write_comparison(run, again, tables(again))
    written = sorted(path.name for path in folder.iterdir())
    assert {"comparison.md", "costs.csv", "overlap.csv", "tolerance.csv", "correlations.csv"} < set(written)
    assert {"accuracy.png", "differences.png", "likeness.png"} < set(written)
    for name in written:
        assert (folder / name).read_bytes() == (second / name).read_bytes(), name


def test_what_is_printed_is_part_of_what_is_written(found):
    shown, written = (json.dumps([text.markdown() for text in made(found)]) for made in (main_tables, tables))
    assert "what can go within 5 points of all data" in shown
    assert len(shown) < len(written)
    assert "in common with 30 % removed" in written
    assert "in common with 30 % removed" not in shown


def test_other_scores_and_lists_under_a_known_name_are_refused(job, tmp_path):
    np.save(tmp_path / "other.npy", -np.arange(1438.0))
    np.save(tmp_path / "list.npy", np.arange(700))
    with refusal("name-taken", "mine"):
        carried_out(job.directory.root, [("mine", tmp_path / "other.npy")])
    with refusal("name-taken", "every-other"):
        carried_out(job.directory.root, lists=[("every-other", tmp_path / "list.npy")])


def test_a_run_without_retrainings_has_nothing_to_compare(small_run):
    job = small_run()
    with job.directory.locked():
        begin(job)
    with refusal("stage-incomplete"):
        comparison(moso.Run(job.directory))
