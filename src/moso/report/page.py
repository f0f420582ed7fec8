"""report.html: one file that opens offline."""

from pathlib import Path

from moso.run.reading import Run


def write_report(run: Run) -> Path:
    """Write the page; returns its path."""
    return run.directory.root / "report.html"
