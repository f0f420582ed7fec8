"""A data set by name, ready to train on: opened, relabelled, split, decoded or tokenised, normalised and checked."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import take
from moso.data.decoding import Decoded, OnBroken, decode_all
from moso.data.images import BrokenImageError, resize_images
from moso.data.labels import read_labels
from moso.data.partitions import hold_out
from moso.data.readers import MEMORY_LIMIT_BYTES, MemoryReader
from moso.data.samples import Samples, StoredSamples
from moso.data.sequences import SequenceReader, TokenSettings, tokenised
from moso.data.sequences.sequence_reader import Split
from moso.data.sequences.token_coding import CodedTexts
from moso.data.sources.registry import SOURCES, open_source
from moso.data.tokenizer import Encoding, TextReader, Tokenizer
from moso.data.views import Normalisation
from moso.tasks import LanguageModelling, Task
from moso.tasks.label_noise import NoiseKind


@dataclass(frozen=True)
class DataSet:
    """The training split of a data set, its test and validation splits if there are any, and their common task.

    Attributes:
        name: Name of the data set.
        train: Training split.
        test: Test split, if there is one.
        clean_labels: Labels of the source, shape `[train]`, if they were replaced or made noisy.
        noisy: Which samples drew a new label at random, shape `[train]`; some drew their own label again.
        validation: Validation split, if there is one.
        original: The data set that inputs were computed from, if they are features; its samples are the same, in the
            same order.
    """

    name: str
    train: Samples
    test: Samples | None
    clean_labels: NDArray[np.int64] | None = None
    noisy: NDArray[np.bool_] | None = None
    validation: Samples | None = None
    original: "DataSet | None" = None

    @property
    def task(self) -> Task:
        """The task that is learned from the data."""
        return self.train.task


def datasets() -> list[tuple[str, str]]:
    """Return every kind of data set: how its name is written, and its description.

    Example:
        >>> [name for name, _ in datasets()]
        ['digits', ..., 'text:PATH', 'pairs:PATH', 'features:DIR', 'hf:NAME[:CONFIG]']
    """
    return [(source.usage, source.description) for source in SOURCES.all().values()]


def open_dataset(
    name: str,
    *,
    task: str = "",
    resize: int | None = None,
    on_broken: OnBroken = "stop",
    labels: str | None = None,
    label_noise: float = 0.0,
    noise_kind: NoiseKind = "symmetric",
    seed: int = 0,
    test_share: float = 0.2,
    memory_limit: int = MEMORY_LIMIT_BYTES,
    validation: str | None = None,
    validation_share: float = 0.0,
    tokens: TokenSettings | None = None,
) -> DataSet:
    """Open a data set by name.

    Inputs and numbers to predict are normalised, and texts tokenised, with statistics of the training split. Test and
    validation splits always keep the labels of the source.

    Args:
        name: Name of the data set, such as `digits` or `folder:PATH`.
        task: Name of the task, if the answers fit several; by default the task of the source.
        resize: Side in pixels to which images are scaled and cropped.
        on_broken: `stop` raises an error for broken images, `skip` leaves them out with a warning.
        labels: `FILE[:KEY]` with labels of the source's training split, one per sample, or by id for some or all of
            them; read before noise is added.
        label_noise: Share of the training samples, in [0, 1], that draw a new label.
        noise_kind: `symmetric` draws from all classes, `pair` gives the next class.
        seed: Seed of the label noise.
        test_share: Share of each class, in [0, 1), that is held out by id if the source has no test split.
        memory_limit: Decoded inputs larger than this many bytes stay on disk.
        validation: Name of another data set to validate on.
        validation_share: Share of each class of the training split, in [0, 1), to hold out for validation instead.
        tokens: Tokenizer and limit of length of texts; by default the built-in tokenizer.

    Raises:
        UnknownName: There is no data set of this name.
        SettingInvalid: A share or a size is out of range.
        SettingsConflict: Both `validation` and `validation_share` are given.
        ClassesRequired: Labels or label noise are given for a task without classes.
        TooFewSamples: A held-out split would be empty.
        BrokenImageError: Images cannot be decoded and `on_broken` is `stop`.

    Example:
        >>> data = open_dataset("digits", label_noise=0.2)
        >>> len(data.train), len(data.test), int(data.noisy.sum())
        (1438, 359, 288)
    """
    _check_options(resize, test_share, validation, validation_share, label_noise)
    source, test = open_source(name, resize, memory_limit, task)
    if not source.task.by_class and (labels is not None or label_noise > 0):
        what = (
            f"the samples of {name} have no classes" if source.task.has_answers else f"{name} is opened without labels"
        )
        raise errors.ClassesRequired(f"{name}: {what}; --labels and --label-noise are for classes")
    # Every draw below is by id, and the splits use the source's labels, so replaced labels never move a sample between
    # splits.
    clean = source.labels
    used = clean if labels is None else read_labels(labels, len(source), source.classes, source.ids, clean)
    training = _Training(source, clean, used)
    if test is None and test_share > 0 and source.task.has_answers:  # without answers nothing is tested
        training, test = training.hold_out(test_share, name, "test")
    judge = None if validation is None else open_source(validation, resize, memory_limit, task)[0]
    if validation_share > 0:
        training, judge = training.hold_out(validation_share, name, "validation")

    given = {"training": training.samples, "test": test, "validation": judge}
    splits = {split: samples for split, samples in given.items() if samples is not None}
    splits, whole = _decoded(splits, on_broken, resize, memory_limit)
    train = splits["training"]
    if whole is not None:
        training = training.take(whole, train)
    used, noisy = training.used, None
    if label_noise > 0:
        used, noisy = train.task.noisy(used, train.keys, label_noise, seed, noise_kind)
    if train.task.by_class:
        splits["training"] = train.relabelled(used)
    _check(name, splits)
    met = _as_met(splits, tokens or TokenSettings(), seed)
    original = training.clean if labels is not None or label_noise > 0 else None
    return DataSet(name, met["training"], met.get("test"), original, noisy, met.get("validation"))


def _check_options(
    resize: int | None, test_share: float, validation: str | None, validation_share: float, label_noise: float
) -> None:
    if resize is not None and resize < 1:
        raise errors.SettingInvalid(f"resize {resize} is not a number of pixels; it must be at least 1")
    for what, share in (("test", test_share), ("validation", validation_share)):
        if not 0 <= share < 1:
            raise errors.SettingInvalid(f"{what} share {share} is outside [0, 1)")
    if validation is not None and validation_share > 0:
        raise errors.SettingsConflict(
            "a validation set is given by name or held out as a share of the training data, not both"
        )
    if not 0 <= label_noise <= 1:
        raise errors.SettingInvalid(f"label noise {label_noise} is outside [0, 1]")


@dataclass(frozen=True)
class _Training:
    """The training split while it is prepared, with the labels of the source and the labels to train on."""

    samples: StoredSamples
    clean: NDArray[np.int64]
    used: NDArray[np.int64]

    def take(self, positions: NDArray[np.int64], samples: StoredSamples | None = None) -> "_Training":
        """Return the split at these positions; `samples` if they were taken already."""
        clean = take(self.clean, positions)
        # One column in memory where both are the same.
        used = clean if self.used is self.clean else take(self.used, positions)
        return _Training(self.samples.take(positions) if samples is None else samples, clean, used)

    def hold_out(self, share: float, name: str, split: str) -> tuple["_Training", StoredSamples]:
        """Return the split without a share of every class, and that share."""
        kept, held = hold_out(self.samples.keys, self.clean, share)
        if len(held) == 0:
            raise errors.TooFewSamples(
                f"holding out {share} of the {len(self.samples)} samples of {name} leaves the {split} split empty"
            )
        return self.take(kept), self.samples.take(held)


def _as_met(given: dict[str, StoredSamples], tokens: TokenSettings, seed: int) -> dict[str, StoredSamples]:
    """Return all splits as networks meet them: tokenised or normalised with statistics of the training split."""
    train, splits = given["training"], list(given.values())
    if isinstance(train.task, LanguageModelling):
        return dict(zip(given, sequenced(splits, tokens, seed), strict=True))
    if isinstance(train.reader, TextReader):
        texts = train.reader.texts.to_pylist()
        tokenizer = _tokenizer(texts, tokens)
        readers = [one.reader.tokenised(tokenizer) for one in splits if isinstance(one.reader, TextReader)]
        splits = [replace(one, reader=reader) for one, reader in zip(splits, readers, strict=True)]
    else:
        normalisation = Normalisation.measure(train.reader, one_scale=train.one_scale)
        splits = [one.normalised(normalisation) for one in splits]
    if train.task.answers_are_texts and train.targets.dtype.kind == "U":
        answers = Tokenizer.fit(train.targets.tolist())
        splits = [replace(one, answer_tokenizer=answers) for one in splits]
    if train.task.answers_are_normalised:
        numbers = Normalisation.measure(MemoryReader(train.targets))
        splits = [replace(one, target_normalisation=numbers) for one in splits]
    return dict(zip(given, splits, strict=True))


def _tokenizer(texts: list[str], tokens: TokenSettings) -> Encoding:
    if tokens.is_built_in and tokens.most is None:
        return Tokenizer.fit(texts)
    return CodedTexts.fit(texts, tokens)


def sequenced(splits: list[StoredSamples], tokens: TokenSettings, seed: int) -> list[StoredSamples]:
    """Return documents as token ids with labels; the first split is for training.

    Args:
        splits: The splits, the training split first.
        tokens: Tokenizer and limit of length.
        seed: Seed of the masks of masked language modelling.

    Raises:
        SettingsConflict: The samples are no texts.
    """
    parts, task = [], splits[0].task
    assert isinstance(task, LanguageModelling)
    for one in splits:
        if not isinstance(one.reader, SequenceReader):
            raise errors.SettingsConflict(f"task {task.name!r} is for texts, and these samples are none; use text:FILE")
        parts.append(Split(one.reader, one.ids.to_pylist(), one.keys))
    sized, found = tokenised(parts, task, tokens, seed)
    return [
        replace(one, task=sized, targets=labels, reader=reader)
        for one, (reader, labels) in zip(splits, found, strict=True)
    ]


def _decoded(
    splits: dict[str, StoredSamples], on_broken: OnBroken, resize: int | None, memory_limit: int
) -> tuple[dict[str, StoredSamples], NDArray[np.int64] | None]:
    """Decode all splits without their broken images; also return the training positions left if some are broken."""
    done = {split: decode_all(part.reader, memory_limit, on_broken) for split, part in splits.items()}
    _report_broken(list(done.values()), on_broken)
    whole = done["training"].whole() if done["training"].broken else None
    return {split: _left(part, done[split], resize) for split, part in splits.items()}, whole


def _report_broken(done: list[Decoded], on_broken: OnBroken) -> None:
    broken = [problem for decoded in done for problem in decoded.broken.values()]
    if not broken:
        return
    count = f"{len(broken)} of {sum(len(decoded.reader) for decoded in done)} images cannot be decoded"
    if on_broken == "stop":
        raise BrokenImageError(f"{count}; the first: {broken[0]}; repair or remove them, or give --on-broken skip")
    first = "; ".join(str(problem) for problem in broken[:3])
    warnings.warn(f"{count} and are left out: {first}{'; ...' if len(broken) > 3 else ''}", stacklevel=4)


def _left(samples: StoredSamples, decoded: Decoded, resize: int | None) -> StoredSamples:
    reader = decoded.reader
    if isinstance(reader, MemoryReader) and resize is not None:
        reader = MemoryReader(resize_images(reader.inputs, resize))
    samples = replace(samples, reader=reader)
    return samples.take(decoded.whole()) if decoded.broken else samples


def _check(name: str, splits: dict[str, StoredSamples]) -> None:
    train = splits["training"]
    for split, samples in splits.items():
        if len(samples) == 0:
            raise errors.DataEmpty(f"the {split} split of {name} is empty")
        samples.task.read(samples.targets)
    train.task.check_learnable(train.targets, name)
    for split, samples in splits.items():
        if samples.shape != train.shape:
            raise errors.ShapeMismatch(
                f"training inputs of {name} have shape {train.shape} but {split} inputs {samples.shape}; "
                "give resize if they are images"
            )
        if samples.task.classes != train.task.classes:
            raise errors.ClassesMismatch(f"the {split} split of {name} has other classes than the training split")
        if samples.task.outputs != train.task.outputs:
            raise errors.ClassesMismatch(
                f"the {split} split of {name} has {samples.task.outputs} targets per sample, the training split "
                f"{train.task.outputs}"
            )
