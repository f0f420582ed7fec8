"""Export as WebDataset shards that `pairs:` and the package webdataset can open: `KEY.jpg` and `KEY.txt` per sample.

Data that came from shards keeps their names and keys, and every member of a kept sample (`KEY.json` as well) as it was,
byte for byte. Other pairs are written to `train-000000.tar` and so on, `SAMPLES` to a shard.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from moso import errors
from moso.data.images import EncodedReader
from moso.data.sources.tar_shards import Members, safe_members
from moso.export.as_folder import safe_name
from moso.export.split import Row, Split
from moso.progress import Progress

SAMPLES = 10_000


def write_shards(split: Split, name: str, folder: Path, progress: Progress) -> None:
    """Write one split as shards.

    Args:
        split: The samples to export.
        name: Name of the split, with which the names of new shards begin.
        folder: Where the shards are written.
        progress: Called as work advances.

    Raises:
        MosoError: ``pictures-required`` if the samples are not pictures with texts.
    """
    if not (split.has_pictures and split.samples.task.answers_are_texts):
        raise errors.PicturesRequired(
            "shards hold pictures with texts (data set pairs:PATH), and this data is of another kind; export "
            "--format folder or parquet-data"
        )
    source = _shards_of(split)
    if source:
        _filter(split, source, folder, progress)
        return
    done = 0
    rows = (row for block in split.blocks() for row in block)
    width = len(str(max(len(split.samples) - 1, 1)))
    for number in range(-(-len(split.positions) // SAMPLES)):
        with tarfile.open(folder / f"{name}-{number:06d}.tar", "w") as archive:
            for row in _first(rows, SAMPLES):
                content, suffix = split.image(row.id)
                key = _key(row.id, width)
                _add(archive, f"{key}{suffix}", content if isinstance(content, bytes) else content.read_bytes())
                _add(archive, f"{key}.txt", str(row.answer).encode())
                done += 1
            progress("exporting", done, len(split.positions))


def _shards_of(split: Split) -> tuple[Path, ...]:
    reader = split.originals.samples.reader
    encoded = reader.encoded if isinstance(reader, EncodedReader) else None
    return encoded.shards if isinstance(encoded, Members) else ()


def _filter(split: Split, shards: tuple[Path, ...], folder: Path, progress: Progress) -> None:
    """Copy the members of kept samples; a shard of which nothing is kept is not written."""
    kept = {row.id for block in split.blocks() for row in block}
    for number, shard in enumerate(shards):
        members = [
            (member, file.read())
            for archive, member, key, _ in safe_members(shard)
            if key in kept and (file := archive.extractfile(member)) is not None
        ]
        if members:
            with tarfile.open(folder / shard.name, "w") as archive:
                for member, content in members:
                    archive.addfile(member, io.BytesIO(content))
        progress("exporting", number + 1, len(shards))


def _first(rows: Iterator[Row], count: int) -> Iterator[Row]:
    for _, row in zip(range(count), rows, strict=False):
        yield row


def _key(sample_id: int | str, width: int) -> str:
    """Return the key of a sample: its path without the suffix, in which dots would end the key; or its number."""
    if isinstance(sample_id, int):
        return f"{sample_id:0{width}}"
    return "/".join(safe_name(part).replace(".", "_") for part in PurePosixPath(sample_id).with_suffix("").parts)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # time 0, so that the same samples give the same bytes
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
