"""A run at work: its job, the plan, the pieces and the stages; lower rooms do the work, executors say where."""

from moso.run.job import Job

__all__ = ["Job"]
