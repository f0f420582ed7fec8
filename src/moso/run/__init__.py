"""The run directory: configuration, stages, resume; lower rooms do the work, executors say where."""

from moso.run.configuration import Configuration
from moso.run.directory import RunDirectory
from moso.run.job import Job
from moso.run.reading import CUSTOM, Run

__all__ = ["CUSTOM", "Configuration", "Job", "Run", "RunDirectory"]
