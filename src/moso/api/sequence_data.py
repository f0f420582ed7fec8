"""`SequenceData`: records of any layout as a dataset of token ids and labels, for loops and for `moso.score`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import torch

from moso import errors
from moso.data.samples import id_keys
from moso.data.sequences import Coder, Document, SequenceReader, TokenSettings, document_of, layout_columns, tokenised
from moso.data.sequences.sequence_reader import Split
from moso.models.transformers_tokenizer import TransformersCoder
from moso.tasks import IGNORED, LanguageModelling, find_task

Record = Mapping[str, Any] | str


class SequenceData:
    """A map-style dataset of a language model: items have `input_ids` and `labels`, prompts are masked.

    Args:
        records: Texts, or mappings with `text`, `prompt` and `completion`, or `messages`.
        tokenizer: A tokenizer of transformers; None for the built-in one, fitted to these records; or that of other
            data, `other.coder`, whose ids then mean the same.
        task: `causal-lm` or `masked-lm`.
        max_tokens: Most tokens per sample; longer ones lose their end. By default 256.
        seed: Seed of the masks of `masked-lm`.

    Raises:
        DataEmpty: There are no records, or one has no token to predict.
        MosoError: A record is malformed.

    Example:
        >>> data = SequenceData([{"prompt": "2 + 2 =", "completion": "4"}, {"prompt": "2 + 4 =", "completion": "6"}])
        >>> len(data), data.words(0)
        (2, ['<|>', '2', '+', '2', '=', '4', '<|>'])
        >>> data[0]["labels"].tolist()
        [-100, -100, -100, -100, -100, 5, 2]
        >>> sorted(data.collate([data[0], data[1]]))
        ['attention_mask', 'input_ids', 'labels']
    """

    def __init__(
        self,
        records: Sequence[Record],
        tokenizer: Any = None,
        *,
        task: str = "causal-lm",
        max_tokens: int | None = None,
        seed: int = 0,
    ) -> None:
        found = find_task(task)
        if not isinstance(found, LanguageModelling):
            raise errors.SettingInvalid(f"task {task!r} is none of causal-lm, masked-lm")
        documents = list(_documents(records))
        if not documents:
            raise errors.DataEmpty("there are no records to tokenise")
        reader = SequenceReader(pa.array([document.dumped() for document in documents], pa.large_string()))
        ids = pa.array(range(len(documents)))
        settings = TokenSettings(_coder(tokenizer), max_tokens)
        self.task, [(self._reader, self._labels)] = tokenised(
            [Split(reader, ids.to_pylist(), id_keys(ids))], found, settings, seed
        )

    @property
    def coder(self) -> Coder:
        """The tokenizer, for other data of the same network."""
        assert self._reader.coder is not None
        return self._reader.coder

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.coder.vocabulary

    @property
    def length(self) -> int:
        """Tokens of the longest sample."""
        return self._reader.shape[0]

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, position: int) -> dict[str, torch.Tensor]:
        if not -len(self) <= position < len(self):
            raise IndexError(position)
        assert self._reader.ids is not None
        ids = self._reader.ids[position]
        length = int((ids != self._reader.padding).sum())
        own = torch.from_numpy(ids[:length].copy())
        return {"input_ids": own, "labels": torch.from_numpy(self._labels[position, :length].copy())}

    def words(self, position: int) -> list[str]:
        """Return the tokens of a sample as people read them."""
        return self.coder.words(self[position]["input_ids"].tolist())

    def collate(self, items: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Return a batch that is as long as its longest item, padded at the end; padding has no label.

        Padding is token 0 under a mask of 0, which no network looks at.
        """
        longest = max(len(item["input_ids"]) for item in items)
        shape = (len(items), longest)
        batch = {
            "input_ids": torch.zeros(shape, dtype=torch.int64),
            "attention_mask": torch.zeros(shape, dtype=torch.int64),
            "labels": torch.full(shape, IGNORED),
        }
        for number, item in enumerate(items):
            length = len(item["input_ids"])
            batch["input_ids"][number, :length] = item["input_ids"]
            batch["attention_mask"][number, :length] = 1
            batch["labels"][number, :length] = item["labels"]
        return batch


def _documents(records: Sequence[Record]) -> Iterator[Document]:
    columns: tuple[str, ...] = ()
    for number, record in enumerate(records):
        values = {"text": record} if isinstance(record, str) else record
        if not isinstance(values, Mapping):
            raise errors.WrongType(f"record {number} is of type {type(record).__name__}; give texts or mappings")
        columns = columns or layout_columns(list(values), "the data")
        yield document_of(values, columns, f"record {number}")


def _coder(tokenizer: Any) -> Coder | None:
    if tokenizer is None or hasattr(tokenizer, "coded"):
        found: Coder | None = tokenizer
        return found
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise errors.WrongType(
            f"tokenizer is of type {type(tokenizer).__name__}; give a tokenizer of transformers, or leave it out"
        )
    return TransformersCoder(tokenizer, len(tokenizer))
