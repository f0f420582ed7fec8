"""Which time steps of a training run are sampled: K distinct ones of 1..T, seeded."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.randomness import generator

Sampling = Literal["uniform", "stratified"]


def sample_steps(total_steps: int, samples: int, seed: int, sampling: Sampling = "stratified") -> NDArray[np.int64]:
    """Return `samples` distinct steps of 1..`total_steps`, ascending.

    `uniform` is the paper's; `stratified` draws one step from each of K equal stretches of training, at the same cost
    and, because `eta_t * a_t` falls over a run, with a lower variance.

    Raises:
        SettingInvalid: `samples` is below 1 or above `total_steps`.

    Example:
        >>> sample_steps(100, 4, seed=0, sampling="stratified") // 25.001
        array([0., 1., 2., 3.])
        >>> len(set(sample_steps(10, 10, seed=0, sampling="uniform").tolist()))
        10
    """
    if samples < 1:
        raise errors.SettingInvalid(f"{samples} time steps were asked for; at least 1 is needed")
    if samples > total_steps:
        raise errors.SettingInvalid(
            f"{samples} time steps were asked for but training has only {total_steps}; "
            "ask for fewer (time_steps) or train longer (epochs)"
        )
    draw = generator(seed, "time-steps", total_steps, samples)
    if sampling == "uniform":
        return np.sort(draw.choice(total_steps, samples, replace=False)).astype(np.int64) + 1
    edges = np.arange(samples + 1) * total_steps // samples
    return draw.integers(edges[:-1], edges[1:]) + 1
