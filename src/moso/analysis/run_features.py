"""The features by which the samples of a run can be compared: recorded by the run, or the inputs themselves."""

from dataclasses import dataclass

from moso.configuration import CUSTOM
from moso.data.input_rows import are_vectors, input_rows
from moso.errors import MosoError
from moso.evidence.features import is_written, read_features
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.reference_features import FEATURES
from moso.results.reading import Run
from moso.selection.feature_rows import Features

NO_FEATURES = (
    "Comparing samples needs features, which are recorded where a method uses them, for example "
    "moso score RUN --method moderate."
)
NO_FEATURES_IN_MEMORY = (
    "Comparing samples needs features. This run was made from data in memory: it has features if moso.prune was given "
    "a method that uses them, such as moderate."
)


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
    numbers, standardised as networks meet them.
    """
    root, count = run.directory.root, run.manifest["dataset"]["train"]
    for kind, source in ((FEATURES, "features of the network trained on all data"), (EMBEDDING, "the run's embedding")):
        if is_written(kind.path(root)):
            found = read_features(kind.path(root))
            if len(found) == count:
                return RunFeatures(Features(found), source)
    return _inputs(run)


def _inputs(run: Run) -> RunFeatures | str:
    c, described = run.configuration, run.manifest["dataset"]
    if c.dataset == CUSTOM:
        return NO_FEATURES_IN_MEMORY
    if len(described["shape"]) != 1 or described.get("vocabulary") is not None:
        return NO_FEATURES
    try:
        train, test = run.samples("train"), run.samples("test") if described["test"] else None
        if not are_vectors(train, c.memory_limit_bytes):
            return f"The inputs are too large to compare all samples by them. {NO_FEATURES}"
        rows, tests = input_rows(train), None if test is None else input_rows(test)
    except (MosoError, OSError) as problem:  # the data was moved or has changed: the rest of the run is still shown
        return f"The inputs cannot be read any more: {problem}."
    if len(rows) != described["train"]:
        return "The data has changed since the run, so its inputs are not those that were scored."
    return RunFeatures(Features(rows), "the inputs, standardised", None if tests is None else Features(tests))
