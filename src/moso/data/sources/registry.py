"""All data sources, by the name that stands before the colon. A new one is a file and a line here."""

from pathlib import Path
from urllib.parse import parse_qsl

from moso.data.sources import cifar, diabetes, digits, folder, huggingface, parquet, text
from moso.data.sources.source import Opened, Request, Source
from moso.errors import MosoError, unknown_name
from moso.tasks import Classification, Regression, Task

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


def open_source(name: str, resize: int | None, memory_limit: int, task: str = "") -> Opened:
    """The splits of the data set called `name`: `digits`, `folder:PATH`, ...

    `task` names what is to be learned; refused where the data set is about something else.

    >>> open_source("digit", None, 2**30)
    Traceback (most recent call last):
    ...
    moso.errors.MosoError: unknown data set 'digit'; nearest: digits, diabetes (known: cifar10, ...)
    """
    scheme, _, location = name.partition(":")
    if scheme in SOURCES:
        train, test = SOURCES[scheme].open(Request(location, resize, memory_limit, task))
        if task and train.task.name != task:
            raise MosoError(f"{name} is for task {train.task.name!r}, not {task!r}; leave --task out")
        return train, test
    if name and Path(name).exists():
        suffix = Path(name).suffix.lower()
        kind = {".parquet": "parquet", **dict.fromkeys((".txt", ".tsv", ".csv", ".jsonl"), "text")}.get(
            suffix, "folder"
        )
        raise MosoError(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.values()])


def expected_task(name: str) -> Task:
    """What is learned from the data set called `name`, as far as the name tells; the data set is not opened.

    >>> expected_task("diabetes").name, expected_task("digits").name, expected_task("parquet:a?target=b").name
    ('regression', 'classification', 'regression')
    """
    scheme, _, location = name.partition(":")
    if scheme not in SOURCES:
        return Classification()
    has_target = any(option == "target" for option, _ in parse_qsl(location.partition("?")[2]))
    return Regression() if has_target else SOURCES[scheme].task
