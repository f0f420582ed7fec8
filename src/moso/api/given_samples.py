"""A user's data as the samples of a run: its task, its labels, and how the splits are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from torch.utils.data import default_collate

from moso import errors
from moso.data.given import Given, look_at
from moso.data.given.answer_columns import answer_of
from moso.data.given.given_arrays import from_inputs, plain
from moso.data.given.given_streams import is_stream
from moso.data.given.pictures import PicturesAsTensors, stacked_pictures
from moso.data.readers import MEMORY_LIMIT_BYTES, MemoryReader, Reader
from moso.data.samples import Samples, StoredSamples, UserSamples
from moso.data.tokenizer import TextReader, Tokenizer
from moso.data.views import Collate, ItemView, Normalisation, check_repeatable, is_array_pair
from moso.progress import Progress, silent
from moso.tasks import (
    Classification,
    Loss,
    PerSample,
    Task,
    Unlabelled,
    find_task,
    fitting_task,
    mean_loss,
    own_metric,
    unread,
)
from moso.tasks.classification import is_names
from moso.tasks.registry import holds_numbers
from moso.tasks.regression import squared_error


@dataclass(frozen=True)
class Asked:
    """What a user says of the data.

    Attributes:
        task: The task or its name; None takes the one that fits.
        own_loss: The user's loss; None for the task's own.
        metric: The user's metric.
        collate: Makes a batch of items.
        labels: One class per sample, in place of those of the data.
        label: Name of the column or entry of the labels.
        progress: Called while labels are read.
        loader_workers: Processes that read items.
    """

    task: str | Task | None = None
    own_loss: Loss | None = None
    metric: PerSample | None = None
    collate: Collate | None = None
    labels: Any = None
    label: str | None = None
    progress: Progress = silent
    loader_workers: int = 0

    @property
    def takes_pairs(self) -> bool:
        """Whether the loss takes batches `(inputs, answers)`: it is one of ours."""
        return self.own_loss is None or self.own_loss is squared_error

    @property
    def is_unlabelled(self) -> bool:
        """Whether samples have no answers, or answers that are not to be looked at."""
        return self.task == Unlabelled.name or (isinstance(self.task, Task) and not self.task.has_answers)

    def look_at(self, data: Any, read_answers: bool = True, columns: Sequence[str] = ()) -> Given:
        """Recognise a split; `columns` are those of the training split, where it has names."""
        if self.is_unlabelled and not is_array_pair(data) and isinstance(data, np.ndarray | torch.Tensor | list):
            return from_inputs(data)
        return look_at(
            data,
            label=self.label,
            columns=columns,
            as_items=not self.takes_pairs or self.collate is not None,
            read_answers=read_answers,
            progress=self.progress,
            loader_workers=self.loader_workers,
        )


def training_samples(given: Given, score_set: Any, asked: Asked) -> Samples:
    """Return the training split, with the task that fits it.

    Args:
        given: The training data.
        score_set: The same samples without augmentation; None if `given` has none.
        asked: What the user says of it.

    Raises:
        MosoError: ``length-mismatch``, ``labels-missing``, ``label-invalid``, ``dataset-random``, ``unknown-name``,
            ``settings-conflict``.
    """
    if score_set is not None and given.reader is not None and asked.collate is None:
        raise errors.SettingsConflict(
            f"score_set is for a dataset that augments its items, and train_set is {given.kind}, which does not; leave "
            "score_set out"
        )
    quiet = given if score_set is None else asked.look_at(score_set, read_answers=asked.labels is None)
    if quiet.count != given.count:
        raise errors.LengthMismatch(
            f"score_set has {quiet.count} samples and train_set {given.count}; they must be the same samples"
        )
    if given.reader is None:
        check_repeatable(ItemView(quiet.dataset), "the data set" if score_set is None else "score_set")
    return _samples(given, quiet, _task(quiet, asked), asked)


def other_samples(data: Any, train: Samples, columns: Sequence[str], asked: Asked) -> Samples | None:
    """Return another split, such as the test, with the task and columns of the training split; None without data.

    Raises:
        MosoError: ``shape-mismatch`` if its inputs have another shape, and those of `training_samples`.
    """
    if data is None:
        return None
    given = asked.look_at(data, columns=columns)
    if given.reader is None:
        check_repeatable(ItemView(given.dataset))
    found = _samples(given, given, train.task, replace(asked, labels=None))
    if isinstance(found, StoredSamples) != isinstance(train, StoredSamples):
        raise errors.WrongType(
            f"the training data is read as {_way(train)} and another split as {_way(found)}; give both in the same form"
        )
    if found.shape != train.shape and not isinstance(getattr(found, "reader", None), TextReader):
        raise errors.ShapeMismatch(
            f"training inputs have shape {train.shape} and those of another split {found.shape}; they must be equal"
        )
    return found


def _way(samples: Samples) -> str:
    return "arrays" if isinstance(samples, StoredSamples) else "items of a dataset"


def as_met(train: Samples, *others: Samples | None) -> list[Samples | None]:
    """Return all splits as networks meet them: arrays normalised and texts tokenised by the training split."""
    splits = [train, *others]
    if not isinstance(train, StoredSamples):
        if _has_texts_beside(train):
            raise errors.LabelInvalid(
                "the items of a dataset of your own have texts; give arrays (inputs, texts), which are tokenised, or "
                "let the dataset return rows of token ids, equally many in each"
            )
        return splits
    if isinstance(train.reader, TextReader):
        tokenizer = Tokenizer.fit(train.reader.texts.to_pylist())
        return [
            replace(one, reader=one.reader.tokenised(tokenizer))
            if isinstance(one, StoredSamples) and isinstance(one.reader, TextReader)
            else one
            for one in splits
        ]
    normalisation = Normalisation.measure(train.reader)
    words = Tokenizer.fit(train.targets.tolist()) if _has_texts_beside(train) else None
    return [
        replace(one, normalisation=normalisation, answer_tokenizer=words) if isinstance(one, StoredSamples) else one
        for one in splits
    ]


def _has_texts_beside(train: Samples) -> bool:
    return train.task.answers_are_texts and train.targets.dtype.kind == "U"


def _task(given: Given, asked: Asked) -> Task:
    """Return the task of the training data: the one the user names or the one that fits, with their functions."""
    own_loss = asked.own_loss
    answers = given.answers
    if own_loss is not None and asked.task is None and answers is not None and np.ndim(answers[0]) > 1:
        answers = None  # dense answers, of more than one dimension per sample: only the loss sees them
    if asked.task is not None:
        task = find_task(asked.task) if isinstance(asked.task, str) else asked.task
    elif own_loss is None:
        task = Classification()
    else:
        first = answer_of(given.dataset[0], asked.label) if answers is None and asked.labels is not None else None
        task = fitting_task(answers if first is None else [first], own_loss)
    if task.answers_are_classes and given.classes and asked.labels is None:
        task = replace(task, classes=given.classes)
    if own_loss is not None:
        # The metric of the task unpacks batches into inputs and answers, so it needs pairs.
        pairs = given.pairs or asked.takes_pairs
        task = replace(task, own_loss=own_loss, judge=task.judge if pairs else mean_loss(own_loss))
    return task if asked.metric is None else replace(task, judge=own_metric(asked.metric))


def _samples(given: Given, quiet: Given, task: Task, asked: Asked) -> Samples:
    """Return a split as samples of a task; `quiet` is the same split without augmentation.

    `labels` replace the answers of a task whose answers are classes; for other tasks they group the samples.
    """
    labels = None if asked.labels is None else plain(asked.labels)
    groups, answers = None, labels if labels is not None and task.answers_are_classes else quiet.answers
    column = answers if task.answers_are_classes else labels
    if not task.has_answers:
        if labels is not None:
            raise errors.SettingsConflict("labels= beside task='unlabelled': leave one of the two out")
        answers = unread(given.count)
    if column is not None:
        _check_classes(column, given.count)
    if labels is not None and not task.answers_are_classes:
        grouped, groups = Classification().read(labels)
        task = replace(task, classes=grouped.classes)
    # With a collate function of the user's, batches are made of items.
    own_reader = given.reader if asked.collate is None else None
    reader = own_reader if own_reader is not None else _picture_reader(given, quiet, task, asked)
    if reader is not None:
        return replace(_stored(reader, answers, task), groups=groups)
    if answers is None and task.answers_are_read:
        if labels is None:
            raise errors.LabelsMissing(
                "samples are not (input, label) pairs and have no entry called label; give labels=, one class per "
                "sample or the name of the entry"
            )
        answers = []
    task, targets = task.read(answers) if task.answers_are_read else (task, unread(given.count))
    beside = (
        task.answers_are_read
        and asked.takes_pairs
        and (not quiet.pairs or (labels is not None and task.answers_are_classes) or is_names(answers))
    )
    return UserSamples(
        _with_tensors(given, asked),
        _with_tensors(quiet, asked),
        task,
        targets if len(targets) == given.count else unread(given.count),
        groups,
        asked.collate or default_collate,
        beside,
        asked.label,
    )


def _stored(reader: Reader, answers: Any, task: Task) -> StoredSamples:
    if isinstance(reader, MemoryReader):
        return StoredSamples.from_arrays(reader.inputs, answers, task)
    task, targets = task.read(answers)
    return StoredSamples(pa.array(np.arange(len(reader))), task, targets, reader)


def _with_tensors(given: Given, asked: Asked) -> Any:
    return given.dataset if given.trained_as_given or asked.collate is not None else PicturesAsTensors(given.dataset)


def _picture_reader(given: Given, quiet: Given, task: Task, asked: Asked) -> MemoryReader | None:
    """Return the PIL pictures of a dataset of `(picture, answer)` as one array, decoded once; None if not so."""
    if given is not quiet or asked.collate is not None or not asked.takes_pairs or given.trained_as_given:
        return None
    first = given.dataset[0]
    if not (given.pairs and len(first) == 2 and isinstance(first[0], Image.Image) and task.answers_are_read):
        return None
    if first[0].width * first[0].height * 3 * given.count > MEMORY_LIMIT_BYTES:
        return None

    def pictures() -> Any:
        for position in range(given.count):
            yield given.dataset[position][0]
            if position % 256 == 255 or position + 1 == given.count:
                asked.progress("decoding pictures", position + 1, given.count)

    return MemoryReader(stacked_pictures(pictures()))


def _check_classes(labels: Any, count: int) -> None:
    """Refuse labels whose number differs from that of the samples, and labels that may not be classes."""
    if len(labels) != count:
        raise errors.LengthMismatch(f"there are {count} samples but {len(labels)} labels")
    if holds_numbers(labels):
        kind: Any = np.asarray(labels).dtype if np.ndim(labels) == 1 else f"of shape {np.shape(labels)}"
        raise errors.LabelInvalid(
            f"labels are {kind}: for classes give whole numbers or names, one per sample (labels.astype(int)); "
            "for numbers to predict give loss=, for example moso.squared_error"
        )


def labels_argument(labels: Any, data: Any) -> tuple[Any, str | None]:
    """Return the argument `labels` of `prune` as a column of labels, or as the name of one in the data.

    Raises:
        WrongType: A name is given for data without names.
    """
    if not isinstance(labels, str):
        return labels, None
    items = not is_stream(data) and hasattr(data, "__getitem__") and hasattr(data, "__len__")
    named = isinstance(data, Mapping) or hasattr(data, "column_names") or hasattr(data, "columns")
    if is_array_pair(data) or (items and not named and len(data) and not isinstance(data[0], Mapping)):
        raise errors.WrongType(
            f"labels={labels!r} names a column, and the data has no names; give the labels themselves"
        )
    return None, labels
