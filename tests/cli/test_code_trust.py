"""A stranger's file runs no code: what it names is imported only if somebody on this machine said so."""

import sys
from uuid import uuid4

import pytest

import moso
from refusals import refusal

SMALL = [
    *("--epochs", "1", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--workers", "1", "--quiet"),
]
CODE = """
from pathlib import Path

from moso.models import build_model

with Path(__file__).with_suffix(".log").open("a") as log:
    log.write("imported\\n")


def make(input_shape, num_classes):
    return build_model("mlp-w4", input_shape, num_classes, seed=0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the current folder that notes when it is imported, under a name that nobody has trusted yet."""
    name = f"stranger_{uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def stranger(module, done, tmp_path):
    """A finished run of a network in the current folder, as if a stranger had sent it."""
    other = f"{module}_made"
    (tmp_path / f"{other}.py").write_text(CODE)
    done("run", *SMALL, "--model", f"{other}:make", "--out", "run")
    text = (tmp_path / "run/run.toml").read_text().partition("\n")[2].replace(other, module)
    (tmp_path / "run/run.toml").write_text(text)
    for path in (tmp_path / "run").glob("evaluation/*"):
        path.unlink()
    return tmp_path / "run"


def was_imported(module, tmp_path):
    return (tmp_path / f"{module}.log").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["select", "run", "--ratio", "0.6"],
        ["export", "run", "--ratio", "0.7", "--method", "moso", "--out", "kept.csv"],
        *(["report", "run"], ["status", "run"], ["verify", "run"]),
    ],
)
def test_verbs_that_need_no_network_build_none(stranger, done, module, tmp_path, command):
    done(*command)
    assert not was_imported(module, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        *(["run", "run/run.toml", "--dry-run"], ["run", "run/run.toml", "--out", "other"], ["evaluate", "run"]),
        *(["run", *SMALL, "--out", "run"], ["score", "run", "--method", "el2n"], ["suspects", "run"]),
    ],
)
def test_code_that_only_a_file_names_is_not_imported(stranger, left, module, tmp_path, command):
    code, _, said = left(*command)
    assert not was_imported(module, tmp_path)
    assert code == 2
    assert f"{module}:make" in said or "differ" in said
    assert "Traceback" not in said


def test_the_library_does_not_import_it_either(stranger, module, tmp_path):
    with refusal("code-untrusted", f"{module}:make"):
        moso.Run.open(stranger).build_model()
    assert not was_imported(module, tmp_path)
    moso.Run.open(stranger, trust=True).build_model()
    assert was_imported(module, tmp_path)


@pytest.mark.parametrize("how", ["--trust", "variable", "named"])
def test_it_is_imported_if_somebody_says_so(stranger, done, module, tmp_path, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("MOSO_TRUST", "1")
    more = {"--trust": ["--trust"], "named": ["--model", f"{module}:make"]}.get(how, [])
    done("run", "run/run.toml", "--out", "other", "--quiet", "--workers", "1", *more)
    assert was_imported(module, tmp_path)


def test_worker_processes_trust_what_the_command_line_named(module, done, tmp_path):
    done("run", *SMALL, "--workers", "2", "--model", f"{module}:make", "--out", "run")
    assert was_imported(module, tmp_path)


def test_no_file_of_the_current_folder_stands_before_an_installed_package(module, done, tmp_path):
    (tmp_path / "tomli_w.py").write_text("raise SystemExit('shadowed')")
    done("run", *SMALL, "--model", f"{module}:make", "--out", "run", "--dry-run")
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1
