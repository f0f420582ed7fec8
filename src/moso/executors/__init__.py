"""Where the pieces of a run are done; nobody here knows what a piece does."""

from moso.executors.local import InProcess, LocalProcesses, local_executor
from moso.executors.ray import RayTasks
from moso.executors.torchrun import TorchRun

__all__ = ["InProcess", "LocalProcesses", "RayTasks", "TorchRun", "local_executor"]
