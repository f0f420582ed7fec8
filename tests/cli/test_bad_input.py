"""Bad input gets one clear sentence and exit code 2, before hours are spent, and nothing complete is lost."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from moso.cli.options.configuration_flags import whole_path

SMALL = [
    *("--model", "mlp-w8", "--epochs", "2", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--workers", "1", "--quiet"),
]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--ratio", "1.0"], "ratio 1.0 is outside [0, 1)"),
        (["--ratio", "-0.2"], "ratio -0.2 is outside [0, 1)"),
        (["--ratio", "0.9999999999999"], "would keep none of 1438 samples"),
        (["--partitions", "1000"], "at most 719"),
        (["--partitions", "0"], "partitions = 0"),
        (["--method", "mosso"], "unknown method 'mosso'; nearest: moso"),
        (["--selector", "blanced"], "unknown selector 'blanced'; nearest: balanced"),
        (["--model", "convnt"], "unknown model 'convnt'; nearest: convnet"),
        (["--dataset", "digit"], "unknown data set 'digit'; nearest: digits"),
        (["--recipe", "paper-cifr"], "unknown recipe 'paper-cifr'; nearest: paper-cifar"),
        (["--time-steps", "9999"], "9999 time steps were asked for but training has only"),
        (["--dataset", "parquet:nowhere.parquet"], "nowhere.parquet"),
        (["--dataset", "folder:nowhere"], "nowhere"),
        (["--labels", "nowhere.npy"], "nowhere.npy"),
        (["--label-noise", "1.5"], "label_noise = 1.5"),
        (["--device", "quantum"], "device 'quantum' is not known"),
        (["--device", "cuda:7"], "is not available"),
        (["--sampling", "sometimes"], "sampling = 'sometimes'"),
        (["--learning-rate", "-1"], "learning_rate"),
        (["--epochs", "0"], "epochs"),
        (["--match", "hours"], "match = 'hours'"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--epochs", "many"], "'--epochs'"),
    ],
)
def test_flags(refused, flags, sentence, tmp_path):
    said = refused("run", *SMALL, "--out", str(tmp_path / "run"), *flags)
    assert sentence in said
    # A corrected command must not meet the ruins of the wrong one.
    assert not (tmp_path / "run/run.toml").exists()


def test_label_files(refused, tmp_path):
    np.save(tmp_path / "short.npy", np.zeros(9, dtype=np.int64))
    assert "short.npy has 9 labels but the data set has 1797 samples" in refused(
        "run", *SMALL, "--labels", str(tmp_path / "short.npy")
    )
    np.save(tmp_path / "fractional.npy", np.full(1797, 0.5))
    assert "not a whole number" in refused("run", *SMALL, "--labels", str(tmp_path / "fractional.npy"))
    np.save(tmp_path / "outside.npy", np.full(1797, 10))
    assert "out of range" in refused("run", *SMALL, "--labels", str(tmp_path / "outside.npy"))
    np.save(tmp_path / "one.npy", np.zeros(1797, dtype=np.int64))
    assert "class" in refused("run", *SMALL, "--labels", str(tmp_path / "one.npy"))


def test_toml_files(refused, tmp_path):
    assert "cannot be read as TOML" in refused("run", "missing.toml")
    (tmp_path / "broken.toml").write_text("ratios = [")
    assert "cannot be read as TOML" in refused("run", "broken.toml")
    (tmp_path / "typo.toml").write_text('datset = "digits"')
    assert "unknown setting 'datset'; nearest: dataset" in refused("run", "typo.toml")
    (tmp_path / "new.toml").write_text("format = 2")
    assert "format 2 is not known" in refused("run", "new.toml")
    (tmp_path / "recipe.toml").write_text("[surrogate]\nepoch = 3")
    assert "epoch" in refused("run", "recipe.toml")
    assert "is a directory" in refused("run", str(tmp_path))


def test_run_directories(refused, done, tmp_path):
    out = str(tmp_path / "run")
    done("run", *SMALL, "--out", out)
    assert "another configuration (ratios differ)" in refused("run", *SMALL, "--ratio", "0.6", "--out", out)
    before = (tmp_path / "run/scores.parquet").read_bytes()
    assert "unknown method" in refused("select", out, "--method", "el3n")
    assert "is not a run directory" in refused("score", str(tmp_path))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.doc").write_text("precious")
    assert "not empty and not a run directory" in refused("run", *SMALL, "--out", str(tmp_path / "other"))
    assert (tmp_path / "run/scores.parquet").read_bytes() == before
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    del manifest["checksum"]  # as in a run of another version
    (tmp_path / "run/manifest.json").write_text(json.dumps({**manifest, "format": 7}))
    assert "has format 7; this version reads format 1" in refused("score", out)
    manifest["dataset"]["fingerprint"]["train"] = "0" * 32
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    assert "is not what it was" in refused("evaluate", out)


def test_a_later_selection_and_its_proof_join_the_run(done, tmp_path):
    import moso

    out = str(tmp_path / "run")
    done("run", *SMALL, "--out", out)
    done("score", out, "--method", "moso-rank", "--quiet")
    done("evaluate", out, "--method", "moso-rank", "--selector", "top", "--ratio", "0.25", "--workers", "1")
    run = moso.Run.open(out)
    assert len(run.kept("moso-rank", 0.25)) == 1438 - 359
    assert {(row["method"], row["ratio"]) for row in run.evaluation()} >= {("moso-rank", 0.25), ("moso", 0.5)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory(refused, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "cannot write to" in refused("run", *SMALL, "--out", str(tmp_path / "closed/run"))


def test_an_output_below_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write to" in refused("run", *SMALL, "--out", str(tmp_path / "file/run"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_sentence_and_loses_nothing(refused, done, tmp_path, monkeypatch):
    out = str(tmp_path / "run")
    done("train", *SMALL[:10], "--out", out, "--workers", "1", "--quiet")
    trained = sorted(path.name for path in (tmp_path / "run/trajectory").rglob("*.safetensors"))

    def full(*_: object, **__: object) -> None:
        with Path("/dev/full").open("wb", buffering=0) as disk:
            disk.write(b"x")

    monkeypatch.setattr("numpy.savez", full)
    assert "No space left on device; what was complete is kept" in refused("score", out, "--workers", "1", "--quiet")
    monkeypatch.undo()
    assert sorted(path.name for path in (tmp_path / "run/trajectory").rglob("*.safetensors")) == trained
    assert not list((tmp_path / "run").rglob("*.moso-tmp"))
    done("score", out, "--workers", "1", "--quiet")


def test_a_loss_that_explodes_in_a_worker_process_is_one_sentence(refused, tmp_path):
    said = refused("run", *SMALL, "--workers", "2", "--learning-rate", "1e9", "--out", str(tmp_path / "run"))
    assert "the loss became" in said
    assert "with learning rate" in said


def test_lists_are_for_people_and_programs(done):
    assert "moso-rank" in done("methods")
    rows = json.loads(done("methods", "--json"))
    assert {"method", "score", "selector", "baseline"} == {row["kind"] for row in rows}
    assert "convnet" in done("models")
    assert "digits" in [row["name"] for row in json.loads(done("datasets", "--json"))]


def test_a_dry_run_writes_nothing(done, tmp_path):
    said = done("run", *SMALL[:10], "--dry-run", "--out", str(tmp_path / "run"))
    assert "by a short calibration" in said
    assert not (tmp_path / "run").exists()


def test_a_file_of_settings_and_flags_over_it(done, tmp_path):
    import moso

    settings = {"model": '"mlp-w8"', "epochs": 2, "partitions": 2, "time_steps": 2, "seeds": 1, "ratios": "[0.5]"}
    text = "\n".join(f"{name} = {value}" for name, value in settings.items()) + '\nout = "named"\nmethods = ["moso"]\n'
    (tmp_path / "mine.toml").write_text(text)
    done("run", "mine.toml", "--partitions", "3", "--quiet", "--workers", "1")
    assert moso.Run.open(tmp_path / "named").configuration.partitions == 3


def test_a_run_of_a_relative_path_can_be_opened_from_anywhere(done, tmp_path, monkeypatch):
    import moso

    labels = np.arange(1797) % 10
    np.savez(tmp_path / "labels.npz", mine=labels, other=labels)
    done("train", *SMALL[:10], "--labels", "labels.npz:mine", "--workers", "1", "--quiet", "--out", "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = moso.Run.open(tmp_path / "run")
    assert run.configuration.labels == f"{tmp_path / 'labels.npz'}:mine"
    assert set(run.samples().labels.tolist()) == set(range(10))


def test_paths_become_whole_in_every_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.npz").write_bytes(b"")
    Path("data").mkdir()
    assert whole_path("a.npz") == str(tmp_path / "a.npz")
    assert whole_path("a.npz:key") == f"{tmp_path / 'a.npz'}:key"
    assert whole_path("folder:data") == f"folder:{tmp_path / 'data'}"
    assert whole_path("parquet:a.npz?label=fine") == f"parquet:{tmp_path / 'a.npz'}?label=fine"
    assert whole_path("hf:somebody/something") == "hf:somebody/something"
    Path("digits").mkdir()  # a folder of the same name is not what the name means
    assert whole_path("digits") == "digits"


def test_version(done):
    assert done("--version").strip() == sys.modules["moso"].__version__
