"""Texts as token ids: a small tokenizer fitted to the training split, and the reader that applies it.

A token is a lower-case word (a run of letters and digits) or a single other character. The vocabulary is a function of
the training texts and not of their order. Words that occur once are not in the vocabulary: they become the unknown
token, which would otherwise never be trained although it stands for every new word of the test.

Hand-made, although the package tokenizers exists: token ids, and with them scores, must not change with its version.
"""

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Special token ids, before those of words: padding of short texts, unknown words, start of a text.
PADDING, UNKNOWN, START = 0, 1, 2
SPECIAL = 3
LEAST_OCCURRENCES = 2
MOST_WORDS = 30_000
# Inputs are long enough for this share of the training texts, but have at most LONGEST tokens; longer texts are
# truncated.
LENGTH_SHARE = 0.99
LONGEST = 256
_TOKEN = re.compile(r"\w+|[^\w\s]")


def tokens(text: str) -> list[str]:
    """Split a text into tokens.

    Example:
        >>> tokens("What's an ATOM?")
        ['what', "'", 's', 'an', 'atom', '?']
    """
    return _TOKEN.findall(text.lower())


def frequent_words(texts: Iterable[str]) -> tuple[tuple[str, ...], list[int]]:
    """Return the words of the vocabulary, most frequent first, and the number of words of each text.

    Example:
        >>> frequent_words(["a rose is a rose", "it is"])
        (('a', 'is', 'rose'), [5, 2])
    """
    counts: Counter[str] = Counter()
    lengths = []
    for text in texts:
        own = tokens(text)
        counts.update(own)
        lengths.append(len(own))
    known = sorted((-count, word) for word, count in counts.items() if count >= LEAST_OCCURRENCES)
    return tuple(word for _, word in known[:MOST_WORDS]), lengths


def fitting_length(lengths: Sequence[int], most: int = LONGEST, share: float = LENGTH_SHARE) -> int:
    """Return the tokens per input that a share of the texts needs, at most `most`; warn if more texts are cut.

    Example:
        >>> fitting_length([3, 5, 4])
        5
    """
    wanted = int(np.quantile(lengths, share, method="higher"))
    if wanted > most:
        cut = sum(length > most for length in lengths)
        warnings.warn(
            f"{cut:,} of {len(lengths):,} texts are longer than {most} tokens; the network sees their beginning",
            stacklevel=3,
        )
    return min(wanted, most)


class Encoding(Protocol):
    """Texts to token ids, as a reader needs it: the built-in `Tokenizer`, or that of a network."""

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""

    @property
    def length(self) -> int:
        """Tokens per input."""

    def encode(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Return token ids `[texts, length]`."""


@dataclass(frozen=True)
class Tokenizer:
    """The vocabulary, from the most to the least frequent word, and the number of tokens per input.

    Example:
        >>> tokenizer = Tokenizer.fit(["a rose is a rose", "is it ?"])
        >>> tokenizer.words, tokenizer.length
        (('a', 'is', 'rose'), 6)
        >>> tokenizer.encode(["Rose is new"])
        array([[2, 5, 4, 1, 0, 0]])
    """

    words: tuple[str, ...]
    length: int

    @classmethod
    def fit(cls, texts: Iterable[str]) -> "Tokenizer":
        """Fit a tokenizer to training texts."""
        words, lengths = frequent_words(texts)
        return cls(words, fitting_length([1 + length for length in lengths]))

    @property
    def vocabulary(self) -> int:
        """Number of token ids, including the special ones."""
        return SPECIAL + len(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, SPECIAL)}

    def numbers(self, text: str) -> list[int]:
        """Return the ids of the words of a text, without special tokens but that of unknown words."""
        return [self._numbers.get(word, UNKNOWN) for word in tokens(text)]

    def encode(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Return token ids `[texts, length]`: start, words, padding."""
        rows = []
        for text in texts:
            row = [START, *self.numbers(text)][: self.length]
            rows.append(row + [PADDING] * (self.length - len(row)))
        return np.array(rows, dtype=np.int64).reshape(len(rows), self.length)


@dataclass(frozen=True)
class TextReader:
    """Texts, read as token ids once they have a tokenizer.

    Example:
        >>> reader = TextReader(pa.array(["one two", "two one one"]))
        >>> reader.tokenised(Tokenizer.fit(reader.texts.to_pylist())).read(np.array([1]))
        array([[2, 4, 3, 3]])
    """

    texts: pa.Array
    tokenizer: Encoding | None = None
    streamed = False

    @property
    def shape(self) -> tuple[int, ...]:
        """`(length,)`, the number of tokens per input."""
        return () if self.tokenizer is None else (self.tokenizer.length,)

    @property
    def vocabulary(self) -> int | None:
        """Number of token ids."""
        return None if self.tokenizer is None else self.tokenizer.vocabulary

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _ids(self) -> NDArray[np.int64]:
        assert self.tokenizer is not None, "texts are tokenised when a data set is opened"
        return self.tokenizer.encode(self.texts.to_pylist())

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return token ids `[n, length]`."""
        return self._ids[positions]

    def picture(self, position: int) -> None:
        """Return None: a text is not a picture."""
        return

    def text(self, position: int) -> str:
        """Return one text as it was read."""
        return str(self.texts[position])

    def take(self, positions: NDArray[np.int64]) -> "TextReader":
        """Return the reader of a subset."""
        return replace(self, texts=self.texts.take(pa.array(positions)))

    def tokenised(self, tokenizer: Encoding) -> "TextReader":
        """Return the same texts, read through this tokenizer."""
        return replace(self, tokenizer=tokenizer)

    def fingerprint(self) -> str:
        """Return a hash of every text; token ids follow from the training texts."""
        digest = hashlib.blake2b(digest_size=16)
        for text in self.texts.to_pylist():
            content = text.encode()
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
        return digest.hexdigest()
