"""What `moso exact` works on: the samples that make up S, and those of them that are left out one by one."""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.data.samples import Samples, StoredSamples
from moso.data.views import Normalisation
from moso.randomness import hashes


def scaled_inputs(train: Samples, inputs: str) -> Samples:
    """The samples with inputs normalised as elsewhere, or plain: pixels in 0..1, numbers as stored."""
    if inputs == "normalised":
        return train
    if inputs != "plain" or not isinstance(train, StoredSamples):
        raise errors.SettingInvalid(f"--inputs {inputs}: it is 'normalised' or 'plain'")
    pixels = train.reader.read(np.array([0])).dtype == np.uint8
    channels = train.shape[0]
    return train.normalised(Normalisation((0.0,) * channels, (255.0,) * channels) if pixels else Normalisation())


def choose_samples(train: Samples, count: int, seed: int, named: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions that make up S, ascending: the samples named, and others drawn by (seed, id)."""
    if not 2 <= count <= len(train):
        raise errors.SettingInvalid(f"--samples {count}: S must have at least 2 and at most all {len(train)} samples")
    if len(named) > count:
        raise errors.SettingsConflict(f"--leave-out names {len(named)} samples but S has only {count}; raise --samples")
    drawn = np.argsort(hashes(train.keys, seed, "exact-samples"), kind="stable")
    others = drawn[~np.isin(drawn, named)]
    return np.sort(np.concatenate([named, others[: count - len(named)]]))


def named_positions(train: Samples, leave_out: str) -> NDArray[np.int64]:
    """The positions of the samples that `--leave-out` names by id, ascending; none where it says how many."""
    if leave_out == "all" or leave_out.isdigit():
        return np.zeros(0, dtype=np.int64)
    asked = [name.strip() for name in leave_out.split(",") if name.strip()]
    if not asked:
        raise errors.SettingInvalid("--leave-out is empty; give 'all', a number of samples, or ids separated by commas")
    places = {str(name): position for position, name in enumerate(train.ids.to_pylist())}
    for name in asked:
        if name not in places:
            raise errors.SampleUnknown(f"--leave-out: there is no training sample with id {name!r}")
    return np.array(sorted({places[name] for name in asked}), dtype=np.int64)


def left_out_positions(
    train: Samples, positions: NDArray[np.int64], leave_out: str, named: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """The positions left out one by one, ascending: all of S, those named, or so many drawn by (seed, id)."""
    if leave_out == "all":
        return positions
    if len(named):
        return named
    count = int(leave_out)
    if not 1 <= count <= len(positions):
        raise errors.SettingInvalid(
            f"--leave-out {count}: between 1 and all {len(positions)} samples of S can be left out"
        )
    order = np.argsort(hashes(train.keys[positions], seed, "leave-out"), kind="stable")
    return np.sort(positions[order[:count]])
