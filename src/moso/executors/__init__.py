"""Executors run the pieces of a run somewhere; they do not depend on what a piece does."""

from moso.executors.forked import ForkedProcesses
from moso.executors.local import InProcess, LocalProcesses, local_executor
from moso.executors.ray import RayTasks
from moso.executors.torchrun import TorchRun

__all__ = ["ForkedProcesses", "InProcess", "LocalProcesses", "RayTasks", "TorchRun", "local_executor"]
