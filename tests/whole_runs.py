"""All stages of a run, one after the other."""

import moso
from moso.executors import InProcess
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage, train_stage

# A run of a few seconds with surrogates, one ratio and one seed.
TINY = {
    "dataset": "digits",
    "model": "mlp-w8",
    "epochs": 2,
    "partitions": 2,
    "time_steps": 2,
    "seeds": 1,
    "ratios": [0.6],
    "view": "evaluation",
}


def carried_out(job, executor=None):
    """The run of a job, carried out to the end, as its reader finds it."""
    executor = executor or InProcess()
    with job.directory.locked():
        begin(job)
        train_stage(job, executor)
        score_stage(job, executor)
        select_stage(job)
        evaluate_stage(job, executor)
    return moso.Run.open(job.directory.root)


def scored(job, stages=(train_stage, score_stage)):
    """The run of a job as far as its scores, or as far as these stages go, as its reader finds it."""
    with job.directory.locked():
        begin(job)
        for stage in stages:
            stage(job, InProcess())
    return moso.Run.open(job.directory.root)
