"""Token ids of documents: by the built-in tokenizer, or by whatever has the same few attributes.

Every piece of a document is tokenised by itself, as it is at generation: a prompt's last and a completion's first
character never share a token.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.data.sequences.documents import Document
from moso.data.tokenizer import LENGTH_SHARE, LONGEST, PADDING, START, Tokenizer, fitting_length, frequent_words

# The ids of a document, and whether each is predicted.
Coded = tuple[list[int], list[bool]]


class Coder(Protocol):
    """Turns documents into token ids."""

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the network."""

    @property
    def padding(self) -> int:
        """What fills inputs behind the end of a sequence."""

    @property
    def mask(self) -> int | None:
        """The token that stands for a masked one, if there is one."""

    @property
    def longest(self) -> int | None:
        """Number of positions of the network, if it has a limit."""

    def coded(self, document: Document) -> Coded:
        """Return token ids, and whether each is predicted."""

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts for a classifier, with the special tokens that the network expects."""

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return token ids as people read them."""


@dataclass(frozen=True)
class Limits:
    """What a network demands of token ids.

    Attributes:
        vocabulary: Number of token ids; None for as many as the tokenizer needs.
        longest: Number of positions, if there is a limit.
        padding: What fills inputs behind the end of a sequence.
    """

    vocabulary: int | None = None
    longest: int | None = None
    padding: int = PADDING


@dataclass(frozen=True)
class TokenSettings:
    """How texts become token ids.

    Attributes:
        coder: The tokenizer of a network; None for the built-in one, fitted to the training split.
        most: Most tokens per sample; None for 256.
        limits: What the network demands of the built-in tokenizer.
    """

    coder: Coder | None = None
    most: int | None = None
    limits: Limits = Limits()

    @property
    def is_built_in(self) -> bool:
        """Whether classifiers get the ids of the built-in tokenizer as they always were."""
        return self.coder is None and self.limits == Limits()

    def coder_for(self, texts: Iterable[str]) -> Coder:
        """Return the tokenizer of the network, or the built-in one, fitted to training texts.

        Raises:
            ModelUnsuitable: The texts have more words than the network has token ids.
        """
        if self.coder is not None:
            return self.coder
        words, _ = frequent_words(texts)
        found = WordCoder(Tokenizer(words, length=0), self.limits)
        if self.limits.vocabulary is not None and self.limits.vocabulary < found.needed:
            raise errors.ModelUnsuitable(
                f"the built-in tokenizer has {found.needed:,} ids for these texts, and the network a vocabulary of "
                f"{self.limits.vocabulary:,} (vocab_size in config.json); raise it there, or put a tokenizer beside it"
            )
        return found


@dataclass(frozen=True)
class WordCoder:
    """The built-in tokenizer for language models: lower-case words, one token before a document and the same after it.

    The end is predicted if the last piece is. One more id than words is the mask.

    Example:
        >>> coder = WordCoder(Tokenizer.fit(["a rose is a rose", "is it ?"]))
        >>> coder.coded(Document((("is a", False), (" rose", True))))
        ([2, 4, 3, 5, 2], [False, False, False, True, True])
        >>> coder.words([2, 4, 3, 0]), coder.vocabulary
        (['<|>', 'is', 'a', '<pad>'], 7)
    """

    tokenizer: Tokenizer
    limits: Limits = Limits()

    @property
    def needed(self) -> int:
        """Number of token ids: those of the tokenizer, and the mask."""
        return self.tokenizer.vocabulary + 1

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the network."""
        return self.limits.vocabulary or self.needed

    @property
    def padding(self) -> int:
        """What fills inputs behind the end of a sequence."""
        return self.limits.padding

    @property
    def longest(self) -> int | None:
        """Number of positions of the network."""
        return self.limits.longest

    @property
    def mask(self) -> int:
        """The id behind those of the tokenizer."""
        return self.tokenizer.vocabulary

    def coded(self, document: Document) -> Coded:
        """Return token ids, and whether each is predicted; nothing comes before the first token to predict it from."""
        ids, predicted = [START], [False]
        for text, known in document.parts():
            own = self.tokenizer.numbers(text)
            ids += own
            predicted += [known] * len(own)
        return [*ids, START], [*predicted, predicted[-1]]

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the start token and the words of each text."""
        return [[START, *self.tokenizer.numbers(text)] for text in texts]

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the words of token ids."""
        special = ("<pad>", "<unknown>", "<|>")
        known = [*special, *self.tokenizer.words, "<mask>"]
        return ["<pad>" if one == self.padding else known[one] for one in ids]


def length_for(lengths: Sequence[int], coder: Coder, most: int | None, share: float = LENGTH_SHARE) -> int:
    """Return the tokens per input: what a share of the samples needs, at most `most` and the network's positions.

    Args:
        lengths: Tokens per sample.
        coder: The tokenizer, which knows how many positions its network has.
        most: The user's limit; None for 256.
        share: Share of the samples that are not cut off, if the limit allows it.

    Raises:
        SettingInvalid: The limit is beyond the network's positions, or leaves nothing to predict.
    """
    if most is None:
        return fitting_length(lengths, min(LONGEST, coder.longest or LONGEST), share)
    if coder.longest is not None and most > coder.longest:
        raise errors.SettingInvalid(
            f"max_tokens = {most} is longer than the {coder.longest} positions of the network; give {coder.longest} or "
            "less: longer samples are cut off"
        )
    if most < 2:
        raise errors.SettingInvalid(f"max_tokens = {most}: a sequence needs at least 2 tokens, one to predict another")
    return fitting_length(lengths, most, share)


@dataclass(frozen=True)
class CodedTexts:
    """A network's own tokenizer as an `Encoding` of texts for classification.

    Attributes:
        coder: The tokenizer.
        length: Tokens per input; longer texts are cut off, shorter ones padded.
    """

    coder: Coder
    length: int

    @classmethod
    def fit(cls, texts: Sequence[str], settings: TokenSettings) -> "CodedTexts":
        """Return the encoding that is long enough for training texts."""
        coder = settings.coder_for(texts)
        return cls(coder, length_for([len(ids) for ids in coder.plain(texts)], coder, settings.most))

    @property
    def vocabulary(self) -> int:
        """Number of token ids of the network."""
        return self.coder.vocabulary

    def encode(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Return token ids `[texts, length]`."""
        return padded([ids[: self.length] for ids in self.coder.plain(list(texts))], self.length, self.coder.padding)


def padded(rows: Sequence[Sequence[int]], length: int, fill: int) -> NDArray[np.int64]:
    """Return rows of one length, `[rows, length]`, filled at their ends.

    Example:
        >>> padded([[1, 2], [3]], 3, -1)
        array([[ 1,  2, -1],
               [ 3, -1, -1]])
    """
    found = np.full((len(rows), length), fill, dtype=np.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return found
