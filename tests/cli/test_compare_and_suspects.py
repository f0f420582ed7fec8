"""`moso compare` and `moso suspects` on the command line: what they print, and what they refuse in one sentence."""

import json
import sys

import numpy as np
import pytest

import moso
from moso.cli.main import main
from moso.methods import METHODS, Method
from moso.registry import Registry

SMALL = [
    *("--model", "mlp-w8", "--epochs", "2", "--partitions", "2", "--time-steps", "2", "--workers", "1"),
    *("--ratio", "0.5"),
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A finished comparison of two seeds, beside scores and a list of the user's."""
    root = tmp_path_factory.mktemp("compared")
    np.save(root / "scores.npy", np.arange(1438.0))
    np.save(root / "list.npy", np.arange(719))
    given = ["--scores", f"mine={root / 'scores.npy'}", "--indices", f"half={root / 'list.npy'}"]
    flags = [*SMALL, "--seeds", "2", "--method", "moso", "--label-noise", "0.2", "--out", str(root / "run")]
    with pytest.raises(SystemExit) as left:
        main(["compare", *flags, *given, "--quiet"])
    assert left.value.code in (0, None)
    return root / "run"


def test_a_finished_comparison_is_shown_without_computing(compared, done):
    before = (compared / "events.jsonl").read_bytes()
    said = done("compare", str(compared), "--tolerance", "2.5")
    for expected in ("moso (balanced)", "mine (balanced)", "half (listed)", "rs2", "full-fewer-steps", "all data"):
        assert expected in said
    for expected in ("within 2.5 points", "against random selection", "what each method takes", "kept in common"):
        assert expected in said
    assert (compared / "events.jsonl").read_bytes() == before
    assert "| rs2 |" in (compared / "compare/comparison.md").read_text()


def test_a_comparison_is_a_run_like_any_other(compared, done):
    run = moso.Run.open(compared)
    assert set(run.scores()) == {"moso", "random", "mine"}
    assert run.configuration.baselines == ("rs2", "infobatch", "full-fewer-steps")
    assert (compared / "report.html").stat().st_size > 1000
    assert done("report", str(compared)).strip().endswith("report.html")
    # The same command goes on where it was, which is the end.
    cells = sorted(path.name for path in (compared / "evaluation").iterdir())
    flags = [*SMALL, "--seeds", "2", "--method", "moso", "--label-noise", "0.2", "--out", str(compared)]
    done("compare", *flags, "--quiet")
    assert sorted(path.name for path in (compared / "evaluation").iterdir()) == cells


def test_all_methods_means_those_that_are_registered(done, tmp_path, monkeypatch):
    kept = [METHODS.get("moso"), METHODS.get("random"), Method("dummy", "moso", "top", "one that somebody registered")]
    monkeypatch.setattr(METHODS, "_built_in", Registry("method", Method, METHODS.group, kept)._built_in)
    flags = [*SMALL, "--seeds", "1", "--baseline", "none", "--out", str(tmp_path / "run")]
    said = done("compare", *flags, "--method", "all")
    assert "dummy (top)" in said
    assert "rs2" not in said
    found = {row["method"] for row in moso.Run.open(tmp_path / "run").evaluation()}
    assert found == {"full", "moso", "random", "dummy"}


def test_a_dry_comparison_writes_nothing(done, tmp_path):
    assert "by a short calibration" in done("compare", *SMALL, "--dry-run", "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--method", "mosso"], "unknown method 'mosso'; nearest: moso"),
        (["--selector", "blanced"], "unknown selector 'blanced'; nearest: balanced"),
        (["--baseline", "rs3"], "unknown baseline 'rs3'; nearest: rs2"),
        (["--ratio", "1.0"], "ratio 1.0 is outside [0, 1)"),
        (["--tolerance", "-1"], "tolerance = -1.0"),
        (["--scores", "scores.npy"], "--scores scores.npy: give it as NAME=FILE"),
        (["--scores", "mine=nowhere.npy"], "nowhere.npy"),
        (["--indices", "mine=nowhere.npy"], "nowhere.npy"),
        (
            ["--dataset", "diabetes", "--selector", "balanced"],
            "chooses class by class, but the samples have no classes",
        ),
    ],
)
def test_a_wrong_comparison_is_refused_before_anything_is_written(refused, tmp_path, flags, sentence):
    said = refused("compare", *SMALL, "--out", str(tmp_path / "run"), *flags)
    assert sentence in said
    assert not (tmp_path / "run/run.toml").exists()


