"""Every network of the zoo: scores are those of brute force in float64, and only a few may be refused instead."""

from functools import cache

import numpy as np
import pytest
import torch

import moso
from benchmarks.scoring.compare import largest_error
from benchmarks.zoo.networks import ZOO
from benchmarks.zoo.problem import checkpoints, make
from benchmarks.zoo.truth import true_scores
from moso.errors import MosoError

N, STEPS = 25, 11
BATCH = 7  # 25 samples are batches of 7, 6, 6 and 6
LIMITS = {torch.float32: 1e-5, torch.float64: 1e-9}
# Batches of these cannot be taken apart again, or the network keeps state of its own: a sentence that says so will do.
MAY_BE_REFUSED = {"graph", "embedding-bag-offsets", "deep-sets", "levit"}


# Two checkpoints show what outlives the first one; rounding shows at one.
CHECKPOINTS = {torch.float32: 1, torch.float64: 2}


@cache
def truth(name: str, number: int) -> np.ndarray:
    """The scores that checkpoint `number` alone would give."""
    problem, states = make(ZOO[name], torch.float64, samples=N), checkpoints(ZOO[name], torch.float64)
    return true_scores(problem, states[number : number + 1], STEPS)


@pytest.mark.parametrize("dtype", LIMITS, ids=["float32", "float64"])
@pytest.mark.parametrize("name", ZOO)
def test_scores_are_those_of_brute_force(name, dtype):
    count = CHECKPOINTS[dtype]
    problem, states = make(ZOO[name], dtype, samples=N), checkpoints(ZOO[name], dtype, count=count)
    try:
        found = moso.score(
            problem.model,
            problem.items,
            states,
            loss=problem.loss,
            batch_size=BATCH,
            collate=problem.collate,
            total_steps=STEPS,
        )
    except MosoError:
        if name in MAY_BE_REFUSED:
            return
        raise
    expected = np.mean([truth(name, number) for number in range(count)], axis=0)
    assert largest_error(found, expected) <= LIMITS[dtype]


@pytest.mark.parametrize(
    "name",
    ["resnet8", "vit", "swin", "levit", "gpt2", "llama-dora", "encoder-sequence-first", "bilinear", "weight-norm",
     "dora", "tied-decoder", "fourier", "lstm", "packed-lstm", "masked-tagger", "two-tasks", "experts-top1", "graph"],
)  # fmt: skip
def test_a_network_that_is_looked_at_for_the_first_time_has_the_same_bits_as_later(name):
    # A run that was killed and resumed looks at its network again, between two of its time steps.
    problem = make(ZOO[name], torch.float32, samples=N)
    first, again = (
        moso.score(
            problem.model,
            problem.items,
            checkpoints(ZOO[name], torch.float32, count=1),
            loss=problem.loss,
            batch_size=BATCH,
            collate=problem.collate,
            total_steps=STEPS,
        )
        for _ in range(2)
    )
    assert np.array_equal(first, again)


def test_the_zoo_has_what_was_promised():
    assert len(ZOO) >= 28


@pytest.mark.parametrize("name", ["resnet8", "gpt2", "fourier", "packed-lstm", "graph"])
def test_precisions_share_weights_and_samples(name):
    narrow, wide = (make(ZOO[name], dtype, samples=4) for dtype in (torch.float32, torch.float64))
    for one, other in zip(narrow.model.parameters(), wide.model.parameters(), strict=True):
        assert (one.dtype, other.dtype) in {
            (torch.float32, torch.float64),
            (torch.complex64, torch.complex128),
        }
        assert torch.equal(one, other.to(one.dtype))
    first, second = checkpoints(ZOO[name], torch.float64)
    assert all(torch.equal(value, first[0][key]) for key, value in wide.model.state_dict().items())
    assert any(not torch.equal(value, second[0][key]) for key, value in first[0].items())


def test_brute_force_is_the_gradient_of_the_others_mean_loss_along_ones_own():
    """The formula against its meaning: what a step along one's own gradient does to the mean loss of all others."""
    network = ZOO["bare-matrices"]
    problem, states = make(network, torch.float64, samples=6), checkpoints(network, torch.float64, count=1)
    found = true_scores(problem, states, total_steps=6)
    parameters = list(problem.model.parameters())
    for z, item in enumerate(problem.items):
        others = [other for place, other in enumerate(problem.items) if place != z]
        rest, own = (
            torch.autograd.grad(problem.loss(problem.model, problem.collate(list(some))).mean(), parameters)
            for some in (others, [item])
        )
        product = sum(float((one * other).sum()) for one, other in zip(rest, own, strict=True))
        assert found[z] == pytest.approx(0.1 * product, rel=1e-12)
