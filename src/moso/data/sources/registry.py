"""All data sources by the name that stands before the colon: ours, and those of installed packages (`moso.sources`).

A new one of ours is a file and a line here.
"""

from pathlib import Path
from urllib.parse import parse_qsl

from moso import errors
from moso.data.sources import cifar, diabetes, digits, folder, huggingface, parquet, text
from moso.data.sources.source import Opened, Request, Source
from moso.errors import unknown_name
from moso.registry import Registry
from moso.tasks import Classification, Regression, Task

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


def open_source(name: str, resize: int | None, memory_limit: int, task: str = "") -> Opened:
    """The splits of the data set called `name`: `digits`, `folder:PATH`, ...

    `task` names what is to be learned; refused where the data set is about something else.

    >>> open_source("digit", None, 2**30)
    Traceback (most recent call last):
    ...
    moso.errors.UnknownName: unknown data set 'digit'; nearest: digits, diabetes (known: cifar10, ...)
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    if source is not None:
        train, test = source.open(Request(location, resize, memory_limit, task))
        if task and train.task.name != task:
            raise errors.SettingsConflict(f"{name} is for task {train.task.name!r}, not {task!r}; leave --task out")
        return train, test
    if name and Path(name).exists():
        suffix = Path(name).suffix.lower()
        kind = {".parquet": "parquet", **dict.fromkeys((".txt", ".tsv", ".csv", ".jsonl"), "text")}.get(
            suffix, "folder"
        )
        raise errors.DatasetNameInvalid(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.all().values()])


def expected_task(name: str) -> Task:
    """What is learned from the data set called `name`, as far as the name tells; the data set is not opened.

    >>> expected_task("diabetes").name, expected_task("digits").name, expected_task("parquet:a?target=b").name
    ('regression', 'classification', 'regression')
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    if source is None:
        return Classification()
    has_target = any(option == "target" for option, _ in parse_qsl(location.partition("?")[2]))
    return Regression() if has_target else source.task


def fitting(name: str) -> tuple[str, str]:
    """The network and the recipe that fit the data set called `name` unless the user names others.

    >>> fitting("digits"), fitting("diabetes"), fitting("folder:here")
    (('convnet', 'digits'), ('mlp-w32', 'table'), ('convnet', 'cpu-small'))
    """
    source = SOURCES.find(name.partition(":")[0])
    if source is not None and source.fits is not None:
        return source.fits
    return ("convnet", "cpu-small") if expected_task(name).by_class else ("mlp-w32", "table")


def may_have_pictures(name: str) -> bool:
    """Whether inputs of the data set called `name` may be pictures, as far as the name tells.

    >>> may_have_pictures("digits"), may_have_pictures("text:questions.tsv"), may_have_pictures("diabetes")
    (True, False, False)
    """
    source = SOURCES.find(name.partition(":")[0])
    return (source is None or source.pictures) and expected_task(name).by_class
