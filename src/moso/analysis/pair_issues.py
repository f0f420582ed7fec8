"""Pair issues: the pairs of a run whose text is suspected not to belong to its input, worst first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.configuration import CUSTOM
from moso.data.input_rows import are_vectors, input_rows
from moso.data.tokenizer import PADDING, tokens
from moso.errors import unknown_name
from moso.evaluation.label_suspects import OUT_OF_SAMPLE, suspicion
from moso.evaluation.neighbour_doubt import mean_rank
from moso.evaluation.text_doubt import text_doubt
from moso.evidence.arrays import read
from moso.evidence_kinds.out_of_sample import check_out_of_sample
from moso.evidence_kinds.unseen_losses import UNSEEN_LOSSES
from moso.results.reading import Run
from moso.results.score_files import score_note
from moso.selection.feature_rows import Features

NEIGHBOURS, COMBINED = "neighbours", "combined"


@dataclass(frozen=True)
class PairIssues:
    """The suspects among the pairs of a run, most suspicious first; every column has one entry per suspect.

    Attributes:
        positions: Positions of the pairs in the data set, shape ``[suspects]``.
        suspicion: How suspicious each pair is, high means more, shape ``[suspects]``.
        losses: Mean loss of each pair at the networks that never saw it, shape ``[suspects]``.
        order: Name of the ranking.
        ids: Ids of the suspects.
        texts: Texts of the suspects; rows of token ids where a tokenizer of the user's own made them.
        samples: Number of pairs in the run.
        note: What is missing from the rankings, if anything.
    """

    positions: NDArray[np.int64]
    suspicion: NDArray[np.float64]
    losses: NDArray[np.float64]
    order: str
    ids: list[Any]
    texts: list[str]
    samples: int
    note: str = ""

    def __len__(self) -> int:
        return len(self.positions)


def has_pairs(run: Run) -> bool:
    """Return whether the samples of a run are pairs of an input and a text."""
    return run.task.answers_are_texts


def check_pairs(run: Run) -> None:
    """Refuse a run of pairs without scores, with a single partition, or of data in memory.

    Raises:
        MosoError: ``stage-incomplete``, ``evidence-missing``, ``data-in-memory``.
    """
    run.table()
    check_out_of_sample(run.configuration.partitions)
    if run.configuration.dataset == CUSTOM:
        raise errors.DataInMemory(
            f"{run.directory} was made from data in memory, so its texts cannot be read again; run pairs:DIR"
        )


def pair_suspicions(run: Run, seed: int | None = None) -> tuple[dict[str, NDArray[np.float64]], str]:
    """Return every ranking of the pairs of a run, and what is missing from them, if anything.

    Args:
        run: The run, with its out-of-sample losses measured.
        seed: Seed of the scores; None is the first seed.

    Returns:
        The suspicion of every pair by name of the ranking, high means more, shape ``[samples]`` each: the out-of-sample
        loss, scores of the run by their hard end, and where inputs are vectors `neighbours` and `combined`.

    Raises:
        MosoError: ``stage-incomplete``, ``evidence-missing``, ``data-in-memory``, ``unknown-name``.
    """
    check_pairs(run)
    c, seed = run.configuration, run.known_seed(seed)
    home = run.directory.of_seed(c, seed)
    unseen = np.asarray(read(UNSEEN_LOSSES.found(UNSEEN_LOSSES.path(home))), dtype=np.float64)
    found = {OUT_OF_SAMPLE: unseen}
    found |= {name: suspicion(own, score_note(home, name).get("hard")) for name, own in run.scores(seed).items()}
    train = run.samples("train")
    if not are_vectors(train, c.memory_limit_bytes):
        return found, ""
    try:
        near = text_doubt(Features(input_rows(train)), _words(train.targets))
    except errors.PackageMissing as problem:
        return found, f"Without {NEIGHBOURS} and {COMBINED} beside them: {problem}."
    return {**found, NEIGHBOURS: near, COMBINED: mean_rank(unseen, near)}, ""


def find_pair_issues(
    run: Run, *, order: str | None = None, top: int | None = 100, seed: int | None = None
) -> PairIssues:
    """Find the pairs of a run whose text most likely belongs to another input.

    Args:
        run: The run, with its out-of-sample losses measured.
        order: `out-of-sample`, `neighbours`, `combined` or the name of a score. None takes what found the most swapped
            captions in our measurements: `combined` where inputs are vectors, else `out-of-sample`.
        top: Number of suspects; None for all.
        seed: Seed of the scores; None is the first seed.

    Raises:
        MosoError: ``stage-incomplete``, ``evidence-missing``, ``data-in-memory``, ``unknown-name``.
    """
    opinions, note = pair_suspicions(run, seed)
    order = order or (COMBINED if COMBINED in opinions else OUT_OF_SAMPLE)
    if order not in opinions:
        raise unknown_name("order of suspects", order, opinions)
    first = np.argsort(-opinions[order], kind="stable")[:top]
    ids, texts = run.table(seed)["id"], run.samples("train").targets
    return PairIssues(
        first,
        opinions[order][first],
        opinions[OUT_OF_SAMPLE][first],
        order,
        ids.take(first).to_pylist(),
        [str(one) for one in texts[first].tolist()],
        len(texts),
        note,
    )


def _words(texts: NDArray[Any]) -> list[list[Any]]:
    """Return the words of texts, or the token ids of rows that a tokenizer of the user's own made."""
    if texts.dtype.kind == "U":
        return [list(tokens(text)) for text in texts.tolist()]
    return [[one for one in row if one != PADDING] for row in texts.tolist()]
