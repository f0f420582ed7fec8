"""`moso select --overrides`: decisions by hand as the page saves them, on their way to what is exported."""

import numpy as np
import pytest

from moso import select
from moso.cli.main import app
from moso.data.samples import StoredSamples
from moso.executors import InProcess
from moso.results import Run
from moso.results.overrides import read_overrides
from moso.run.stages import begin, score_stage, select_stage
from refusals import refusal


@pytest.fixture
def scored(small_run):
    job = small_run(methods=["moso", "random"])
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess(lambda *_: None))
        select_stage(job)
    return Run.open(job.directory.root)


def verb(*arguments: object) -> None:
    app([str(one) for one in arguments], standalone_mode=False)


def test_what_is_decided_is_selected_and_exported(scored, tmp_path):
    root, ids = scored.directory.root, scored.table()["id"].to_pylist()
    before = scored.kept("moso", 0.5)
    gone, come = int(before[0]), int(np.setdiff1d(np.arange(len(ids)), before)[0])
    # As a browser on Windows saves it: a byte order mark would be fine, lines end in two characters.
    (tmp_path / "overrides.csv").write_bytes(f"id,decision\r\n{ids[come]},keep\r\n{ids[gone]},drop\r\n".encode())
    verb("select", root, "--method", "moso", "--ratio", 0.5, "--overrides", tmp_path / "overrides.csv", "--quiet")
    labels = scored.table()["label"].to_numpy()
    expected = select(
        scored.scores()["moso"], ratio=0.5, labels=labels, ids=np.array(ids), always_keep=[come], always_drop=[gone]
    )
    verb("export", root, "--method", "moso", "--ratio", 0.5, "--out", tmp_path / "kept.npy", "--quiet",
         "--overrides", tmp_path / "overrides.csv")  # fmt: skip
    assert np.load(tmp_path / "kept.npy").tolist() == expected.tolist()
    assert (scored.kept("moso", 0.5) == before).all()  # what the method keeps by itself is still there
    (copy,) = (root / "overrides").glob("*.csv")
    assert read_overrides(copy, scored.samples()).digest == copy.stem


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,decision\n7,keep\n", ("sample-unknown", 7)),
        ("id,decision\n1,maybe\n", ("decision-invalid", "maybe", 1)),
        ("id,decision\n1,keep\n1,drop\n", ("decision-invalid", 1)),
        ("id,decision\n", ("data-empty", "overrides.csv", "--overrides")),
        ("id,what\n1,keep\n", ("column-missing", "overrides.csv")),
        ("", ("column-missing", "overrides.csv")),
        ("id,decision\n1\n", ("decision-invalid", 1)),
    ],
)
def test_decisions_that_make_no_sense_are_one_sentence(tmp_path, text, told):
    (tmp_path / "overrides.csv").write_text(text)
    samples = StoredSamples.from_arrays(np.zeros((3, 2)), [0, 1, 0])
    with refusal(*told):
        read_overrides(tmp_path / "overrides.csv", samples)


def test_the_order_of_lines_changes_nothing(tmp_path):
    samples = StoredSamples.from_arrays(np.zeros((3, 2)), [0, 1, 0], ids=["a,b", 'c"d', "e"])
    (tmp_path / "one.csv").write_text('id,decision\n"a,b",keep\n"c""d",drop\n')
    (tmp_path / "two.csv").write_text('id,decision\n"c""d",drop\n"a,b",keep\n')
    first, second = (read_overrides(tmp_path / f"{name}.csv", samples) for name in ("one", "two"))
    assert (first.keep.tolist(), first.drop.tolist()) == ([0], [1])
    assert first.digest == second.digest