def test_a_ratio_that_leaves_classes_out_is_refused(refused, tmp_path):
    flags = [*SMALL[:10], "--ratio", "0.999", "--seeds", "1", "--method", "moso", "--out", str(tmp_path / "run")]
    assert "only 2 of 1438 samples are to stay and there are 10 classes" in refused("compare", *flags, "--quiet")


def test_an_own_score_without_a_hard_end_is_refused_before_training(refused, tmp_path):
    np.save(tmp_path / "scores.npy", np.arange(1438.0))
    flags = [*SMALL, "--seeds", "1", "--method", "aum", "--selector", "coverage", "--out", str(tmp_path / "run")]
    said = refused("compare", *flags, "--scores", "mine=scores.npy", "--quiet")
    assert "score 'mine' has no hard end" in said
    assert not (tmp_path / "run/state").exists()


def test_names_of_ours_are_not_given_away(refused, tmp_path):
    np.save(tmp_path / "scores.npy", np.arange(1438.0))
    flags = [*SMALL, "--seeds", "1", "--method", "moso", "--out", str(tmp_path / "run"), "--quiet"]
    assert "is a name of moso's own" in refused("compare", *flags, "--scores", "rs2=scores.npy")


def test_what_belongs_to_a_new_comparison_is_refused_for_a_finished_one(refused, compared, tmp_path):
    assert "--ratio is for a new comparison" in refused("compare", str(compared), "--ratio", "0.2")
    assert "--label-noise is for a new comparison" in refused("compare", str(compared), "--label-noise", "0.2")
    assert "--out is for a new comparison" in refused("compare", str(compared), "--out", "other")
    assert "is not a run directory" in refused("compare", str(tmp_path))


def test_suspects_of_a_comparison(compared, done, tmp_path):
    said = done("suspects", str(compared), "--workers", "1", "--top", "20", "--out", str(tmp_path / "out"))
    for expected in ("AUROC", "cleanlab: confident learning", "out-of-sample (the order used)", "really are wrong"):
        assert expected in said
    assert (tmp_path / "out/suspects.html").exists()
    assert len((tmp_path / "out/suspects.csv").read_text().splitlines()) == 21
    assert done("suspects", str(compared), "--order", "mine", "--quiet") == ""
    assert (compared / "suspects/suspects.png").exists()


def test_what_an_extra_would_add_names_the_extra(compared, done, tmp_path, monkeypatch):
    for name in ("cleanlab", "cleanlab.filter", "cleanlab.rank"):
        monkeypatch.setitem(sys.modules, name, None)
    said = " ".join(done("suspects", str(compared), "--top", "3", "--out", str(tmp_path / "out")).split())
    assert 'cleanlab is not installed; pip install "moso-prune[cleanlab]" installs it' in said


def test_runs_without_suspects_are_refused(refused, done, compared, tmp_path):
    assert "is not a run directory" in refused("suspects", str(tmp_path))
    done("train", *SMALL[:10], "--seeds", "1", "--quiet", "--out", str(tmp_path / "trained"))
    assert "has no scores yet; run `moso score` first" in refused("suspects", str(tmp_path / "trained"))
    flags = [*SMALL, "--seeds", "1", "--method", "moso", "--quiet"]
    done("train", *flags, "--partitions", "1", "--out", str(tmp_path / "one"))
    done("score", str(tmp_path / "one"), "--quiet", "--workers", "1")
    assert "2 partitions or more" in refused("suspects", str(tmp_path / "one"))
    done("train", *flags, "--dataset", "diabetes", "--out", str(tmp_path / "numbers"))
    done("score", str(tmp_path / "numbers"), "--quiet", "--workers", "1")
    assert "have no classes" in refused("suspects", str(tmp_path / "numbers"))
    assert "--top -3: give a number of suspects" in refused("suspects", str(compared), "--top", "-3")
    assert "there is no label file nothing.npy" in refused("suspects", str(compared), "--labels", "nothing.npy")


def test_both_verbs_are_listed_with_their_flags(done):
    said = done("--help")
    assert "compare" in said
    assert "suspects" in said
    assert json.loads(done("methods", "--json"))
