"""Methods, selectors, their settings and the user's own scores on the command line: one syntax, one clear sentence."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

import moso
from moso.cli.main import main

SMALL = [
    *("--model", "mlp-w8", "--epochs", "3", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--workers", "1", "--quiet"),
]
SAMPLES = 1438


def call(verb, *arguments) -> int:
    alone = ["--workers", "1"] if verb in ("score", "evaluate") else []
    with pytest.raises(SystemExit) as left:
        main([verb, *(str(one) for one in arguments), *alone])
    return int(left.value.code or 0)


@pytest.fixture
def refused(capsys, tmp_path):
    """Run a command that must be refused; returns its one sentence."""

    def run(*arguments) -> str:
        assert call(*arguments) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) == 1
        return said

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of a few methods, with a file of settings."""
    root = tmp_path_factory.mktemp("cli")
    (root / "mine.toml").write_text(
        'methods = ["aum", "dual", "herding"]\nmin_per_class = 3\n[settings]\nbeta.anchors = 5\ndual.window = 2\n'
    )
    out = root / "run"
    assert call("run", root / "mine.toml", *SMALL, "--setting", "herding.rule=welling", "--out", out) == 0
    return out


def test_every_method_runs_from_one_command(tmp_path, capsys):
    out = tmp_path / "all"
    assert call("run", *SMALL, "--method", "all", "--out", out) == 0
    run = moso.Run.open(out)
    done = {(row["method"], row["selector"]) for row in run.evaluation()}
    for method in json.loads(_listed(capsys)):
        # `auto` needs 3 partitions, `less` a target; tests/run has both.
        if method["kind"] == "method" and method["name"] not in ("auto", "less"):
            assert (method["name"], method["selector"]) in done
            scores = run.score_of(method["name"])
            assert (scores is None) == (method["score"] is None)
            assert scores is None or np.isfinite(scores).all()
            assert len(run.kept(method["name"], 0.5, method["selector"])) == SAMPLES // 2


def _listed(capsys) -> str:
    capsys.readouterr()
    assert call("methods", "--json") == 0
    return capsys.readouterr().out


def test_settings_of_file_and_flags_are_one_and_recorded_with_what_they_made(run):
    made = {one.method: json.loads(one.parameters) for one in moso.Run.open(run).selections()}
    assert made["dual"] == {"concentration": 15.0, "exponent": 4.0, "anchors": 5, "min_per_class": 3}
    assert made["herding"]["rule"] == "welling"
    assert made["aum"] == {"min_per_class": 3}
    assert json.loads((run / "scores" / "dual.json").read_text())["settings"] == {"window": 2, "epochs": 30}
    again = moso.Run.open(run).configuration
    assert again.settings == {"beta": {"anchors": 5}, "dual": {"window": 2}, "herding": {"rule": "welling"}}
    labels = moso.Run.open(run).samples().labels
    for method in ("aum", "dual", "herding"):
        assert np.bincount(labels[moso.Run.open(run).kept(method, 0.5)]).min() >= 3


def test_another_setting_makes_another_selection_beside_the_old_one(run):
    opened = moso.Run.open(run)
    before = opened.kept("aum", 0.5, "top")
    assert call("select", run, "--method", "aum", "--min-per-class", "60", "--quiet") == 0
    made = [one for one in opened.selections() if (one.method, one.selector, one.ratio) == ("aum", "top", 0.5)]
    assert sorted(json.loads(one.parameters)["min_per_class"] for one in made) == [3, 60]
    assert (opened.kept("aum", 0.5, "top") == before).all()  # what the run's own settings keep


