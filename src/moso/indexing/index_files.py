"""Files of an index of gradients.

    index.json                                   what it is of; written last, so an index that has it is whole
    begun.json                                   the same while it is being built
    points/part-000/step-00000012.safetensors    the network at a time step
    rows/part-000/step-00000012/00003.npy        unit vectors of one shard of samples, `[samples, numbers]`
    rows/part-000/step-00000012/00003-lengths.npy   their lengths, float32 `[samples]`

A shard is written whole or not at all, and every file carries a checksum (`moso.checksums`). Unit vectors, because
float16 has a narrow range and gradients do not.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.checksums import check, damaged
from moso.columns import Array
from moso.evidence import arrays
from moso.files import read_record, write_record

FORMAT = 1
NOTE, BEGUN = "index.json", "begun.json"
_NOTHING_ELSE = "nothing else says what the index is of: remove its folder and build it again"


@dataclass(frozen=True)
class Indexed:
    """What an index is of.

    Attributes:
        samples: Number of samples.
        numbers: Numbers per gradient.
        dtype: Type of the stored numbers, `float16` or `float32`.
        seed: Seed of the projection.
        shard: Samples per shard.
        parameters: Parameters whose gradients are indexed, and their shapes.
        steps: Time steps per part, in order.
        total_steps: Number of updates of each part's training.
        data: A hash of the samples.
    """

    samples: int
    numbers: int
    dtype: str
    seed: int
    shard: int
    parameters: dict[str, list[int]]
    steps: list[list[int]]
    total_steps: list[int]
    data: str

    @property
    def coordinates(self) -> int:
        """Number of coordinates of an unprojected gradient."""
        return int(sum(np.prod(shape, dtype=np.int64) for shape in self.parameters.values()))

    def written(self) -> dict[str, Any]:
        """Return the note of an index."""
        return {"format": FORMAT, **asdict(self)}


def read_note(folder: Path) -> Indexed:
    """Read what an index is of.

    Raises:
        FileMissing: The folder holds no index, or one that is not whole.
        FileDamaged: The note is not what was written.
        FileUnreadable: The note is of another version.
    """
    path = folder / NOTE
    if not path.is_file():
        begun = " (one was begun: the same call of build goes on)" if (folder / BEGUN).is_file() else ""
        raise errors.FileMissing(f"{folder} holds no index of gradients{begun}; build one first")
    with built_again(_NOTHING_ELSE):
        note = read_record(path)
    try:
        if note.pop("format") != FORMAT:
            raise ValueError("it is of another version")
        return Indexed(**note)
    except (ValueError, TypeError, KeyError) as problem:
        raise errors.FileUnreadable(f"{path} does not describe an index of gradients: {problem}") from problem


def begin(folder: Path, what: Indexed) -> bool:
    """Begin or continue an index; return whether it was built to its end.

    Raises:
        OutputExists: The folder holds an index of something else.
        FileDamaged: The note is not what was written: nothing else says of what the index is.
    """
    written = json.loads(json.dumps(what.written()))
    for name in (NOTE, BEGUN):
        path = folder / name
        if path.is_file():
            with built_again(_NOTHING_ELSE):
                before = read_record(path)
            if before != written:
                raise errors.OutputExists(
                    f"{folder} holds an index of other gradients (data, network, steps or settings differ); give "
                    "another folder, or remove this one"
                )
            return name == NOTE
    write_record(folder / BEGUN, written)
    return False


def finish(folder: Path, what: Indexed) -> None:
    """Mark an index as whole."""
    write_record(folder / NOTE, what.written())
    (folder / BEGUN).unlink(missing_ok=True)


def shard_path(folder: Path, part: int, step: int, shard: int) -> Path:
    """Return the path of the rows of a shard."""
    return folder / "rows" / f"part-{part:03d}" / f"step-{step:08d}" / f"{shard:05d}.npy"


def points_folder(folder: Path, part: int) -> Path:
    """Return the folder of the networks of a part."""
    return folder / "points" / f"part-{part:03d}"


def positions_path(folder: Path, part: int) -> Path:
    """Return the path of the positions of a part's samples."""
    return folder / f"positions-{part:03d}.npy"


def _lengths_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-lengths.npy")


def is_whole(path: Path) -> bool:
    """Return whether a shard is there as it was written."""
    try:
        for one in (path, _lengths_path(path)):
            check(one, once=True)
    except (errors.FileDamaged, FileNotFoundError):
        return False
    return True


def is_same(path: Path, values: NDArray[np.int64]) -> bool:
    """Return whether a file holds these numbers already."""
    try:
        return path.exists() and np.array_equal(arrays.read(path), values)
    except errors.FileDamaged:
        return False


@contextmanager
def built_again(advice: str = "the same call of build writes it again") -> Iterator[None]:
    """Let damage of an index end with what helps an index; `moso verify` is for runs."""
    try:
        yield
    except errors.FileDamaged as problem:
        what = str(problem).partition("; the command that wrote it")[0]
        raise errors.FileDamaged(f"{what}; {advice}") from problem


def write_shard(path: Path, rows: NDArray[np.float32], dtype: str) -> None:
    """Write the rows of a shard as unit vectors and their lengths, atomically."""
    lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(1))
    units = rows / np.maximum(lengths, np.finfo(np.float64).tiny)[:, None]
    for own, values in ((_lengths_path(path), lengths.astype(np.float32)), (path, units.astype(dtype))):
        arrays.write(own, values)


def read_shards(
    folder: Path, what: Indexed, part: int, step: int, samples: int
) -> Iterator[tuple[slice, Array, NDArray[np.float32]]]:
    """Yield the shards of one time step: their slice of the part's samples, unit vectors (mapped) and lengths.

    Raises:
        FileMissing: A shard is missing.
        FileDamaged: A shard is not what was written, or has another shape.
    """
    for shard, start in enumerate(range(0, samples, what.shard)):
        path, stop = shard_path(folder, part, step, shard), min(start + what.shard, samples)
        for one in (path, _lengths_path(path)):
            if not one.exists():
                raise errors.FileMissing(f"{one} of the index is missing; the same call of build writes it again")
        units, lengths = arrays.read(path), arrays.read(_lengths_path(path))
        if units.shape != (stop - start, what.numbers) or lengths.shape != (stop - start,):
            raise damaged(path, f"it holds {units.shape} numbers and not {(stop - start, what.numbers)}")
        yield slice(start, stop), units, lengths
