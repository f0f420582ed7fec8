"""The features by which the samples of a run can be compared: recorded by the run, or the inputs themselves."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moso.configuration import CUSTOM
from moso.data.samples import Samples, StoredSamples
from moso.errors import MosoError
from moso.evidence.features import is_written, read_features
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.reference_features import FEATURES
from moso.results.reading import Run
from moso.selection.feature_rows import CHUNK, Features

NO_FEATURES = (
    "Comparing samples needs features, which are recorded where a method uses them, for example "
    "moso score RUN --method moderate."
)
# Inputs with more numbers than this are not read for a page: a gigabyte of float32.
_MOST_NUMBERS = 250_000_000


@dataclass(frozen=True)
class RunFeatures:
    """Features of the samples of a run.

    Attributes:
        train: One row per training sample, in data set order.
        source: What the rows are, in a few words.
        test: One row per test sample in the same space; None if only training samples have features.
    """

    train: Features
    source: str
    test: Features | None = None


def run_features(run: Run) -> RunFeatures | str:
    """Return the features of a run's samples, or a sentence that says why there are none.

    The features of the reference network come first, then the embedding of the run, then inputs that are rows of
    numbers (each number standardised over the training samples).
    """
    root, count = run.directory.root, run.manifest["dataset"]["train"]
    for kind, source in ((FEATURES, "features of the network trained on all data"), (EMBEDDING, "the run's embedding")):
        if is_written(kind.path(root)):
            found = read_features(kind.path(root))
            if len(found) == count:
                return RunFeatures(Features(found), source)
    return _inputs(run)


def _inputs(run: Run) -> RunFeatures | str:
    described = run.manifest["dataset"]
    if len(described["shape"]) != 1 or described.get("vocabulary") is not None or run.configuration.dataset == CUSTOM:
        return NO_FEATURES
    numbers = (described["train"] + described["test"]) * described["shape"][0]
    if numbers > _MOST_NUMBERS:
        return f"The inputs hold {numbers:,} numbers, too many to compare samples by. {NO_FEATURES}"
    try:
        train = _rows(run.samples("train"))
        test = _rows(run.samples("test")) if described["test"] else None
    except (MosoError, OSError) as problem:  # the data was moved or has changed: the rest of the run is still shown
        return f"The inputs cannot be read any more: {problem}."
    if len(train) != described["train"]:
        return "The data has changed since the run, so its inputs are not those that were scored."
    mean = np.asarray(train.mean(axis=0, dtype=np.float64), dtype=np.float32)
    spread = np.asarray(train.std(axis=0, dtype=np.float64), dtype=np.float32)
    spread[spread == 0] = 1.0
    for rows in (train, test):
        if rows is not None:  # in place: the inputs may take a gigabyte
            rows -= mean
            rows /= spread
    return RunFeatures(Features(train), "the inputs, standardised", None if test is None else Features(test))


def _rows(samples: Samples) -> NDArray[np.float32]:
    assert isinstance(samples, StoredSamples)  # data that a name opens is stored; the user's own has no name
    found = np.empty((len(samples), samples.shape[0]), dtype=np.float32)
    for start in range(0, len(samples), CHUNK):
        part = slice(start, min(start + CHUNK, len(samples)))
        found[part] = samples.reader.read(np.arange(part.start, part.stop))
    return found
