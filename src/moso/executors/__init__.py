"""Executors run the pieces of a run somewhere; they do not depend on what a piece does."""

from moso.executors.local import InProcess, LocalProcesses, local_executor
from moso.executors.ray import RayTasks
from moso.executors.torchrun import TorchRun

__all__ = ["InProcess", "LocalProcesses", "RayTasks", "TorchRun", "local_executor"]
