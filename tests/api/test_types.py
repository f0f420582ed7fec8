"""Type checkers understand the library; `make lint` runs mypy over typed_usage.py, too."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from typed_usage import prune_everything

USAGE = Path(__file__).with_name("typed_usage.py")
WRONG = {
    'moso.prune(([], []), ratio=0.5, epoch=3)': "epoch",
    'moso.prune(([], []), ratio=0.5, epochs="three")': "epochs",
    'moso.PruneConfig(view="sideways")': "view",
    "moso.prunes(([], []))": "prunes",
    "wrong: str = moso.select([0.1], ratio=0.5)": "str",
}  # fmt: skip


def test_the_typed_example_runs(tmp_path):
    assert len(prune_everything(tmp_path / "run")) == 20


def checked(tool: list[str], files: list[Path]) -> str:
    done = subprocess.run([sys.executable, "-m", *tool, *map(str, files)], capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("tool", ["mypy", "pyright"])
def test_type_checkers_accept_the_right_and_find_the_wrong(tool, tmp_path):
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    options = (
        ["mypy", "--strict", "--follow-imports=silent"]
        if tool == "mypy"
        else ["pyright", "--pythonpath", sys.executable]
    )
    wrong = tmp_path / "wrong_usage.py"
    wrong.write_text("import moso\n" + "\n".join(WRONG) + "\n")
    said = checked(options, [USAGE, wrong])
    if tool == "pyright" and "informations" not in said:
        pytest.skip("pyright cannot fetch its program here")
    lines = [line for line in said.splitlines() if "error" in line and ".py:" in line]
    assert [line for line in lines if "typed_usage.py" in line] == [], said
    for number, word in enumerate(WRONG.values(), 2):
        assert any(f"wrong_usage.py:{number}:" in line and word in line for line in lines), (word, said)
