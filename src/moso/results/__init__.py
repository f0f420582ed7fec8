"""A run directory and what lies in it: scores, selections, retrainings, read again by `Run`."""

from moso.results.directory import RunDirectory
from moso.results.reading import Run

__all__ = ["Run", "RunDirectory"]
