"""Where the pieces of a run are done; nobody here knows what a piece does."""

from moso.executors.local import InProcess, LocalProcesses

__all__ = ["InProcess", "LocalProcesses"]
