"""Tutorials: one Markdown page is the page of the site and, turned into cells, the notebook.

A block of ```python is a code cell; a block of ```console is a cell of shell commands (`$ moso ...` becomes `!moso
...`). A block of ```text that follows either of them is what it printed, written by `python -m website.notebooks NAME`
and never by hand. Everything else is text.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "guide"
TUTORIALS = (
    "image-folder",
    "embeddings",
    "wrong-labels",
    "fine-tuning",
    "own-loop",
    "compare-fairly",
    "ray-cluster",
    "read-a-report",
)
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)```\n)?", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A cell: its kind (`markdown`, `python`, `console`), its source, and what it printed, if that is shown."""

    kind: str
    source: str
    printed: str | None = None


def cells(page: str) -> Iterator[Cell]:
    """Take a page apart into cells.

    Example:
        >>> [cell.kind for cell in cells("# A\\n\\n```python\\n1\\n```\\n\\nB\\n")]
        ['markdown', 'python', 'markdown']
    """
    position = 0
    for block in _BLOCK.finditer(page):
        if text := page[position : block.start()].strip():
            yield Cell("markdown", text)
        yield Cell(block[1], block[2], block[3])
        position = block.end()
    if text := page[position:].strip():
        yield Cell("markdown", text)


def as_notebook(page: str) -> str:
    """Return a page as a notebook (format 4.5), with what its cells printed."""
    made = []
    for number, cell in enumerate(cells(page)):
        entry: dict[str, object] = {"id": f"cell-{number:02}", "metadata": {}, "source": _source(cell)}
        if cell.kind == "markdown":
            made.append({"cell_type": "markdown", **entry})
        else:
            shown = [{"name": "stdout", "output_type": "stream", "text": cell.printed}] if cell.printed else []
            made.append({"cell_type": "code", "execution_count": None, "outputs": shown, **entry})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def commands(cell: Cell) -> list[str]:
    """Return the commands of a console cell; a line that ends with a backslash goes on in the next."""
    lines = cell.source.replace("\\\n", " ").splitlines()
    return [" ".join(line.removeprefix("$ ").partition("  #")[0].split()) for line in lines if line.startswith("$ ")]


def _source(cell: Cell) -> str:
    if cell.kind != "console":
        return cell.source.strip("\n")
    return "\n".join(f"!{command}" for command in commands(cell))


def run_cell(cell: Cell, session: dict[str, object], folder: Path, title: str = "cell") -> str:
    """Run a cell in `folder`, which must be the working directory, and return what it printed.

    Raises:
        RuntimeError: A command failed.
    """
    said = ""
    if cell.kind == "python":
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(cell.source, title, "exec"), session)
        said = printed.getvalue()
    for command in commands(cell) if cell.kind == "console" else ():
        words = re.sub(r"^moso\b", f"{sys.executable} -m moso", command)
        done = subprocess.run(words, shell=True, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        said += done.stdout
    return said.replace(f"{folder}/", "")


def rewrite(name: str, folder: Path) -> None:
    """Run a tutorial in `folder` and put what its cells print now into the page, wherever a page shows it."""
    file, session = PAGES / f"{name}.md", dict[str, object]()
    page = file.read_text(encoding="utf-8")
    fresh, position = "", 0
    for block in _BLOCK.finditer(page):
        cell = Cell(block[1], block[2], block[3])
        printed = run_cell(cell, session, folder, name)
        fresh += page[position : block.start()]
        whole = block[0]
        if cell.printed is not None:
            shown = "\n".join(line.rstrip() for line in printed.splitlines())
            whole = f"```{cell.kind}\n{cell.source}```\n\n```text\n{shown}\n```\n"
        fresh, position = fresh + whole, block.end()
    file.write_text(fresh + page[position:], encoding="utf-8")
    for picture in folder.glob("*.png"):
        shutil.copy(picture, PAGES / "images" / picture.name)


if __name__ == "__main__":
    import os
    import tempfile

    for tutorial in sys.argv[1:] or TUTORIALS:
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            rewrite(tutorial, Path(scratch))
            print(tutorial)
