"""A data set by name, ready to train on: opened, relabelled, split, decoded or tokenised, normalised and checked."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import take
from moso.data.decoding import Decoded, OnBroken, decode_all
from moso.data.images import BrokenImageError, resize_images
from moso.data.label_noise import add_label_noise
from moso.data.labels import read_labels
from moso.data.partitions import hold_out
from moso.data.readers import MEMORY_LIMIT_BYTES, MemoryReader
from moso.data.samples import Samples, StoredSamples, check_labels, outputs
from moso.data.sources.registry import SOURCES, open_source
from moso.data.tokenizer import TextReader, Tokenizer
from moso.data.views import Normalisation


@dataclass(frozen=True)
class DataSet:
    """The training split of a data set, and its test and validation splits if there are any.

    Where labels were replaced or made noisy, `clean_labels: [train]` are those that the source gave, and
    `noisy: [train]` says which samples drew a new label at random (some of them drew their own again).
    """

    name: str
    train: Samples
    test: Samples | None
    clean_labels: NDArray[np.int64] | None = None
    noisy: NDArray[np.bool_] | None = None
    validation: Samples | None = None


def datasets() -> list[tuple[str, str]]:
    """Every kind of data set: how its name is written, and what it is.

    >>> [name for name, _ in datasets()]
    ['digits', 'diabetes', 'cifar10', 'cifar100', 'parquet:PATH', 'folder:PATH', 'text:PATH', 'hf:NAME[:CONFIG]']
    """
    return [(source.usage, source.description) for source in SOURCES.all().values()]


def open_dataset(
    name: str,
    *,
    resize: int | None = None,
    on_broken: OnBroken = "stop",
    labels: str | None = None,
    label_noise: float = 0.0,
    seed: int = 0,
    test_share: float = 0.2,
    memory_limit: int = MEMORY_LIMIT_BYTES,
    validation: str | None = None,
    validation_share: float = 0.0,
) -> DataSet:
    """Open a data set by name.

    `labels` (FILE[:KEY]) has one label for every sample of the source's training split, and is read first;
    `label_noise` is added to the result. The test split keeps the source's labels: it is the source's own, or
    `test_share` of each class, held out by id (0 holds out nothing). Broken images stop with an error or are
    left out with a warning. A validation set is another data set by name, or `validation_share` of each class of the
    training split, which is then smaller; like the test it keeps the source's labels. Inputs and numbers to predict are
    normalised, and texts tokenised, by the training split.

    >>> data = open_dataset("digits", label_noise=0.2)
    >>> len(data.train), len(data.test), int(data.noisy.sum())
    (1438, 359, 288)
    """
    if resize is not None and resize < 1:
        raise errors.SettingInvalid(f"resize {resize} is not a number of pixels; it must be at least 1")
    if not 0 <= test_share < 1:
        raise errors.SettingInvalid(f"test share {test_share} is outside [0, 1)")
    if not 0 <= validation_share < 1:
        raise errors.SettingInvalid(f"validation share {validation_share} is outside [0, 1)")
    if validation is not None and validation_share > 0:
        raise errors.SettingsConflict(
            "a validation set is given by name or held out as a share of the training data, not both"
        )
    if not 0 <= label_noise <= 1:
        raise errors.SettingInvalid(f"label noise {label_noise} is outside [0, 1]")
    train, test = open_source(name, resize, memory_limit)
    if not train.classes and (labels is not None or label_noise > 0):
        raise errors.ClassesRequired(f"the answers of {name} are numbers; --labels and --label-noise are for classes")
    # Every draw below is by id, and the split by the source's labels: other labels never move a sample to the test.
    clean = train.labels
    used = clean if labels is None else read_labels(labels, len(train), train.classes, train.ids)
    if test is None and test_share > 0:
        kept, held = hold_out(train.keys, clean, test_share)
        if len(held) == 0:
            raise errors.TooFewSamples(
                f"{test_share} of the {len(train)} samples of {name} held out for testing leaves no test"
            )
        test, train, clean, used = train.take(held), train.take(kept), *_both(clean, used, kept)

    judge = None if validation is None else open_source(validation, resize, memory_limit)[0]
    if validation_share > 0:
        kept, held = hold_out(train.keys, clean, validation_share)
        if len(held) == 0:
            raise errors.TooFewSamples(
                f"{validation_share} of the {len(train)} training samples of {name} held out leaves no validation"
            )
        judge, train, clean, used = train.take(held), train.take(kept), *_both(clean, used, kept)

    given = {"training": train, "test": test, "validation": judge}
    splits = {split: samples for split, samples in given.items() if samples is not None}
    splits, whole = _decoded(splits, on_broken, resize, memory_limit)
    train = splits["training"]
    if whole is not None:
        clean, used = _both(clean, used, whole)
    noisy = None
    if label_noise > 0:
        used, noisy = add_label_noise(used, train.keys, len(train.classes), label_noise, seed)
    if train.classes:
        splits["training"] = train.relabelled(used)
    _check(name, splits)
    met = _as_met(splits)
    original = clean if labels is not None or label_noise > 0 else None
    return DataSet(name, met["training"], met.get("test"), original, noisy, met.get("validation"))


def _both(
    clean: NDArray[np.int64], used: NDArray[np.int64], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Two columns at these positions; one, where both are the same."""
    kept = take(clean, positions)
    return kept, kept if used is clean else take(used, positions)


def _as_met(given: dict[str, StoredSamples]) -> dict[str, StoredSamples]:
    """All splits as networks meet them, by what the training split is like: texts tokenised, numbers normalised."""
    train, splits = given["training"], list(given.values())
    if isinstance(train.reader, TextReader):
        tokenizer = Tokenizer.fit(train.reader.texts.to_pylist())
        readers = [one.reader.tokenised(tokenizer) for one in splits if isinstance(one.reader, TextReader)]
        splits = [replace(one, reader=reader) for one, reader in zip(splits, readers, strict=True)]
    else:
        normalisation = Normalisation.measure(train.reader)
        splits = [one.normalised(normalisation) for one in splits]
    if train.targets is not None:
        numbers = Normalisation.measure(MemoryReader(train.targets))
        splits = [replace(one, target_normalisation=numbers) for one in splits]
    return dict(zip(given, splits, strict=True))


def _decoded(
    splits: dict[str, StoredSamples], on_broken: OnBroken, resize: int | None, memory_limit: int
) -> tuple[dict[str, StoredSamples], NDArray[np.int64] | None]:
    """All splits decoded without their broken images, and the positions of the training split if some are gone."""
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
        if samples.classes:
            check_labels(samples.labels, len(samples.classes))
    present = np.flatnonzero(np.bincount(train.labels))
    if train.classes and len(present) < 2:
        raise errors.TooFewClasses(
            f"all {len(train)} training samples of {name} are of one class ({train.classes[present[0]]}); "
            "there must be at least two to tell apart"
        )
    for split, samples in splits.items():
        if samples.shape != train.shape:
            raise errors.ShapeMismatch(
                f"training inputs of {name} have shape {train.shape} but {split} inputs {samples.shape}; "
                "give --resize PIXELS if they are images"
            )
        if samples.classes != train.classes:
            raise errors.ClassesMismatch(f"the {split} split of {name} has other classes than the training split")
        if outputs(samples) != outputs(train):
            raise errors.ClassesMismatch(
                f"the {split} split of {name} has {outputs(samples)} targets a sample, the training split "
                f"{outputs(train)}"
            )
