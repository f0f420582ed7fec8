"""What comes back: short to look at, kept as long as it is used, saved and opened again, with a verdict in words."""

import gc
import tempfile
from pathlib import Path

import numpy as np
import pandas
import pytest
from small_problems import FAST, table

import moso
from moso.errors import MosoError


def code_of(call) -> str:
    with pytest.raises(MosoError) as problem:
        call()
    return problem.value.code


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    out = tmp_path_factory.mktemp("proved") / "run"
    return moso.prune(table(), keep=30, test_set=table(45, seed=1), out=out, **FAST)


def test_a_short_repr(proved):
    assert repr(proved).startswith("Pruned(kept 30 of 60 samples by moso-rank (balanced), in ")
    assert len(repr(proved)) < 200
    assert len(proved) == 30


def test_kept_and_dropped_are_everything(proved):
    assert sorted([*proved.kept, *proved.dropped]) == list(range(60))
    assert proved.kept.tolist() == sorted(proved.kept)


def test_a_frame_has_a_row_per_sample(proved):
    frame = proved.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    np.testing.assert_array_equal(np.flatnonzero(frame["kept"]), proved.kept)
    np.testing.assert_array_equal(frame["moso-rank"], proved.scores)
    assert {"id", "label", "partition", "moso", "moso-standardised"} <= set(frame.columns)


def test_the_verdict_compares_with_random_selection(proved):
    rows = {row["method"]: row for row in proved.run.evaluation()}
    assert rows.keys() == {"full", "random", "moso-rank"}
    assert rows["random"]["selector"] == rows["moso-rank"]["selector"] == "balanced"
    assert rows["random"]["samples"] == rows["moso-rank"]["samples"] == 30
    assert isinstance(proved.verdict, moso.Verdict)
    assert "random" in str(proved.verdict)
    assert proved.verdict.random_ratio is not None


def test_without_a_test_there_is_no_verdict():
    assert code_of(lambda: moso.prune(table(), ratio=0.5, **FAST).verdict) == "nothing-to-measure"


def test_random_selection_is_compared_with_itself_once():
    pruned = moso.prune(table(), ratio=0.5, method="random", test_set=table(15, seed=1), **FAST)
    assert {row["method"] for row in pruned.run.evaluation()} == {"full", "random"}


def test_the_page_is_written_where_it_is_asked_for(proved, tmp_path):
    inside = proved.report()
    assert inside == proved.run.directory.root / "report.html"
    copied = proved.report(tmp_path / "pages/mine.html")
    assert copied.read_bytes() == inside.read_bytes()


def test_the_temporary_folder_goes_with_the_last_reference(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pruned = moso.prune(table(), ratio=0.5, **FAST)
    (folder,) = tmp_path.glob("moso-*")
    assert "temporary" in repr(pruned)
    run = pruned.run
    del pruned
    gc.collect()
    assert folder.exists()
    assert run.scores()["moso"].shape == (60,)
    del run
    gc.collect()
    assert list(tmp_path.glob("moso-*")) == []


def test_a_run_that_fails_leaves_no_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert code_of(lambda: moso.prune(table(), ratio=0.5, **FAST, learning_rate=1e12)) == "training-diverged"
    assert list(tmp_path.glob("moso-*")) == []


def test_saved_and_loaded_it_is_the_same(tmp_path):
    pruned = moso.prune(table(), ratio=0.5, **FAST)
    place = pruned.save(tmp_path / "kept")
    kept, scores, subset = pruned.kept, pruned.scores, pruned.subset
    del pruned
    gc.collect()
    again = moso.Pruned.load(place, train_set=table())
    np.testing.assert_array_equal(again.kept, kept)
    np.testing.assert_array_equal(again.scores, scores)
    np.testing.assert_array_equal(again.subset[0], subset[0])
    assert str(place) in repr(again)
    assert moso.Run.open(place).scores().keys() >= {"moso-rank"}


def test_loading_asks_for_the_same_data(tmp_path, proved):
    place = Path(str(proved.run.directory))
    assert code_of(lambda: moso.Pruned.load(place).subset) == "data-in-memory"
    rows, labels = table()
    assert code_of(lambda: moso.Pruned.load(place, train_set=(rows[::-1].copy(), labels))) == "data-changed"
    assert code_of(lambda: moso.Pruned.load(tmp_path)) == "not-a-run"
    assert code_of(lambda: proved.save(place)) == "output-exists"


def test_weights_belong_to_what_is_kept_and_are_saved(tmp_path):
    draw = np.random.default_rng(0)
    rows, labels = draw.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    pruned = moso.prune((rows, labels), keep=20, method="craig", model="mlp-w8", epochs=2, partitions=1, progress=False)
    assert pruned.weights.shape == (20,)
    assert pruned.weights.sum() == 60
    column = pruned.table()["weight"]
    assert column.drop_null().to_pylist() == pruned.weights.tolist()
    assert moso.Pruned.load(pruned.save(tmp_path / "saved")).weights.tolist() == pruned.weights.tolist()
    plain = moso.prune((rows, labels), keep=20, method="random", model="mlp-w8", epochs=2, progress=False)
    assert plain.weights is None
    assert "weight" not in plain.table().column_names
