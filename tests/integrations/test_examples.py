"""Every script under examples/ runs in an empty folder, and passes the type checkers."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("with_*.py"))
# What a script needs beside its own package.
NEEDS = {"with_scikit_learn": "imblearn"}


def test_there_is_a_script_per_integration():
    rooms = {path.stem for path in (ROOT / "src/moso/integrations").glob("*.py")}
    shared = {"__init__", "needed", "framework_recording", "run_log", "head_losses"}
    assert {path.stem.removeprefix("with_") for path in SCRIPTS} == rooms - shared


# Lightning 2.6 makes tree specifications in a way that PyTorch 2.13 has deprecated, and wishes for more workers.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.usefixtures("accelerate")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    package = NEEDS.get(script.stem, script.stem.removeprefix("with_"))
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)  # noted, so that what the script sets is undone
    for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out
    kept, all_of_them = map(int, re.search(r"^kept (\d+) of (\d+)$", said, re.MULTILINE).groups())
    assert kept == round(0.7 * all_of_them)


@pytest.mark.long
def test_pyright_is_content_with_the_examples():
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None or find_spec("transformers") is None:
        pytest.skip("pyright or the extras are not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [pyright, "--pythonpath", sys.executable, *map(str, SCRIPTS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
