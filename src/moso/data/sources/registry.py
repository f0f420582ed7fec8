"""All data sources, by the name that stands before the colon. A new one is a file and a line here."""

from pathlib import Path

from moso.data.sources import cifar, diabetes, digits, folder, huggingface, parquet, text
from moso.data.sources.location import predicts_numbers
from moso.data.sources.source import Opened, Request, Source
from moso.errors import MosoError, unknown_name

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        digits.SOURCE,
        diabetes.SOURCE,
        cifar.CIFAR10,
        cifar.CIFAR100,
        parquet.SOURCE,
        folder.SOURCE,
        text.SOURCE,
        huggingface.SOURCE,
    )
}


def open_source(name: str, resize: int | None, memory_limit: int) -> Opened:
    """The splits of the data set called `name`: `digits`, `folder:PATH`, ...

    >>> open_source("digit", None, 2**30)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: unknown data set 'digit'; nearest: digits, diabetes (known: cifar10, ...)
    """
    scheme, _, location = name.partition(":")
    if scheme in SOURCES:
        return SOURCES[scheme].open(Request(location, resize, memory_limit))
    if name and Path(name).exists():
        suffix = Path(name).suffix.lower()
        kind = {".parquet": "parquet", **dict.fromkeys((".txt", ".tsv", ".csv", ".jsonl"), "text")}.get(
            suffix, "folder"
        )
        raise MosoError(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.values()])


def answers_are_numbers(name: str) -> bool:
    """Whether the data set called `name` has numbers to predict and no classes, without opening it.

    >>> answers_are_numbers("diabetes"), answers_are_numbers("digits"), answers_are_numbers("parquet:a?target=b")
    (True, False, True)
    """
    scheme, _, location = name.partition(":")
    return scheme in SOURCES and (SOURCES[scheme].numbers or predicts_numbers(location))
