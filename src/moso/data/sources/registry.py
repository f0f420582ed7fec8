"""All data sources by name, the part before the colon: built-in and of installed packages (`moso.sources`).

A new built-in source is one file and one line here.
"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources import (
    cifar,
    demo,
    diabetes,
    digits,
    features_folder,
    folder,
    huggingface,
    pairs,
    parquet,
    text,
)
from moso.data.sources.source import NUMBERS, Opened, Request, Source
from moso.data.user_files import is_there, may_be_path
from moso.errors import unknown_name
from moso.registry import Registry
from moso.tasks import TASKS, Classification, LanguageModelling, Regression, Task, Unlabelled
from moso.tasks.task import unread

SOURCES = Registry(
    "data set",
    Source,
    "moso.sources",
    (
        digits.SOURCE,
        demo.SOURCE,
        diabetes.SOURCE,
        cifar.CIFAR10,
        cifar.CIFAR100,
        parquet.SOURCE,
        folder.SOURCE,
        text.SOURCE,
        pairs.SOURCE,
        features_folder.SOURCE,
        huggingface.SOURCE,
    ),
)


def open_source(name: str, resize: int | None, memory_limit: int, task: str = "") -> Opened:
    """Open the splits of the data set called `name`: `digits`, `folder:PATH`, ...

    Args:
        name: Name of the source, and after a colon its location.
        resize: Side in pixels to which images are scaled and cropped.
        memory_limit: Inputs larger than this many bytes stay on disk.
        task: Name of the task; by default the source decides.

    Raises:
        UnknownName: There is no such source.
        DatasetNameInvalid: The name is a path without a source.
        SettingsConflict: The data set is for another task.

    Example:
        >>> open_source("digit", None, 2**30)
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown data set 'digit'; nearest: digits, diabetes (known: cifar10, ...)
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    if source is not None and task == Unlabelled.name:
        return _unlabelled(source, Request(location, resize, memory_limit, task if source.unlabelled else "")), None
    if source is not None:
        if isinstance(TASKS.find(task), LanguageModelling) and source.name != text.SOURCE.name:
            raise errors.SettingsConflict(
                f"task {task!r} is for texts, and {name} holds none that it reads; give text:FILE, or leave --task out"
            )
        train, test = _opened(source, Request(location, resize, memory_limit, task))
        if task and train.task.name != task:
            raise errors.SettingsConflict(f"{name} is for task {train.task.name!r}, not {task!r}; leave --task out")
        return train, test
    if is_there(name):
        suffix = Path(name).suffix.lower()
        kind = {".parquet": "parquet", **dict.fromkeys((".txt", ".tsv", ".csv", ".jsonl"), "text")}.get(
            suffix, "folder"
        )
        raise errors.DatasetNameInvalid(f"data set {name!r} is a path; say what it holds, for example {kind}:{name}")
    raise unknown_name("data set", name, [source.usage for source in SOURCES.all().values()])


def _opened(source: Source, request: Request) -> Opened:
    """Open a source.

    Raises:
        DatasetNameInvalid: Its location can be no path.
        FileUnreadable: The system refuses to open it.
    """
    location = request.location
    if not may_be_path(location.partition("?")[0]):
        raise errors.DatasetNameInvalid(f"{location[:80]!r} can be no path; check the name of the data set")
    try:
        return source.open(request)
    except OSError as problem:
        raise errors.FileUnreadable(
            f"{source.name}:{location} cannot be opened: {problem.strerror or problem}"
        ) from problem


def _unlabelled(source: Source, request: Request) -> StoredSamples:
    """Return the training split without its answers, if it has any."""
    train, _ = _opened(source, request)
    return replace(train, task=Unlabelled(), targets=unread(len(train)))


def expected_task(name: str) -> Task:
    """Return the task of the data set called `name`, judged by the name alone; the data set is not opened.

    Example:
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
    """Return the default network and recipe for the data set called `name`, which is not opened.

    Example:
        >>> fitting("digits"), fitting("diabetes"), fitting("folder:here")
        (('convnet', 'digits'), ('mlp-w32', 'table'), ('convnet', 'cpu-small'))
    """
    scheme, _, location = name.partition(":")
    source = SOURCES.find(scheme)
    if source is not None and source.fits is not None:
        return source.fits
    seen = source.looks(location) if source is not None and source.looks is not None else None
    return seen or (("convnet", "cpu-small") if expected_task(name).by_class else NUMBERS)


def has_vectors(name: str) -> bool:
    """Return whether inputs of the data set called `name` are feature vectors, judged by the name alone.

    Example:
        >>> has_vectors("features:here"), has_vectors("digits")
        (True, False)
    """
    source = SOURCES.find(name.partition(":")[0])
    return source is not None and source.vectors


def may_have_texts(name: str) -> bool:
    """Return whether inputs of the data set called `name` may be texts, judged by the name alone.

    Example:
        >>> may_have_texts("text:questions.tsv"), may_have_texts("digits")
        (True, False)
    """
    return name.partition(":")[0] not in ("digits", "diabetes", "cifar10", "cifar100", "folder", "features")


def may_have_pictures(name: str) -> bool:
    """Return whether inputs of the data set called `name` may be pictures, judged by the name alone.

    Example:
        >>> may_have_pictures("digits"), may_have_pictures("text:questions.tsv"), may_have_pictures("diabetes")
        (True, False, False)
    """
    source = SOURCES.find(name.partition(":")[0])
    return (source is None or source.pictures) and expected_task(name).by_class
