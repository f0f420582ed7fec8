"""All data sources by the name that stands before the colon: ours, and those of installed packages (`moso.sources`).

A new one of ours is a file and a line here.
"""

from pathlib import Path

from moso import errors
from moso.data.sources import cifar, diabetes, digits, folder, huggingface, parquet, text
from moso.data.sources.location import predicts_numbers
from moso.data.sources.source import Opened, Request, Source
from moso.errors import unknown_name
from moso.registry import Registry

SOURCES = Registry(
    "data set",
    Source,
    "moso.sources",
    (
        digits.SOURCE,
        diabetes.SOURCE,
        cifar.CIFAR10,
        cifar.CIFAR100,
        parquet.SOURCE,
        folder.SOURCE,
        text.SOURCE,
        huggingface.SOURCE,
    ),
)


def open_source(name: str, resize: int | None, memory_limit: int) -> Opened:
    """The splits of the data set called `name`: `digits`, `folder:PATH`, ...

    >>> open_source("digit", None, 2**30)
    Traceback (most recent call last):
    ...
    moso.errors.UnknownName: unknown data set 'digit'; nearest: digits, diabetes (known: cifar10, ...)
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    if source is not None:
        return source.open(Request(location, resize, memory_limit))
    if name and Path(name).exists():
        suffix = Path(name).suffix.lower()
        kind = {".parquet": "parquet", **dict.fromkeys((".txt", ".tsv", ".csv", ".jsonl"), "text")}.get(
            suffix, "folder"
        )
        raise errors.DatasetNameInvalid(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.all().values()])


def answers_are_numbers(name: str) -> bool:
    """Whether the data set called `name` has numbers to predict and no classes, without opening it.

    >>> answers_are_numbers("diabetes"), answers_are_numbers("digits"), answers_are_numbers("parquet:a?target=b")
    (True, False, True)
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    return source is not None and (source.numbers or predicts_numbers(location))


def fitting(name: str) -> tuple[str, str]:
    """The network and the recipe that fit the data set called `name` unless the user names others.

    >>> fitting("digits"), fitting("diabetes"), fitting("folder:here")
    (('convnet', 'digits'), ('mlp-w32', 'table'), ('convnet', 'cpu-small'))
    """
    source = SOURCES.find(name.partition(":")[0])
    if source is not None and source.fits is not None:
        return source.fits
    return ("mlp-w32", "table") if answers_are_numbers(name) else ("convnet", "cpu-small")


def may_have_pictures(name: str) -> bool:
    """Whether inputs of the data set called `name` may be pictures, as far as the name tells.

    >>> may_have_pictures("digits"), may_have_pictures("text:questions.tsv"), may_have_pictures("diabetes")
    (True, False, False)
    """
    source = SOURCES.find(name.partition(":")[0])
    return (source is None or source.pictures) and not answers_are_numbers(name)
