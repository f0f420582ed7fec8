"""The wheel and the sdist build, and what they hold runs without the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The extras of moso.integrations ask for the versions they were written with: `make test-oldest` leaves them out.
INTEGRATIONS = ("transformers", "accelerate", "lightning", "skorch", "peft", "datasets", "wandb", "mlflow")
TRY = [
    *("run", "--model", "mlp-w8", "--recipe", "quick", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--workers", "1", "--quiet", "--out", "run"),
]


def test_the_lock_has_the_tested_versions_and_a_hash_of_every_file():
    """`make lock` writes it; pip refuses a requirement without a hash as soon as one has some."""
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    locked = {name: entry for entry in entries for name in re.findall(r"^([A-Za-z0-9._-]+)==(?=\S)", entry)}
    assert all("--hash=sha256:" in entry for entry in entries)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    plain = {re.sub(r"[._-]+", "-", name).lower(): version.split()[0] for name, version in tested.items()}
    other = [name for name, entry in locked.items() if name in plain and f"=={plain[name]} " not in f"{entry} "]
    assert not other, "constraints.txt has changed: make lock"
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.match(r"[A-Za-z0-9._-]+", one)[0] for one in asked} <= set(locked), "pyproject.toml changed: make lock"


def test_lower_bounds_are_the_versions_that_test_oldest_runs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for name in project["optional-dependencies"] if name not in ("test", "bench", "docs", *INTEGRATIONS)]
    asked = [*project["dependencies"], *(one for name in extras for one in project["optional-dependencies"][name])]
    lines = (ROOT / "constraints-oldest.txt").read_text().partition("\n\n")[0].splitlines()
    tested = [line.replace("==", ">=") for line in lines if not line.startswith("#")]
    # 2.4 is 2.4.0.
    assert {re.sub(r"(\.0)+$", "", one) for one in tested} == {re.sub(r"(\.0)+$", "", one) for one in asked}
    makefile = (ROOT / "Makefile").read_text()
    assert f"--editable '.[{','.join(extras)}]' $(TEST_TOOLS)" in makefile


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_both_hold_what_they_should(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "moso/py.typed",
        "moso/training/recipes/digits.toml",
        "moso/report/page/assets/page.js",
        "moso/api/pruning.py",
        "moso/data/sources/demo_data/features.npz",
        "moso/data/sources/demo_data/PROVENANCE.md",
    ):
        assert name in names
    assert not any(name.startswith("tests") for name in names)
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "Makefile",
        "constraints.txt",
        "constraints-oldest.txt",
        "src/moso/api/pruning.py",
        "tests/conftest.py",
        "examples/with_transformers.py",
        "LICENSE",
        "CITATION.cff",
        "mkdocs.yml",
        "docs/guide/index.md",
        "website/hooks.py",
    } <= inside
    assert not any(name.startswith("docs/results") for name in inside)
    assert sdist.stat().st_size < 8e6


def test_the_wheel_runs_from_elsewhere(built, tmp_path):
    """Unpacked beside the installed dependencies, with the checkout out of sight."""
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = "import moso; print(moso.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert found.stdout.startswith(str(tmp_path))
    subprocess.run([sys.executable, "-m", "moso", *TRY], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "run/report.html").stat().st_size > 10_000


@pytest.mark.long
def test_the_wheel_installs_clean_and_runs(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([tmp_path / "venv/bin/moso", *TRY], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "run/selections.parquet").exists()
    without_extra = subprocess.run(
        [tmp_path / "venv/bin/moso", "run", "--model", "resnet18", "--dry-run"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert without_extra.returncode == 2
    assert "moso-prune[vision]" in without_extra.stderr
