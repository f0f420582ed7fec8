"""Samples of language models: layouts of records, their token ids and labels, and the reader that gives them."""

from moso.data.sequences.documents import Document, document_of, layout_columns
from moso.data.sequences.sequence_reader import SequenceReader, tokenised
from moso.data.sequences.token_coding import Coder, Limits, TokenSettings, WordCoder

__all__ = [
    "Coder",
    "Document",
    "Limits",
    "SequenceReader",
    "TokenSettings",
    "WordCoder",
    "document_of",
    "layout_columns",
    "tokenised",
]
