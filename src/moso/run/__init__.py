"""Running: the job of a run, the plan, the pieces of work and the stages; executors decide where pieces run."""

from moso.run.job import Job

__all__ = ["Job"]
