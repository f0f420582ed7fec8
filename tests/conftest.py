"""What tests of all rooms share: the real data beside the checkout, where it is there, and small made-up problems."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from moso.data.samples import StoredSamples
from moso.run import Configuration, Job, RunDirectory

torch.set_num_threads(1)  # tests run beside others on small machines, and threads change bits


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with CIFAR-100, CIFAR-100N and Tiny-ImageNet; tests that need it skip where it is not."""
    root = Path(os.environ.get("MOSO_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not root.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return root


@pytest.fixture
def small_run(tmp_path):
    """A function that makes a job on digits small enough to run to the end in a second or two."""

    def make(name: str = "run", **settings) -> Job:
        given = {"model": "mlp-w8", "epochs": 2, "partitions": 2, "time_steps": 3, "seeds": 1, "ratios": [0.5]}
        configuration = Configuration.resolve({**given, **settings})
        return Job.open(tmp_path / name, configuration)

    return make


def stored(count: int = 60, classes: int = 3, seed: int = 0, ids=None) -> StoredSamples:
    """Random 8 x 8 images with labels in turn."""
    images = np.random.default_rng(seed).integers(0, 255, (count, 1, 8, 8)).astype(np.uint8)
    return StoredSamples.from_arrays(images, np.arange(count) % classes, ids=ids)


__all__ = ["RunDirectory", "stored"]
