"""The samples of `moso exact`: those that make up S, and those of S that are left out one by one."""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.data.samples import Samples, StoredSamples
from moso.data.views import Normalisation
from moso.randomness import hashes


def scaled_inputs(train: Samples, inputs: str) -> Samples:
    """Return the samples with normalised inputs, or with plain ones (pixels in 0..1, numbers as stored).

    Args:
        train: The training samples.
        inputs: ``"normalised"`` or ``"plain"``.

    Raises:
        SettingInvalid: `inputs` is neither, or the samples cannot be read plain.
    """
    if inputs == "normalised":
        return train
    if inputs != "plain" or not isinstance(train, StoredSamples):
        raise errors.SettingInvalid(f"--inputs {inputs}: it is 'normalised' or 'plain'")
    pixels = train.reader.read(np.array([0])).dtype == np.uint8
    channels = train.shape[0]
    return train.normalised(Normalisation((0.0,) * channels, (255.0,) * channels) if pixels else Normalisation())


def choose_samples(train: Samples, count: int, seed: int, named: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ascending positions that make up S: the named samples, and others drawn by (seed, id).

    Args:
        train: The training samples.
        count: Size of S, from 2 to all samples.
        seed: Seed of the draw.
        named: Positions that must be in S.

    Raises:
        SettingInvalid: `count` is out of range.
        SettingsConflict: More samples are named than S has.
    """
    if not 2 <= count <= len(train):
        raise errors.SettingInvalid(f"--samples {count}: S must have at least 2 and at most all {len(train)} samples")
    if len(named) > count:
        raise errors.SettingsConflict(f"--leave-out names {len(named)} samples but S has only {count}; raise --samples")
    drawn = np.argsort(hashes(train.keys, seed, "exact-samples"), kind="stable")
    others = drawn[~np.isin(drawn, named)]
    return np.sort(np.concatenate([named, others[: count - len(named)]]))


def named_positions(train: Samples, leave_out: str) -> NDArray[np.int64]:
    """Return the ascending positions of the samples that `--leave-out` names by id; none if it is a number or 'all'.

    Raises:
        SettingInvalid: `leave_out` is empty.
        SampleUnknown: An id does not exist.
    """
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
    """Return the ascending positions that are left out one by one.

    Args:
        train: The training samples.
        positions: Positions of S.
        leave_out: ``"all"``, a number of samples to draw by (seed, id), or ids separated by commas.
        named: Positions of the ids in `leave_out`, if there are any.
        seed: Seed of the draw.

    Raises:
        SettingInvalid: The number is out of range.
    """
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
