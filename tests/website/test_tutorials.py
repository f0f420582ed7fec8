"""Tutorials run from top to bottom and print what their pages show; as notebooks they are whole."""

import difflib
import json
import re
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest

from moso.models.compat import prepare_torchvision
from website.notebooks import PAGES, TUTORIALS, as_notebook, cells, run_cell

NEEDS = {"wrong-labels": ("cleanlab",), "fine-tuning": ("transformers", "peft", "datasets"), "ray-cluster": ("ray",)}
LONG = ("compare-fairly", "ray-cluster")


def words(text: str) -> list[str]:
    """Words of what a cell printed; numbers and frames of tables vary from machine to machine."""
    return re.findall(r"[A-Za-z_]+", text)


# Trainer pins memory for a device that is not here.
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in TUTORIALS]
)
def test_tutorials_run_and_print_what_is_shown(name, tmp_path, monkeypatch):
    if missing := [package for package in NEEDS.get(name, ()) if find_spec(package) is None]:
        pytest.skip(f"needs {missing[0]}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mpl, "rcParams", mpl.rcParams.copy())
    mpl.use("Agg")
    prepare_torchvision()
    session: dict[str, object] = {}
    for cell in cells((PAGES / f"{name}.md").read_text(encoding="utf-8")):
        if cell.kind == "markdown":
            continue
        printed = run_cell(cell, session, tmp_path, name)
        if cell.printed is not None:
            alike = difflib.SequenceMatcher(None, words(printed), words(cell.printed), autojunk=False).ratio()
            assert alike >= 0.75, f"{name} shows\n{cell.printed}\nbut prints\n{printed}"
    for picture in tmp_path.glob("*.png"):
        assert (PAGES / "images" / picture.name).is_file()


@pytest.mark.parametrize("name", TUTORIALS)
def test_pages_show_what_was_printed_and_pictures_that_are_made(name):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert not re.search(r"```text\n\s*```", page), "run `python -m website.notebooks` to fill in what is printed"
    for picture in re.findall(r"\]\(images/([^)]+)\)", page):
        assert f'"{picture}"' in page
    assert str(Path.home()) not in page
    assert "/tmp/" not in page


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_whole_page_in_cells(name):
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    book = json.loads(as_notebook(page))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    text = "".join(cell["source"] for cell in book["cells"])
    printed = "".join(part["text"] for cell in book["cells"] for part in cell.get("outputs", ()))
    for line in page.splitlines():
        # A console line becomes `!command`, joined where it was broken.
        bare = line.strip().removeprefix("$ ").rstrip("\\").split("  #")[0].strip()
        assert bare.startswith("```") or bare in text or line in printed, line
    for cell in book["cells"]:
        if cell["cell_type"] == "code" and not cell["source"].startswith("!"):
            compile(cell["source"], name, "exec")


def test_a_command_that_fails_is_noticed(tmp_path):
    (cell,) = cells("```console\n$ moso run --dataset nowhere --out here\n```\n")
    with pytest.raises(RuntimeError, match="nowhere"):
        run_cell(cell, {}, tmp_path)
    assert not (tmp_path / "here").exists()
