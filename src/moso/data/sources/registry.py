"""All data sources, by the name that stands before the colon. A new one is a file and a line here."""

from pathlib import Path

from moso.data.sources import cifar, digits, folder, huggingface, parquet
from moso.data.sources.source import Opened, Request, Source
from moso.errors import MosoError, unknown_name

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (digits.SOURCE, cifar.CIFAR10, cifar.CIFAR100, parquet.SOURCE, folder.SOURCE, huggingface.SOURCE)
}


def open_source(name: str, resize: int | None, memory_limit: int) -> Opened:
    """The splits of the data set called `name`: `digits`, `folder:PATH`, ...

    >>> open_source("digit", None, 2**30)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: unknown data set 'digit'; nearest: digits (known: cifar10, cifar100, digits, ...)
    """
    scheme, _, location = name.partition(":")
    if scheme in SOURCES:
        return SOURCES[scheme].open(Request(location, resize, memory_limit))
    if name and Path(name).exists():
        kind = "parquet" if name.endswith(".parquet") else "folder"
        raise MosoError(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.values()])
