"""Weighted selections in a run: on disk, in retraining, with decisions by hand, in rounds, after an interruption."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import moso
from moso.analysis.comparison import comparison
from moso.configuration import Configuration
from moso.executors import InProcess
from moso.report.comparison.compare_tables import tables
from moso.report.page.overview import overview
from moso.results.retrainings import retraining_path
from moso.results.selections import Selection, is_weighted, read_kept, selection_path
from moso.run.imported_scores import find_choice
from moso.run.job import Job, Runtime
from moso.run.stages import begin, evaluate_stage, evaluation_pieces, score_stage, select_stage, train_stage
from refusals import refusal
from tests.whole_runs import TINY, carried_out

SETTINGS = {**TINY, "methods": ["craig", "random"]}


def job_at(path, **settings):
    return Job.open(path, Configuration.resolve({**SETTINGS, **settings}))


@pytest.fixture(scope="module")
def weighted(tmp_path_factory):
    job = job_at(tmp_path_factory.mktemp("weighted"))
    return carried_out(job), job


def rows_of(run, method):
    return [row for row in run.evaluation() if row["method"] == method]


def test_a_weighted_selection_is_on_disk_with_its_weights_and_others_are_as_before(weighted):
    run, job = weighted
    of_craig, of_random = run.selection("craig", 0.6), run.selection("random", 0.6, "random")
    paths = [selection_path(job.directory.root, one) for one in (of_craig, of_random)]
    assert [pq.read_schema(path).names for path in paths] == [["id", "kept", "weight"], ["id", "kept"]]
    table = pq.read_table(paths[0])
    kept, weights = table["kept"].to_numpy(), table["weight"]
    assert weights.null_count == (~kept).sum()
    assert run.weights("craig", 0.6).tolist() == weights.drop_null().to_pylist()
    # Clusters partition the classes.
    labels = job.data.train.labels
    for label in range(10):
        own = labels[run.kept("craig", 0.6)] == label
        assert run.weights("craig", 0.6)[own].sum() == (labels == label).sum()
    assert run.weights("random", 0.6, "random") is None


def test_the_table_of_all_selections_has_weights_only_where_a_selection_has(weighted, tmp_path):
    job = weighted[1]
    table = pq.read_table(job.directory.root / "selections.parquet").to_pandas()
    assert table.columns.tolist() == ["method", "selector", "parameters", "ratio", "seed", "id", "kept", "weight"]
    assert (table.weight.notna() == ((table.method == "craig") & table.kept)).all()
    plain = carried_out(job_at(tmp_path, methods=["random"]))
    names = pq.read_schema(plain.directory.root / "selections.parquet").names
    assert names == ["method", "selector", "parameters", "ratio", "seed", "id", "kept"]


def test_retraining_says_that_it_was_weighted_and_without_weights_it_is_another(weighted):
    run, job = weighted
    [row] = rows_of(run, "craig")
    assert row["weighted"] is True
    assert all("weighted" not in other for other in run.evaluation() if other["method"] != "craig")
    plain = Job.open(job.directory.root).configuration.choice("craig")
    plain = type(plain)(**{**vars(plain), "settings": plain.selector.resolved({"weights": False})})
    with job.directory.locked():
        select_stage(job, [plain])
        evaluate_stage(job, InProcess(), [plain])
    both = rows_of(run, "craig")
    assert [one.get("weighted") for one in both] == [None, True]
    assert both[0]["loss"] != both[1]["loss"]
    made_by = [Selection("craig", "craig", 0.6, 0, one["parameters"]) for one in both]
    assert [is_weighted(job.directory.root, one) for one in made_by] == [False, True]
    kept = [read_kept(job.directory.root, one).positions.tolist() for one in made_by]
    assert kept[0] == kept[1]


def test_the_table_and_the_page_say_who_weighs(weighted):
    run, _ = weighted
    note = "Kept samples are weighted in training by craig"
    [table] = [one for one in tables(comparison(run)) if one.title.startswith("test ")]
    assert note in table.note
    assert note in overview(run)["accuracy"]["note"]


def test_an_interrupted_run_ends_with_the_same_bytes(weighted, tmp_path):
    run, _ = weighted

    class Interrupted(Exception):
        pass

    def interrupt(label, done, total):
        if 3 < done < total:
            raise Interrupted

    job = Job.open(tmp_path, Configuration.resolve(SETTINGS), Runtime(checkpoint_seconds=0))
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess())
        score_stage(job, InProcess())
        select_stage(job)
        [piece] = [one for one in evaluation_pieces(job) if one.retraining.method == "craig"]
        with pytest.raises(Interrupted):
            piece.perform(job, interrupt)
        assert not piece.is_complete(job)
        piece.perform(job, lambda *_: None)
    files = [retraining_path(root, piece.retraining) for root in (tmp_path, run.directory.root)]
    assert files[0].read_bytes() == files[1].read_bytes()
    made_by = piece.retraining.selection()
    selections = [selection_path(root, made_by).read_bytes() for root in (tmp_path, run.directory.root)]
    assert selections[0] == selections[1]


def test_samples_kept_by_hand_stand_for_themselves(make_outputs):
    every = make_outputs[0]
    plain = moso.select_weighted(None, ratio=0.5, selector="craig", **every)
    forced = np.setdiff1d(np.arange(60), plain.positions)[:4]
    dropped = plain.positions[:3]
    found = moso.select_weighted(None, ratio=0.5, selector="craig", always_keep=forced, always_drop=dropped, **every)
    assert len(found) == len(plain)
    weights = dict(zip(found.positions.tolist(), found.weights.tolist(), strict=True))
    assert [weights[z] for z in forced.tolist()] == [1.0] * 4
    assert not set(dropped) & set(weights)
    # The others stand for all samples that nobody decided about.
    assert sum(weights.values()) - 4 == 60 - 4 - 3


def test_a_class_that_gets_its_minimum_is_weighted_like_the_others(make_outputs):
    every, labels = make_outputs
    found = moso.select_weighted(None, ratio=0.8, selector="craig", min_per_class=4, **every)
    assert (np.bincount(labels[found.positions]) >= 4).all()
    for label in range(3):
        assert found.weights[labels[found.positions] == label].sum() == (labels == label).sum()


@pytest.fixture
def make_outputs():
    draw = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features, probabilities = draw.normal(size=(60, 4)), draw.dirichlet(np.ones(3), 60)
    return {"labels": labels, "features": features, "evidence": {"probabilities": probabilities}}, labels


def test_weights_that_are_none_are_refused():
    from moso.selection import Kept, Selector

    def giving(*weights):
        return Selector("mine", "the first", lambda part: Kept(np.arange(part.budget), np.array(weights)))

    for weights, told in [((1.0, 0.0), "0"), ((1.0, -2.0), "-2"), ((1.0, np.nan), "nan"), ((1.0, 2.0, 3.0), "(3,)")]:
        with refusal("extension-broken", "mine", told):
            moso.select([1.0, 2.0, 3.0, 4.0], ratio=0.5, selector=giving(*weights))


def test_rounds_end_with_the_weights_of_the_last_round(tmp_path):
    job = job_at(tmp_path, methods=["moso-rank"], selectors=["craig"], rounds=2)
    run = carried_out(job)
    kept, weights = run.kept("moso-rank", 0.6, "craig"), run.weights("moso-rank", 0.6, "craig")
    count = len(job.data.train)
    assert len(kept) == count - int(0.6 * count)
    # What the first round dropped is not stood for any more.
    assert weights.sum() == count - int(0.3 * count)
    assert rows_of(run, "moso-rank")[0]["weighted"]


def test_data_that_is_too_large_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    job = job_at(tmp_path)
    most = np.bincount(job.data.train.labels).max() - 1
    monkeypatch.setitem(vars(find_choice(job, "craig").selector), "largest", most)
    with job.directory.locked(), refusal("method-impossible", "craig", most + 1, most):
        begin(job)
    assert not (tmp_path / "state").exists()


def test_gradients_of_the_last_layer_are_not_put_together_from_an_embedding():
    settings = {"dataset": "digits", "model": "mlp", "methods": ["craig"], "features": "embedding"}
    with refusal("method-impossible", "craig", "reference"):
        Configuration.resolve(settings).check()
