"""Label issues: the samples of a run whose labels are suspected to be wrong, and how well each ranking detects them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.configuration import CUSTOM
from moso.data.input_rows import are_vectors, input_rows
from moso.data.labels import read_labels
from moso.errors import MosoError, unknown_name
from moso.evaluation.confident_learning import confident_learning
from moso.evaluation.detection import Detection, detection
from moso.evaluation.label_suspects import OUT_OF_SAMPLE, Suspects, doubt, find_suspects, suspicion
from moso.evaluation.neighbour_doubt import mean_rank, neighbour_doubt
from moso.evidence import read_out_of_sample
from moso.evidence.predictions import out_of_sample_path
from moso.evidence_kinds.out_of_sample import check_out_of_sample
from moso.results.originals import Originals
from moso.results.reading import Run
from moso.results.score_files import score_note
from moso.selection.feature_rows import Features

# The score that ranks suspects if the run has it, and neighbours cannot be asked (docs/suspects.md).
BEST = "aum"
# Where inputs are vectors: doubt of the nearest samples, and the mean rank of that and of out-of-sample doubt, which
# counts twice (docs/suspects.md).
NEIGHBOURS, COMBINED = "neighbours", "combined"
_WEIGHTS = (2, 1)
# What found the most wrong labels in our measurements, best first; page and `suspects` take the first that is there.
_RECOMMENDED = (COMBINED, BEST, OUT_OF_SAMPLE)


@dataclass(frozen=True)
class LabelIssues:
    """The suspects of a run, most suspicious first, and how well every ranking detects wrong labels.

    Attributes:
        suspects: The suspects.
        order: Name of the ranking.
        ids: Ids of the suspects.
        classes: Names of the classes.
        samples: Number of samples.
        wrong: Number of wrong labels; None if the right labels are not known.
        detections: Quality of every ranking, best first; empty if the right labels are not known.
        note: What is missing from the comparison, if anything.
    """

    suspects: Suspects
    order: str
    ids: list[Any]
    classes: list[str]
    samples: int
    wrong: int | None
    detections: list[Detection]
    note: str = ""


def find_label_issues(
    run: Run, *, order: str | None = None, top: int | None = 100, labels: str | None = None, seed: int | None = None
) -> LabelIssues:
    """Find the suspects of a run that has scores and out-of-sample predictions.

    Args:
        run: The run.
        order: `out-of-sample`, `neighbours`, `combined` or the name of a score. None takes what found the most wrong
            labels in our measurements: `combined` where inputs are vectors, else `aum` if the run has that score, else
            `out-of-sample`.
        top: Number of suspects; None for all.
        labels: `FILE[:KEY]` of labels known to be right. None takes the labels of the source if the run replaced them
            or made them noisy.
        seed: Seed of the scores; None is the first seed.

    Raises:
        MosoError: ``classes-required``, ``stage-incomplete``, ``evidence-missing``, ``unknown-name``,
            ``nothing-to-measure``.
    """
    check_possible(run)
    c, seed = run.configuration, run.known_seed(seed)
    table = run.table(seed)
    given, ids = table["label"].to_numpy(), table["id"].to_pylist()
    probabilities = read_out_of_sample(run.directory.of_seed(c, seed))
    opinions = {OUT_OF_SAMPLE: doubt(probabilities, given), **_score_suspicions(run, seed)}
    beside, missing = _by_neighbours(run, given, opinions[OUT_OF_SAMPLE])
    opinions |= beside
    order = order or next(name for name in _RECOMMENDED if name in opinions)
    if order not in opinions:
        raise unknown_name("order of suspects", order, opinions)
    actual = right_labels(run, given, ids, labels)
    found = find_suspects(opinions[order], given, probabilities, top, actual)
    classes = run.manifest["dataset"]["classes"]
    named = [ids[position] for position in found.positions.tolist()]
    if actual is None:
        return LabelIssues(found, order, named, classes, len(given), None, [], missing)
    wrong = actual != given
    detections, note = _detections(opinions, given, probabilities, wrong)
    note = " ".join(filter(None, (missing, note)))
    return LabelIssues(found, order, named, classes, len(given), int(wrong.sum()), detections, note)


def _by_neighbours(
    run: Run, given: NDArray[np.int64], unseen: NDArray[np.float64]
) -> tuple[dict[str, NDArray[np.float64]], str]:
    """Return the rankings by neighbours where inputs are vectors, and what is missing if they cannot be had."""
    c = run.configuration
    if c.dataset == CUSTOM or len(run.manifest["dataset"]["shape"]) != 1:
        return {}, ""
    train = run.samples("train")
    if not are_vectors(train, c.memory_limit_bytes):
        return {}, ""
    try:
        found = neighbour_doubt(Features(input_rows(train)), given)
    except errors.PackageMissing as problem:
        return {}, f"Without {NEIGHBOURS} and {COMBINED} beside them: {problem}."
    return {NEIGHBOURS: found, COMBINED: mean_rank(unseen, found, weights=_WEIGHTS)}, ""


def label_suspicion(run: Run) -> tuple[str, NDArray[np.float64]] | None:
    """Return the ranking that `find_label_issues` takes, as far as the first seed's evidence gives it.

    Returns:
        Its name and the suspicion of every sample, high means more, shape ``[samples]``; None if there is neither the
        score `aum` nor an out-of-sample prediction.
    """
    scores, home, opinions = run.scores(), run.directory.root, dict[str, NDArray[np.float64]]()
    if out_of_sample_path(home).exists():
        given = run.table()["label"].to_numpy()
        opinions[OUT_OF_SAMPLE] = doubt(read_out_of_sample(home), given)
        opinions |= _by_neighbours(run, given, opinions[OUT_OF_SAMPLE])[0]
    if BEST in scores and np.isfinite(scores[BEST]).all():
        opinions[BEST] = _score_suspicions(run, run.configuration.seed)[BEST]
    order = next((name for name in _RECOMMENDED if name in opinions), None)
    return None if order is None else (order, opinions[order])


def _score_suspicions(run: Run, seed: int) -> dict[str, NDArray[np.float64]]:
    home = run.directory.of_seed(run.configuration, seed)
    return {name: suspicion(values, score_note(home, name).get("hard")) for name, values in run.scores(seed).items()}


def check_possible(run: Run) -> None:
    """Refuse a run without classes, without scores, or with a single partition.

    Raises:
        MosoError: ``classes-required``, ``stage-incomplete``, ``evidence-missing``.
    """
    if not run.configuration.by_class:
        raise errors.ClassesRequired(
            f"the samples of {run.directory} have no classes, so no label can be of the wrong one"
        )
    run.table()
    check_out_of_sample(run.configuration.partitions)


def right_labels(
    run: Run, given: NDArray[np.int64], ids: list[Any], labels: str | None = None
) -> NDArray[np.int64] | None:
    """Return the right label of every sample, ``[samples]``, or None if they are not known.

    If `labels` are the labels that were trained on, the labels of the source count as the right ones.

    Args:
        run: The run.
        given: Labels that were trained on, ``[samples]``.
        ids: One id per sample.
        labels: `FILE[:KEY]` of labels known to be right.

    Raises:
        MosoError: ``nothing-to-measure`` if the right labels equal those that were trained on; ``data-changed``.
    """
    c = run.configuration
    if c.dataset == CUSTOM:
        classes = run.manifest["dataset"]["classes"]
        return None if labels is None else _differing(read_labels(labels, len(ids), classes), given, labels)
    if labels is None and c.labels is None and c.label_noise == 0:
        return None
    source = Originals.open(c)
    places = np.array([source.position(one) for one in ids], dtype=np.int64)
    own: NDArray[np.int64] = source.samples.labels[places]
    if labels is None:
        return _differing(own, given, "the source")
    named = read_labels(labels, len(source.samples), source.samples.classes, source.samples.ids)[places]
    return _differing(own if (named == given).all() else named, given, labels)


def _differing(actual: NDArray[np.int64], given: NDArray[np.int64], whose: str) -> NDArray[np.int64]:
    if (actual == given).all():
        raise errors.NothingToMeasure(
            f"the labels of {whose} are those that were trained on: there is no wrong one to detect"
        )
    return actual


def _detections(
    opinions: dict[str, NDArray[np.float64]],
    given: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    wrong: NDArray[np.bool_],
) -> tuple[list[Detection], str]:
    found = [detection(name, values, wrong) for name, values in opinions.items()]
    try:
        others = confident_learning(given, probabilities)
    except MosoError as problem:
        return sorted(found, key=lambda one: -one.auroc), f"Without confident learning beside them: {problem}."
    found += [detection(name, one.suspicion, wrong, one.flagged) for name, one in others.items()]
    return sorted(found, key=lambda one: -one.auroc), ""
