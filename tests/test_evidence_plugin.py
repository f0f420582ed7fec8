"""Evidence of another package: the two files of docs/architecture.md, installed, run, resumed, priced and recorded."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from moso.analysis.estimate import estimate
from moso.evidence_kinds.registry import KINDS, find_kind
from moso.results import RunDirectory
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.work_plan import measuring

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
FLAGS = ("--method", "loudness", "--ratio", "0.5", "--seeds", "1", "--model", "mlp-w8", "--epochs", "1")
SMALL = ("--partitions", "2", "--workers", "1", "--loader-workers", "0", "--out", "run")


@pytest.fixture
def their_package(tmp_path, monkeypatch) -> None:
    """The package of the page as pip would leave it: its modules, and its entry points beside them."""
    page = PAGE.read_text(encoding="utf-8")
    root = tmp_path / "site"
    modules = re.findall(r"^`(their_package/\w+\.py)`:\n\n```py\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert [name for name, _ in modules] == ["their_package/logit_lengths.py", "their_package/loudness.py"]
    for name, code in modules:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(code)
    points = re.findall(r'entry-points\."(moso\.\w+)"\]\n    (\S+ = "their_package\.\w+:\w+")', page)
    metadata = root / "their_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    lines = [f"[{group}]\n{point}\n".replace('"', "") for group, point in points]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(root))


def begun(root: Path) -> list[tuple[str, int]]:
    return [(event["stage"], event["pieces"]) for event in RunDirectory(root).events() if event["event"] == "begun"]


@pytest.mark.usefixtures("their_package")
def test_a_score_with_evidence_of_its_own_runs_resumes_and_says_what_made_it(left, tmp_path):
    code, _, said = left("run", *FLAGS, *SMALL, "--quiet")
    assert code == 0, said
    root = tmp_path / "run"
    file = root / "evidence" / "logit-lengths.npy"
    lengths, whole = np.load(file), file.read_bytes()
    assert lengths.shape == (1438,)
    scores = (root / "scores.parquet").read_bytes()
    note = json.loads((root / "scores" / "loudness.json").read_text())
    assert note["needs"] == ["labels", "logit-lengths"]
    assert (note["model"], note["epochs"]) == ("mlp-w8", 1)
    measured = [event for event in RunDirectory(root).events() if event["event"] == "measured"]
    assert ("logit-lengths", "seed-0/reference-00/logit-lengths") in {(one["what"], one["piece"]) for one in measured}
    before = len(begun(root))
    file.unlink()
    assert left("run", *FLAGS, *SMALL, "--quiet")[0] == 0
    assert begun(root)[before:] == [("score", 1)]  # nothing is trained, and nothing else measured again
    assert file.read_bytes() == whole
    assert (root / "scores.parquet").read_bytes() == scores


@pytest.mark.usefixtures("their_package")
def test_it_is_priced_before_anything_is_run(left, small_run, tmp_path):
    code, said, _ = left("run", *FLAGS, *SMALL, "--dry-run")
    assert code == 0
    assert "a reference on 1438 samples, 1 epochs" in said
    assert "a look at 1438 samples" in said
    assert not (tmp_path / "run").exists()
    [look] = [one for one in estimate(small_run(methods=["loudness"]), 1).stages if one.name == "score"]
    assert (look.pieces, look.what) == (1, "a look at 1438 samples")
    assert look.seconds > 0


def planned(job: Job, name: str) -> list[Piece]:
    return measuring(job, frozenset({name}))


@pytest.mark.usefixtures("their_package")
def test_it_is_one_piece_per_seed_and_found_by_name(small_run):
    assert KINDS.get("logit-lengths") is find_kind("logit-lengths")
    assert find_kind("logit-lengths:entropy") is None  # it is no family
    [piece] = planned(small_run(), "logit-lengths")
    assert (piece.kind, piece.stage, piece.name) == ("logit-lengths", "score", "seed-0/reference-00/logit-lengths")


def test_without_the_package_its_evidence_is_recorded_by_nobody(small_run):
    assert find_kind("logit-lengths") is None
    assert planned(small_run(), "logit-lengths") == []
