"""Damage of a run's files is found when they are read, named, and mended by doing that piece again."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import moso
from moso import files
from moso.checksums import state
from moso.cli.main import main
from moso.errors import FileDamaged
from moso.evidence import arrays, read_state, write_state
from moso.results.selections import all_selections, read_selection
from refusals import refusal

COMMAND = [
    *("run", "--model", "mlp-w8", "--epochs", "2", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--method", "forgetting", "--method", "el2n", "--workers", "1", "--quiet"),
]
RESULTS = ("scores.parquet", "selections.parquet", "evaluation.parquet")
aside = pytest.mark.filterwarnings("ignore:.*was set aside")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    with pytest.raises(SystemExit) as ended:
        main([*COMMAND, "--out", str(out)])
    assert ended.value.code == 0
    return out


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path, place: int = -1, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place < 0 else place] ^= 1 << bit
    path.write_bytes(content)


def results(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in RESULTS}


def written(folder: Path) -> list[Path]:
    """One file of every format that a run writes."""
    files.write_record(folder / "history.json", {"total_steps": 3, "loss": [0.5, 0.25]})
    files.write_arrays(folder / "terms.npz", dot=np.arange(40.0), step=np.array(3))
    arrays.write(folder / "features.npy", np.arange(60, dtype=np.float32).reshape(12, 5))
    files.write_table(folder / "kept.parquet", pa.table({"id": np.arange(50), "kept": np.arange(50) % 3 == 0}))
    write_state(folder / "step.safetensors", {"weight": torch.arange(32, dtype=torch.float32)}, {"step": 3})
    return sorted(folder.iterdir())


READERS = {
    ".json": files.read_record,
    ".npz": files.read_arrays,
    ".npy": arrays.read,
    ".parquet": files.read_table,
    ".safetensors": read_state,
}


def content(path: Path) -> str:
    return repr(READERS[path.suffix](path))


@pytest.mark.parametrize("suffix", READERS)
def test_every_flipped_bit_is_found_or_changes_nothing_that_is_read(tmp_path, suffix):
    (path,) = [one for one in written(tmp_path) if one.suffix == suffix]
    whole, expected = path.read_bytes(), content(path)
    assert state(path) == "whole"
    draw, found, tries = random.Random(0), 0, 300
    for _ in range(tries):
        path.write_bytes(whole)
        flip(path, draw.randrange(len(whole)), draw.randrange(8))
        try:
            assert content(path) == expected  # in the words around the checksum, or in bytes that mean nothing
        except FileDamaged:
            found += 1
    assert found > 0.8 * tries


@pytest.mark.parametrize("suffix", READERS)
@pytest.mark.parametrize("how", ["cut", "zeroed", "empty", "longer"])
def test_a_file_that_is_cut_or_overwritten_is_refused(tmp_path, suffix, how):
    (path,) = [one for one in written(tmp_path) if one.suffix == suffix]
    whole = path.read_bytes()
    half = len(whole) // 2
    zeroed = whole[:half] + bytes(len(whole) - half)
    path.write_bytes({"cut": whole[:half], "zeroed": zeroed, "empty": b"", "longer": whole + b"x"}[how])
    with refusal("file-damaged", path):
        content(path)


def test_files_of_earlier_versions_are_read_as_before(tmp_path):
    (tmp_path / "history.json").write_text('{"loss": [1]}')
    np.save(tmp_path / "features.npy", np.ones(3))
    np.savez(tmp_path / "terms.npz", dot=np.ones(3))
    assert files.read_record(tmp_path / "history.json") == {"loss": [1]}
    assert arrays.read(tmp_path / "features.npy").tolist() == [1, 1, 1]
    assert files.read_arrays(tmp_path / "terms.npz")["dot"].tolist() == [1, 1, 1]


def test_other_programs_read_the_files(tmp_path):
    import pyarrow.parquet as pq
    from safetensors.torch import load_file

    written(tmp_path)
    assert json.loads((tmp_path / "history.json").read_text())["total_steps"] == 3
    assert np.load(tmp_path / "features.npy").shape == (12, 5)
    assert np.load(tmp_path / "terms.npz")["dot"].sum() == 780
    assert pq.read_table(tmp_path / "kept.parquet")["kept"].to_numpy().sum() == 17
    assert load_file(tmp_path / "step.safetensors")["weight"].sum() == 496


def test_a_whole_run_is_whole(run):
    found = moso.Run.open(run).verify()
    assert found.is_whole, found
    assert found.whole > 30
    assert found.without == 2  # events and the page


@aside
def test_a_flipped_bit_in_a_trajectory_changes_no_score(run, left, finished):
    for folder in ("terms", "scores"):
        shutil.rmtree(run / folder)
    damaged = sorted(run.glob("trajectory/part-000/step-*"))[0]
    flip(damaged, damaged.stat().st_size - 5, 6)
    code, _, said = left(*COMMAND, "--out", str(run))
    assert code == 0, said
    assert results(run) == results(finished)
    assert (run / "damaged" / damaged.relative_to(run)).exists()
    assert moso.Run.open(run).verify().is_whole


@aside
@pytest.mark.parametrize(
    "pattern",
    [
        *("selections/*.parquet", "scores/moso.parquet", "scores/moso.json", "evaluation/*.json", "manifest.json"),
        *("selections.parquet", "scores.parquet", "evaluation.parquet", "state/part-000/history.json"),
        *("terms/part-001/*.npz", "dynamics/*/*.npy", "dynamics/*/dynamics.json", "terms/reference-00/*.npz"),
        *("state/initial.safetensors", "state/part-000/final.safetensors"),
    ],
)
@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_what_is_damaged_is_done_again(run, left, finished, pattern, how):
    path = sorted(run.glob(pattern))[0]
    flip(path) if how == "flipped" else path.write_bytes(path.read_bytes()[:-20])
    name = path.relative_to(run).as_posix()
    assert [one.file for one in moso.Run.open(run).verify().damaged] == [name]
    code, said, _ = left("verify", str(run), "--repair")
    assert (code, name in said) == (0, True)
    code, _, said = left(*COMMAND, "--out", str(run))
    assert code == 0, said
    assert results(run) == results(finished)
    assert moso.Run.open(run).verify().is_whole


@aside
@pytest.mark.parametrize("pattern", ["selections/*.parquet", "manifest.json", "evaluation/*.json"])
def test_a_run_mends_what_it_reads_by_itself(run, left, finished, pattern):
    flip(sorted(run.glob(pattern))[0])
    code, _, said = left(*COMMAND, "--out", str(run))
    assert code == 0, said
    assert results(run) == results(finished)


def test_verify_names_what_is_missing_and_exits_with_2(run, left):
    gone = [
        sorted(run.glob(pattern))[0] for pattern in ("selections/*.parquet", "trajectory/part-001/*", "scores/*.json")
    ]
    for path in gone:
        path.unlink()
    code, said, _ = left("verify", str(run), "--json")
    assert code == 2
    assert set(json.loads(said)["missing"]) >= {path.relative_to(run).as_posix() for path in gone[1:]}


@pytest.mark.parametrize("verb", ["verify", "status", "report", "export", "select"])
@pytest.mark.parametrize(
    ("pattern", "how"),
    [
        *[
            (one, how)
            for one in ("selections/*.parquet", "evaluation/*.json", "manifest.json")
            for how in ("cut", "empty")
        ],
        *[("run.toml", how) for how in ("cut", "empty", "flipped", "0xff")],
        *[("events.jsonl", how) for how in ("0xff", "empty", "numbers")],
        *[("state/part-000/history.json", "cut"), ("scores/moso.parquet", "cut"), (".lock", "numbers")],
    ],
)
@pytest.mark.filterwarnings("ignore:.*was set aside", "ignore:line .* cannot be read")
def test_damage_is_never_a_traceback(run, left, tmp_path, verb, pattern, how):
    if pattern == ".lock":
        (run / ".lock").write_text(
            '{"owner": "o", "host": "h", "machine": "m", "process": 1, "started": "s", "renewed": "soon"}'
        )
    path = sorted(run.glob(pattern))[0]
    whole = path.read_bytes()
    half = len(whole) // 2
    if how != "numbers":
        path.write_bytes(
            {"cut": whole[:half], "empty": b"", "flipped": whole.replace(b"0.5", b"0.6", 1)}.get(
                how, whole[:half] + b"\xff" + whole[half:]
            )
        )
    elif pattern == "events.jsonl":
        path.write_bytes(b'7\n[]\n{"event": "begun"}\n{"time": 1, "event": "computed", "stage": "train"}\n' + whole)
    where = {"export": ["--ratio", "0.5", "--method", "moso", "--out", str(tmp_path / "kept.csv")]}.get(
        verb, ["--quiet"]
    )
    code, _, said = left(verb, str(run), *([] if verb in ("verify", "status", "report") else where))
    assert code in (0, 2), said
    if pattern == "run.toml":
        assert code == 2
        assert "run.toml" in said or verb == "verify"


def test_a_network_that_does_not_fit_the_state_is_refused(run, left):
    shutil.rmtree(run / "terms")
    text = (run / "run.toml").read_text().partition("\n")[2]
    (run / "run.toml").write_text(text.replace('model = "mlp-w8"', 'model = "mlp-w9"', 1))
    code, _, said = left("score", str(run))
    assert code == 2
    assert "does not fit the network" in said


def test_a_selection_that_says_other_samples_is_not_read(run):
    (one, *_) = all_selections(run)
    path = run / "selections" / f"{one.digest()}.parquet"
    flip(path, path.read_bytes().index(b"PAR1", 0) + 40)
    with refusal("file-damaged", path):
        read_selection(run, one)


@aside
@pytest.mark.parametrize("lost", ["damaged", "missing"])
def test_a_lost_manifest_does_not_hide_that_the_data_has_changed(left, tmp_path, lost):
    """It is made again from the data as found, which then must be the data that the complete pieces are of."""
    draw = np.random.default_rng(0)
    np.save(tmp_path / "train_labels.npy", np.arange(60) % 3)
    np.save(tmp_path / "train.npy", draw.normal(size=(60, 5)).astype(np.float32))
    command = (
        *("run", "--dataset", f"features:{tmp_path}", "--model", "linear", "--epochs", "1", "--seeds", "1"),
        *("--ratio", "0.5", "--method", "el2n", "--workers", "1", "--quiet", "--out", "run"),
    )
    code, _, said = left(*command)
    assert code == 0, said
    root, whole = tmp_path / "run", (tmp_path / "train.npy").read_bytes()

    def lose():
        flip(root / "manifest.json") if lost == "damaged" else (root / "manifest.json").unlink()

    lose()
    np.save(tmp_path / "train.npy", draw.normal(size=(60, 5)).astype(np.float32))
    code, _, said = left(*command)
    assert (code, "fingerprint differs" in said) == (2, True), said
    (tmp_path / "train.npy").write_bytes(whole)
    code, _, said = left(*command)
    assert code == 0, said
    # Where the events do not say it either, nothing does.
    (root / "events.jsonl").unlink()
    (root / "manifest.json").unlink()
    code, _, said = left(*command)
    assert (code, "nothing else says from which data" in said) == (2, True), said
