"""The view that is taken where the setting leaves it open, and defaults that runs of before do not get."""

import pytest

from moso.configuration import Configuration
from moso.run.job import Job

SMALL = {"dataset": "digits", "epochs": 1, "partitions": 2, "time_steps": 1, "seeds": 1, "ratios": [0.5]}


@pytest.mark.parametrize(
    ("settings", "view", "words"),
    [
        ({"model": "convnet-w4", "augmentation": "none"}, "training", ["batch-norm"]),
        ({"model": "mlp-w8", "augmentation": "crop"}, "training", ["augmented"]),
        ({"model": "convnet-w4", "augmentation": "crop"}, "training", ["batch-norm", "augmented"]),
        ({"model": "mlp-w8", "augmentation": "none"}, "evaluation", []),
        ({"model": "convnet-w4", "shard_size": 100}, "evaluation", []),
        ({"model": "convnet-w4", "methods": ["el2n"]}, "evaluation", []),
        ({"model": "convnet-w4", "view": "evaluation"}, "evaluation", []),
        ({"model": "mlp-w8", "augmentation": "none", "view": "training"}, "training", []),
    ],
)
def test_it_is_that_of_training_with_batch_norm_or_augmentation(settings, view, words, tmp_path):
    job = Job.open(tmp_path, Configuration.resolve({**SMALL, **settings}))
    assert job.configuration.view == view
    assert bool(job.view_reason) == bool(words)
    assert all(word in job.view_reason for word in words)


def test_the_run_says_what_was_taken(tmp_path):
    given = Configuration.resolve({**SMALL, "model": "convnet-w4"})
    job = Job.open(tmp_path, given)
    assert given.view == "auto"
    with job.directory.locked():
        job.directory.settle(job.configuration)
    assert job.directory.configuration().view == "training"
    again = Job.open(tmp_path, given)
    with again.directory.locked():
        again.directory.settle(again.configuration)  # the same command goes on


def test_runs_of_before_keep_their_meaning():
    written = Configuration.resolve(SMALL).model_dump(mode="json", exclude_none=True)
    old = {name: value for name, value in written.items() if name not in ("view", "methods", "window", "rounds")}
    found = Configuration.resolve(old)
    assert found.view == "evaluation"
    assert found.methods == ("moso", "moso-standardised", "moso-rank")
    assert (found.window, found.rounds) == (1.0, 1)
    assert Configuration.resolve(SMALL).methods == ("moso-rank",)