def test_any_score_combines_with_any_selector(run):
    pairs = (("aum", "coverage"), ("aum", "k-center"), ("dual", "softmax"), ("aum", "beta"), ("aum", "drop"))
    for method, selector in pairs:
        assert call("score", run, "--method", method, "--selector", selector, "--quiet") == 0
        assert call("select", run, "--method", method, "--selector", selector, "--quiet") == 0
        assert len(moso.Run.open(run).kept(method, 0.5, selector)) == SAMPLES // 2


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--method", "random", "--selector", "coverage"], "score 'random' has no hard end"),
        (
            ["--method", "herding", "--selector", "top"],
            "method 'herding' has no score, and selector 'top' chooses by one",
        ),
        (["--method", "dyn-unc", "--selector", "coverage"], "score 'dyn-unc' has no hard end"),
        (["--method", "aum", "--selector", "drop", "--partitions", "1"], "2 partitions or more"),
        (["--method", "tdds", "--epochs", "2"], "score 'tdds' compares epochs and needs at least 3"),
        (["--method", "grand-steps", "--estimator", "subsampled"], "estimator 'subsampled' does not measure"),
        (["--method", "el2n", "--early-epochs", "4"], "early_epochs = 4 is beyond the 3 epochs"),
        (["--method", "el2n", "--initialisations", "0"], "initialisations = 0"),
        (["--method", "aum", "--selector", "balanced", "--ratio", "0.995"], "there are 10 classes; choose a smaller"),
        (["--method", "herding", "--ratio", "0.995"], "selector 'herding' goes class by class, but only 8 of 1438"),
        (["--method", "aum", "--min-per-class", "80"], "min_per_class 80 asks for 800 samples, but only 719"),
        (["--method", "aum", "--setting", "coverage.cut=2"], "selector 'coverage': cut = '2' must be a number"),
        (["--method", "aum", "--setting", "coverage.cutt=0.1"], "selector 'coverage' has no setting 'cutt'"),
        (["--method", "aum", "--setting", "covrage.cut=0.1"], "unknown selector or score 'covrage'; nearest: coverage"),
        (["--method", "aum", "--setting", "coverage.cut"], "is not of the form NAME.SETTING=VALUE"),
        (["--method", "dual", "--setting", "dual.window=1"], "score 'dual': window = '1' must be a whole number"),
        (["--dataset", "diabetes", "--method", "forgetting"], "looks at predicted classes, but the samples have no"),
        (
            ["--dataset", "diabetes", "--method", "herding", "--setting", "herding.classes=balanced"],
            "'herding' chooses class by class, but the samples have no",
        ),
        (["--dataset", "diabetes", "--method", "moso", "--min-per-class", "2"], "min_per_class counts samples of a"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(refused, tmp_path, flags, sentence):
    assert sentence in refused("run", *SMALL, *flags, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "run.toml").exists()


def test_evidence_that_is_missing_is_named_with_what_would_record_it(refused, run):
    assert "run `moso score` first" in refused("select", run, "--method", "forgetting")
    said = refused("select", run, "--method", "dual", "--selector", "opt")
    assert (
        f"needs influences, which {run} does not have yet; run `moso score {run} --method dual --selector opt`" in said
    )
    assert "score 'random' has no hard end" in refused("select", run, "--method", "random", "--selector", "coverage")
    assert "'dual' is a score, and this run's has its settings" in refused("select", run, "--setting", "dual.window=3")


def test_methods_that_need_classes_are_left_out_of_all_where_there_are_none(tmp_path):
    out = tmp_path / "numbers"
    flags = ["--dataset", "diabetes", "--epochs", "2", "--partitions", "2", "--time-steps", "2", "--seeds", "1"]
    assert call("run", *flags, "--ratio", "0.5", "--method", "all", "--out", out, "--workers", "1", "--quiet") == 0
    found = {row["method"] for row in moso.Run.open(out).evaluation()}
    assert {"moso", "grand", "grand-steps", "k-center", "herding", "random"} <= found
    assert not found & {"forgetting", "el2n", "aum", "dual", "moderate", "bws", "ccs"}


@pytest.mark.parametrize("form", ["npy", "parquet", "csv"])
def test_scores_of_ones_own_are_selected_and_retrained_like_ours(run, tmp_path, form):
    opened = moso.Run.open(run)
    ids, mine = opened.samples().ids, np.random.default_rng(0).normal(size=SAMPLES)
    order, file = np.random.default_rng(1).permutation(SAMPLES), tmp_path / f"mine.{form}"
    table = pa.table({"id": ids.take(pa.array(order)), "score": mine[order]})
    if form == "npy":
        np.save(file, mine)
    elif form == "csv":
        pv.write_csv(table, file)
    else:
        pq.write_table(table, file)
    name = f"mine-{form}"
    assert (
        call("select", run, "--scores", file, "--name", name, "--selector", "top", "--min-per-class", "0", "--quiet")
        == 0
    )
    np.testing.assert_array_equal(opened.kept(name, 0.5, "top"), moso.select(mine, ratio=0.5, selector="top"))
    np.testing.assert_array_equal(opened.scores()[name], mine)
    if form == "npy":
        assert (
            call(
                "evaluate", run, "--scores", file, "--name", name, "--hard", "low", "--selector", "coverage", "--quiet"
            )
            == 0
        )
        assert any(row["method"] == name and row["selector"] == "coverage" for row in opened.evaluation())
        assert call("evaluate", run, "--method", name, "--quiet") == 0  # it stays there, balanced unless told otherwise
        assert any(row["method"] == name and row["selector"] == "balanced" for row in opened.evaluation())


@pytest.mark.parametrize("form", ["positions", "mask", "csv", "txt"])
def test_lists_of_ones_own_are_selections(run, tmp_path, form):
    opened = moso.Run.open(run)
    kept = np.sort(np.random.default_rng(2).choice(SAMPLES, 100, replace=False))
    file = tmp_path / f"list.{'npy' if form in ('positions', 'mask') else form}"
    if form == "positions":
        np.save(file, kept[::-1])
    elif form == "mask":
        np.save(file, np.isin(np.arange(SAMPLES), kept))
    elif form == "csv":
        pv.write_csv(pa.table({"id": opened.samples().ids.take(pa.array(kept))}), file)
    else:
        file.write_text("\n".join(str(opened.samples().ids[int(one)]) for one in kept) + "\n")
    name = f"list-{form}"
    assert call("select", run, "--indices", file, "--name", name, "--quiet") == 0
    np.testing.assert_array_equal(opened.kept(name), kept)
    assert opened.selection(name).ratio == pytest.approx(1 - 100 / SAMPLES)
    if form == "mask":
        assert call("evaluate", run, "--method", name, "--quiet") == 0
        rows = [row for row in opened.evaluation() if row["method"] == name]
        assert [row["samples"] for row in rows] == [100]


@pytest.mark.parametrize(
    ("content", "flag", "sentence"),
    [
        (np.zeros(7), "--scores", "has 7 scores for 1438 samples"),
        (np.full(SAMPLES, np.nan), "--scores", "has no finite score for sample"),
        (np.zeros((SAMPLES, 2)), "--scores", "a score is one number per sample"),
        (np.array([0, 1, 1]), "--indices", "names 1 samples twice"),
        (np.array([0, SAMPLES]), "--indices", "keeps position 1438, but there are 1438 samples"),
        (np.zeros(0, dtype=int), "--indices", "keeps no sample"),
        (np.zeros(3), "--indices", "a list is positions, or true and false for every sample"),
    ],
)
def test_what_is_wrong_with_ones_own_is_said(refused, run, tmp_path, content, flag, sentence):
    np.save(tmp_path / "own.npy", content)
    assert sentence in refused("select", run, flag, tmp_path / "own.npy", "--name", "own")


def test_tables_of_ones_own_must_fit_the_data(refused, run, tmp_path):
    table = {"id": [0, 1, 999_999], "score": [0.1, 0.2, 0.3]}
    pq.write_table(pa.table(table), tmp_path / "unknown.parquet")
    pq.write_table(pa.table({"id": [0, 1], "score": [0.1, 0.2]}), tmp_path / "short.parquet")
    pq.write_table(pa.table({"id": [0], "a": [0.1], "b": [0.2]}), tmp_path / "two.parquet")
    (tmp_path / "notes.md").write_text("no scores")
    np.save(tmp_path / "fine.npy", np.zeros(SAMPLES))
    own = lambda name: ("select", run, "--scores", tmp_path / name, "--name", "own")  # noqa: E731
    assert "names sample 999999, which the data does not have" in refused(*own("unknown.parquet"))
    assert "has no score for sample" in refused(*own("short.parquet"))
    assert "has 2 columns of numbers" in refused(*own("two.parquet"))
    assert "is not an .npy, .parquet or .csv file" in refused(*own("notes.md"))
    assert "there is no file" in refused(*own("gone.npy"))
    assert "is a name of moso's own" in refused(*own("fine.npy")[:-1], "moso")
    assert "is not a valid name" in refused(*own("fine.npy")[:-1], "a/b")
    assert "needs a name of its own" in refused(*own("fine.npy")[:-2])
    assert "--hard up must be high or low" in refused(*own("fine.npy"), "--hard", "up")
