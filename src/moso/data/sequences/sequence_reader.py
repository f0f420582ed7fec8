"""Documents read as token ids, and the labels that go with them.

A sample is one row: samples are never packed into common rows, so the tokens of one never attend to those of another
and each has a loss of its own. Batches are as long as their longest sample. Behind its end a row is filled with
padding, which has no label. What is longer than the limit loses its end; a sample that keeps no predicted token is
refused by its id.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.data.sequences.documents import Document
from moso.data.sequences.token_coding import Coder, TokenSettings, length_for, padded
from moso.randomness import uniforms
from moso.tasks.language import IGNORED, LanguageModelling

# Share of a sample's tokens that masked language modelling masks, as in BERT; at least one.
MASKED_SHARE = 0.15


@dataclass(frozen=True)
class SequenceReader:
    """Documents, read as token ids once they are tokenised.

    Attributes:
        documents: Documents as JSON, one per sample.
        ids: Token ids `[n, length]`, filled with `padding`; None before tokenisation.
        vocabulary: Number of token ids of the network.
        padding: What fills rows behind the end of a sample.
        coder: The tokenizer.

    Example:
        >>> reader = SequenceReader(pa.array([Document((("a rose", True),)).dumped()]))
        >>> reader.text(0), reader.shape
        ('a rose', ())
    """

    documents: pa.Array
    ids: NDArray[np.int64] | None = None
    vocabulary: int | None = None
    padding: int = 0
    coder: Coder | None = None
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """`(length,)`, the most tokens per input."""
        return () if self.ids is None else (self.ids.shape[1],)

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        assert self.ids is not None
        return np.asarray((self.ids != self.padding).sum(1), dtype=np.int64)

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return token ids `[n, longest of these]`."""
        assert self.ids is not None, "documents are tokenised when a data set is opened"
        longest = int(self._lengths[positions].max()) if len(positions) else self.ids.shape[1]
        return self.ids[positions, :longest]

    def document(self, position: int) -> Document:
        """Return one document."""
        return Document.loaded(str(self.documents[position]))

    def picture(self, position: int) -> None:
        """Return None: a document is not a picture."""
        return

    def text(self, position: int) -> str:
        """Return one document as a text."""
        return self.document(position).text

    def take(self, positions: NDArray[np.int64]) -> "SequenceReader":
        """Return the reader of a subset."""
        ids = None if self.ids is None else self.ids[positions]
        return replace(self, documents=self.documents.take(pa.array(positions)), ids=ids)

    def fingerprint(self) -> str:
        """Return a hash of every document and of its token ids."""
        digest = hashlib.blake2b(digest_size=16)
        for document in self.documents.to_pylist():
            content = document.encode()
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
        if self.ids is not None:
            digest.update(np.ascontiguousarray(self.ids).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Split:
    """One split to tokenise: its reader, and the id and key of every sample."""

    reader: SequenceReader
    ids: Sequence[object]
    keys: NDArray[np.uint64]


def tokenised(
    splits: Sequence[Split], task: LanguageModelling, settings: TokenSettings, seed: int
) -> tuple[LanguageModelling, list[tuple[SequenceReader, NDArray[np.int64]]]]:
    """Return the task with its sizes, and every split as token ids with labels; the first split is for training.

    Args:
        splits: The splits, the training split first.
        task: The task.
        settings: Tokenizer and limit of length.
        seed: Seed of the masks of masked language modelling.

    Raises:
        DataEmpty: A sample has no predicted token.
        ModelUnsuitable: The tokenizer has no mask token, or more ids than the network.
        SettingInvalid: The limit of length is beyond the network's positions.
    """
    documents = [[split.reader.document(one) for one in range(len(split.reader))] for split in splits]
    coder = settings.coder_for(document.text for document in documents[0])
    coded = [[coder.coded(document) for document in split] for split in documents]
    # All of every sample, as far as the limit allows: what is predicted comes last.
    length = length_for([len(ids) for split in coded for ids, _ in split], coder, settings.most, share=1.0)
    found = []
    for split, rows in zip(splits, coded, strict=True):
        ids = padded([own[:length] for own, _ in rows], length, coder.padding)
        labels = padded([_labels(own, known)[:length] for own, known in rows], length, IGNORED)
        if not task.is_causal:
            ids, labels = masked(ids, labels, split.keys, coder, seed)
        _check(task, labels, split.ids, [len(own) for own, _ in rows], length)
        reader = replace(split.reader, ids=ids, vocabulary=coder.vocabulary, padding=coder.padding, coder=coder)
        found.append((reader, labels))
    return task.sized(length, coder.vocabulary), found


def _labels(ids: Sequence[int], predicted: Sequence[bool]) -> list[int]:
    return [one if known else IGNORED for one, known in zip(ids, predicted, strict=True)]


def masked(
    ids: NDArray[np.int64], labels: NDArray[np.int64], keys: NDArray[np.uint64], coder: Coder, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids of which a share is masked, and labels at the masked positions only.

    Which tokens of a sample are masked is a hash of (seed, its key, position): the same in every epoch and at every
    time step, whatever the order of the data. Only tokens with a label are masked, at least one of each sample.

    Args:
        ids: Token ids, `[n, length]`.
        labels: Their labels, `[n, length]`.
        keys: The key of each sample, `[n]`.
        coder: The tokenizer, which knows the mask.
        seed: Seed of the masks.

    Raises:
        ModelUnsuitable: The tokenizer has no mask token.
    """
    if coder.mask is None:
        raise errors.ModelUnsuitable(
            "task 'masked-lm' needs a tokenizer with a mask token, and this one has none; use task 'causal-lm', or a "
            "network that was made for masked language modelling"
        )
    places = np.arange(ids.shape[1], dtype=np.uint64)
    draws = np.stack([uniforms(places, seed, "mask", int(own)) for own in keys]) if len(keys) else np.ones(ids.shape)
    draws[labels == IGNORED] = 2.0
    chosen = (draws < MASKED_SHARE) | (draws == draws.min(1, keepdims=True))
    chosen &= labels != IGNORED
    return np.where(chosen, coder.mask, ids), np.where(chosen, labels, IGNORED)


def _check(
    task: LanguageModelling, labels: NDArray[np.int64], ids: Sequence[object], lengths: Sequence[int], length: int
) -> None:
    nothing = np.flatnonzero(task.predicted(labels) == 0)
    if len(nothing):
        first = int(nothing[0])
        cut = f": its {lengths[first]:,} tokens are cut off after {length}" if lengths[first] > length else ""
        raise errors.DataEmpty(
            f"sample {ids[first]} has no token to predict{cut} ({len(nothing):,} such samples in all); "
            + ("raise max_tokens, shorten its prompt, or remove it" if cut else "remove it, or give it a completion")
        )
