"""`docs/reference/run-directory.md` names every file that runs write, and the columns of their tables."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from moso.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs/reference/run-directory.md").read_text(encoding="utf-8")
PLACEHOLDERS = {
    "PART": r"part-\d{3}",
    "REF": r"reference-\d\d",
    "TRAINING": r"[a-z]+-[\w-]+",
    "STEP": r"step-\d{8}",
    "HASH": "[0-9a-f]{16}",
    "RATIO": r"[\d.]+",
    **dict.fromkeys(("NAME", "COLUMN", "PLOT", "WRITER", "OTHER"), r"[\w.-]+"),
    "FILE": r".+",
}
SMALL = (
    "--model mlp-w8 --recipe quick --epochs 2 --partitions 3 --time-steps 2 --seeds 2 --ratio 0.5 --workers 1 --quiet"
)
METHODS = ("moso-rank", "aum", "el2n", "grand", "moderate", "entropy", "ssp", "opt", "moso-adjoint", "moso-cross")


def documented() -> list[str]:
    """Patterns of the files that the page names: code in the first column of its tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", PAGE, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def as_expression(name: str) -> str:
    parts = re.split(f"({'|'.join(PLACEHOLDERS)})", name)
    return "".join(PLACEHOLDERS.get(part, re.escape(part)) for part in parts)


def is_documented(file: str) -> bool:
    below = re.sub(r"^seeds/seed-\d{5}/", "", file)
    return any(re.fullmatch(as_expression(name), below) for name in documented())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs") / "run"
    methods = [word for name in METHODS for word in ("--method", name)]
    runner = CliRunner()
    for words in (
        ["compare", "--dataset", "digits", "--label-noise", "0.2", *SMALL.split(), *methods, "--out", str(root)],
        ["suspects", str(root), "--workers", "1"],
    ):
        done = runner.invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    return root


def test_every_file_of_a_run_is_documented(run: Path) -> None:
    files = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    assert len(files) > 80
    assert [file for file in files if not is_documented(file)] == []


def test_columns_of_tables_are_documented(run: Path) -> None:
    """A column that is no score, or a file's own, is named in the row of its file."""
    for name in ("scores.parquet", "selections.parquet", "evaluation.parquet", "compare/comparison.parquet",
                 "suspects/suspects.parquet"):  # fmt: skip
        row = re.findall(rf"^\| [^|]*`{re.escape(name)}`.*$", PAGE, flags=re.MULTILINE)[0]
        for column in pq.read_schema(run / name).names:
            short = re.sub("_(low|high)$", "", column)
            scores = [path.stem for path in (run / "scores").glob("*.parquet")]
            if column not in (*scores, "actual", "wrong", "truth", "right_label"):
                assert f"`{short}`" in row, f"{name} has a column {column}"


def test_an_unknown_file_is_noticed() -> None:
    assert is_documented("seeds/seed-00001/terms/part-002/step-00000012.npz")
    assert not is_documented("surprise.parquet")
    assert not is_documented("terms/part-002/surprise.npz")
