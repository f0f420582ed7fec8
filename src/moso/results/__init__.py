"""A run directory and its contents (scores, selections, retrainings), which `Run` reads."""

from moso.results.directory import RunDirectory
from moso.results.reading import Run

__all__ = ["Run", "RunDirectory"]
