"""WebDataset shards: tar files whose members `KEY.EXTENSION` with the same key are one sample.

A shard is read once from front to back for an index (key, place and size of every picture, the text); pictures are then
read by seeking. Nothing is unpacked to disk and nothing is executed: shards must be plain tar files, without links or
devices, without members outside the archive, and without pickles.
"""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.data.sources.folder import IMAGE_SUFFIXES

TEXT_SUFFIXES = (".txt", ".caption", ".text")
# Extensions of members that only a pickle loader reads, which would execute what the file says.
_PICKLES = (".pkl", ".pickle", ".pyd", ".pth", ".pt", ".joblib")


@dataclass(frozen=True)
class Members:
    """Encoded pictures inside tar files, by position.

    Attributes:
        shards: The tar files.
        numbers: Number of the shard of each picture, `[n]`.
        places: First byte and number of bytes of each picture, `[n, 2]`.
    """

    shards: tuple[Path, ...]
    numbers: NDArray[np.int64]
    places: NDArray[np.int64]

    def __call__(self, position: int) -> bytes:
        """Return the bytes of a picture."""
        start, size = self.places[position].tolist()
        with self.shards[int(self.numbers[position])].open("rb") as file:
            file.seek(start)
            return file.read(size)


@dataclass(frozen=True)
class Shards:
    """The pairs of some shards: their keys, texts and pictures, in the order of the shards."""

    keys: pa.Array
    texts: NDArray[np.str_]
    members: Members


def read_shards(shards: Sequence[Path]) -> Shards:
    """Index the pairs of tar files.

    Raises:
        FileUnreadable: A file is no plain tar file, or a text is not UTF-8.
        FileUnsafe: A member is a link, a device or a pickle, or points outside the archive.
        DataEmpty: There are no pairs.
        LabelsMissing: A picture has no text.
        IdsNotUnique: Two samples have the same key.
    """
    keys: list[str] = []
    texts: list[str] = []
    numbers: list[int] = []
    places: list[tuple[int, int]] = []
    for number, shard in enumerate(shards):
        for key, text, place in _pairs(shard):
            keys.append(key)
            texts.append(text)
            numbers.append(number)
            places.append(place)
    if not keys:
        raise errors.DataEmpty(f"{shards[0]} holds no pairs of KEY.jpg (or .png, ...) and KEY.txt")
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise errors.IdsNotUnique(f"two samples of the shards are called {twice!r}; scores are bound to names")
    found = Members(tuple(shards), np.array(numbers), np.array(places, dtype=np.int64).reshape(-1, 2))
    return Shards(pa.array(keys), np.array(texts), found)


def safe_members(shard: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo, str, str]]:
    """Yield the open archive and every file in it, with its key and extension (in lower case), in order.

    Raises:
        FileUnreadable: The file is no plain tar file.
        FileUnsafe: A member is a link, a device or a pickle, or points outside the archive.
    """
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                path = PurePosixPath(member.name)
                if not member.isfile():
                    raise errors.FileUnsafe(f"{shard}: {member.name!r} is a link or a device, and not read; remove it")
                if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                    raise errors.FileUnsafe(f"{shard}: {member.name!r} points outside the archive; remove it")
                key, extension = split_name(member.name)
                if extension.endswith(_PICKLES):
                    raise errors.FileUnsafe(
                        f"{shard}: {member.name!r} is a pickle, which would run code when it is read; remove it"
                    )
                yield archive, member, key, extension
    except tarfile.TarError as problem:
        raise errors.FileUnreadable(f"{shard} is no plain tar file ({problem}); unpack .tar.gz first") from problem


def split_name(name: str) -> tuple[str, str]:
    """Return the key and the extension of a member: the file's name up to its first dot, and the rest.

    Example:
        >>> split_name("a/000.seg.png"), split_name("plain")
        (('a/000', '.seg.png'), ('plain', ''))
    """
    folder, slash, file = name.rpartition("/")
    stem, dot, rest = file.partition(".")
    return f"{folder}{slash}{stem}", f"{dot}{rest}".lower()


def _pairs(shard: Path) -> Iterator[tuple[str, str, tuple[int, int]]]:
    texts: dict[str, str] = {}
    pictures: dict[str, tuple[int, int]] = {}
    for archive, member, key, extension in safe_members(shard):
        if extension in IMAGE_SUFFIXES:
            if key in pictures:
                raise errors.DataAmbiguous(f"{shard}: sample {key!r} has two pictures; keep one")
            pictures[key] = member.offset_data, member.size
        elif extension in TEXT_SUFFIXES:
            file = archive.extractfile(member)
            assert file is not None, "the member is a file"
            try:
                texts[key] = file.read().decode().strip()
            except UnicodeDecodeError as problem:
                raise errors.FileUnreadable(f"{shard}: {member.name!r} is no UTF-8 text ({problem})") from problem
    for key, place in pictures.items():
        if not texts.get(key):
            raise errors.LabelsMissing(f"{shard}: picture {key!r} has no text beside it ({key}.txt)")
        yield key, texts[key], place
