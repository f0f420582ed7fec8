"""Documents: what a record of a file says to a language model, and which parts of it are to be predicted.

- `messages`: a list of `{"role": ..., "content": ...}`; what the assistant says is predicted, all else is prompt.
- `prompt` and `completion`: the completion is predicted.
- `text` (or the column that is named as the text): all of it is predicted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moso import errors

TEXT_NAMES = ("text", "sentence", "question")
ASSISTANT = "assistant"
# A part of a document: its text, and whether it is predicted.
Piece = tuple[str, bool]


@dataclass(frozen=True)
class Document:
    """One sample of a language model.

    Attributes:
        pieces: Parts in order, each with whether it is predicted; empty if there are messages.
        messages: Messages `(role, content)` in order.

    Example:
        >>> chat = Document(messages=(("user", "2 + 2 ?"), ("assistant", "4")))
        >>> chat.parts()
        (('user: 2 + 2 ?\\nassistant: ', False), ('4\\n', True))
        >>> chat.text
        'user: 2 + 2 ?\\nassistant: 4\\n'
    """

    pieces: tuple[Piece, ...] = ()
    messages: tuple[tuple[str, str], ...] = ()

    def parts(self) -> tuple[Piece, ...]:
        """Return texts in order, with whether each is predicted; messages are lines `role: content`."""
        if not self.messages:
            return self.pieces
        found: list[Piece] = []
        for role, content in self.messages:
            found += [(f"{role}: ", False), (f"{content}\n", role == ASSISTANT)]
        return joined(found)

    @property
    def text(self) -> str:
        """The document as one text, for people."""
        return "".join(text for text, _ in self.parts())

    def dumped(self) -> str:
        """Return the document as JSON."""
        return json.dumps([self.pieces, self.messages], ensure_ascii=False)

    @classmethod
    def loaded(cls, dumped: str) -> "Document":
        """Return the document that `dumped` wrote."""
        pieces, messages = json.loads(dumped)
        return cls(tuple((text, known) for text, known in pieces), tuple((role, said) for role, said in messages))


def joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Join neighbouring pieces that are predicted alike, and drop empty ones.

    Example:
        >>> joined([("a", False), ("b", False), ("", True), ("c", True)])
        (('ab', False), ('c', True))
    """
    found: list[Piece] = []
    for text, predicted in pieces:
        if found and found[-1][1] == predicted:
            found[-1] = (found[-1][0] + text, predicted)
        elif text:
            found.append((text, predicted))
    return tuple(found)


def layout_columns(names: Sequence[str], where: str, text: str = "") -> tuple[str, ...]:
    """Return the columns that make a document: `messages`, `prompt` and `completion`, or one column of text.

    Args:
        names: Columns of the data.
        where: The file, for errors.
        text: Column that the user named as the text.

    Raises:
        ColumnMissing: There is no such column.
        DataAmbiguous: Columns of two layouts are there.

    Example:
        >>> layout_columns(["prompt", "completion", "id"], "a.jsonl"), layout_columns(["text"], "b.tsv")
        (('prompt', 'completion'), ('text',))
    """
    if text:
        return (text,)
    plain = next(((name,) for name in TEXT_NAMES if name in names), None)
    layouts = [
        layout
        for layout in (("messages",), ("prompt", "completion"), plain)
        if layout is not None and set(layout) <= set(names)
    ]
    if len(layouts) > 1:
        both = " and ".join(" + ".join(layout) for layout in layouts[:2])
        raise errors.DataAmbiguous(
            f"{where} has the columns {both}; name the text with ?text=COLUMN, or keep one layout"
        )
    if not layouts:
        raise errors.ColumnMissing(
            f"{where} has neither messages, nor prompt and completion, nor {', '.join(TEXT_NAMES)}; name one of its "
            f"columns ({', '.join(names)}) as the text, with ?text=COLUMN"
        )
    return layouts[0]


def document_of(values: Mapping[str, Any], columns: Sequence[str], where: str) -> Document:
    """Return the document of a record.

    Args:
        values: The record.
        columns: What `layout_columns` returned.
        where: The record's place, for errors.

    Raises:
        ColumnMissing: A column is missing.
        ColumnType: A value is no text, or messages are malformed.
        DataEmpty: Nothing is left to predict.

    Example:
        >>> document_of({"prompt": "2 + 2 = ", "completion": "4"}, ("prompt", "completion"), "line 1").pieces
        (('2 + 2 = ', False), ('4', True))
    """
    for column in columns:
        if column not in values:
            raise errors.ColumnMissing(f"{where} has no {column!r}, which the first row has")
    if tuple(columns) == ("messages",):
        document = Document(messages=_messages(values["messages"], where))
    else:
        last = len(columns) - 1
        texts = [_text(values[column], column, where) for column in columns]
        document = Document(joined([(text, number == last) for number, text in enumerate(texts)]))
    if not any(predicted and text.strip() for text, predicted in document.parts()):
        what = "no message of the assistant" if document.messages else f"an empty {columns[-1]}"
        raise errors.DataEmpty(f"{where} has {what}, so there is nothing to predict; remove the row or fill it")
    return document


def _text(value: object, column: str, where: str) -> str:
    if not isinstance(value, str):
        raise errors.ColumnType(f"{where}: {column!r} holds {str(value)[:60]!r}, not a text")
    try:
        value.encode()
    except UnicodeEncodeError as problem:
        raise errors.FileUnreadable(f"{where}: the text holds half a character, which UTF-8 cannot write") from problem
    return value


def _messages(value: object, where: str) -> tuple[tuple[str, str], ...]:
    expected = "a list of messages such as {'role': 'user', 'content': '...'}"
    if not isinstance(value, list) or not value:
        raise errors.ColumnType(f"{where}: 'messages' holds {str(value)[:60]!r}, not {expected}")
    found = []
    for one in value:
        if not isinstance(one, Mapping) or not {"role", "content"} <= set(one):
            raise errors.ColumnType(f"{where}: 'messages' holds {str(one)[:60]!r}, not {expected}")
        found.append((_text(one["role"], "role", where), _text(one["content"], "content", where)))
    return tuple(found)
