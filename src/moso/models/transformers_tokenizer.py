"""The tokenizer of a model of transformers, for documents and for texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moso import errors
from moso.data.sequences import Document, Limits, TokenSettings
from moso.data.sequences.documents import ASSISTANT, Piece, joined
from moso.data.sequences.token_coding import Coded
from moso.models.compat import import_transformers
from moso.models.transformers_folder import (
    find_folder,
    has_tokenizer,
    has_weights,
    is_of_transformers,
    positions_of,
    read_config,
)
from moso.models.transformers_network import NO_TOKEN
from moso.quiet import quiet_notices


@dataclass(frozen=True)
class TransformersCoder:
    """A tokenizer of transformers: its chat template renders messages, its end-of-text token ends documents.

    Attributes:
        tokenizer: The tokenizer.
        vocabulary: Number of token ids of the model.
        longest: Number of positions of the model, if it has a limit.
        padding: What fills inputs behind the end of a sequence.
        where: Where the tokenizer is from, for errors.
    """

    tokenizer: Any
    vocabulary: int
    longest: int | None = None
    padding: int = NO_TOKEN
    where: str = "the tokenizer"

    @property
    def mask(self) -> int | None:
        """The mask token."""
        found: int | None = self.tokenizer.mask_token_id
        return found

    def coded(self, document: Document) -> Coded:
        """Return token ids and whether each is predicted: begin token, pieces, end token, as far as there are such."""
        own = self.tokenizer
        templated = bool(document.messages and own.chat_template)
        ids: list[int] = [] if templated or own.bos_token_id is None else [own.bos_token_id]
        predicted = [False] * len(ids)
        for text, known in self._rendered(document) if templated else document.parts():
            found = own(text, add_special_tokens=False)["input_ids"]
            ids += found
            predicted += [known] * len(found)
        if not templated and own.eos_token_id is not None:
            ids, predicted = [*ids, own.eos_token_id], [*predicted, bool(predicted and predicted[-1])]
        return ids, predicted

    def _rendered(self, document: Document) -> tuple[Piece, ...]:
        """Return messages as the chat template writes them; what a turn of the assistant adds is predicted."""
        messages = [{"role": role, "content": content} for role, content in document.messages]
        pieces, written = list[Piece](), ""
        for number, message in enumerate(messages, 1):
            if message["role"] != ASSISTANT:
                continue
            prompt = self._template(messages[: number - 1], True)
            turn = self._template(messages[:number], False)
            if not (prompt.startswith(written) and turn.startswith(prompt)):
                raise errors.ModelUnsuitable(
                    f"the chat template of {self.where} writes earlier messages in another way once a later one is "
                    "there, so the prompt cannot be told from the answer; give prompt and completion as columns"
                )
            pieces += [(prompt[len(written) :], False), (turn[len(prompt) :], True)]
            written = turn
        return joined([*pieces, (self._template(messages, False)[len(written) :], False)])

    def _template(self, messages: Sequence[dict[str, str]], asks: bool) -> str:
        if not messages and not asks:
            return ""
        try:
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks))
        except Exception as problem:
            # Templates are programs of the model's author and refuse what they do not expect in their own words.
            raise errors.ModelUnsuitable(
                f"the chat template of {self.where} refuses these messages: {str(problem).splitlines()[0]}"
            ) from problem

    def plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts with the special tokens of the model."""
        found: list[list[int]] = self.tokenizer(list(texts))["input_ids"]
        return found

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token."""
        return [str(self.tokenizer.decode([one])) if one >= 0 else "<pad>" for one in ids]


def load_tokenizer(folder: Path, vocabulary: int) -> Any:
    """Return the tokenizer of a folder.

    Args:
        folder: The folder.
        vocabulary: Number of token ids of its model.

    Raises:
        FileUnreadable: The files of the tokenizer are damaged, or of a kind that needs another package.
        ModelUnsuitable: It is the tokenizer of another model.
    """
    transformers = import_transformers()
    try:
        with quiet_notices():
            found = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as problem:
        # The tokenizers of transformers raise errors of many kinds, their own compiled ones among them.
        raise errors.FileUnreadable(
            f"the tokenizer in {folder} cannot be read: {str(problem).splitlines()[0]}"
        ) from problem
    if len(found) > vocabulary:
        raise errors.ModelUnsuitable(
            f"the tokenizer in {folder} has {len(found):,} ids, and the model a vocabulary of {vocabulary:,} "
            "(vocab_size in config.json): it is the tokenizer of another model"
        )
    return found


def token_settings(name: str, most: int | None) -> TokenSettings:
    """Return how texts become token ids for the network of this name: by its own tokenizer, or by the built-in one.

    Args:
        name: Name of a network.
        most: Most tokens per sample, if the user set a limit.

    Raises:
        FileMissing: A folder has trained weights and no tokenizer, without which they mean nothing.
    """
    if not is_of_transformers(name):
        return TokenSettings(most=most)
    folder = find_folder(name)
    config = read_config(folder)
    vocabulary, longest = int(config.vocab_size), positions_of(config)
    if has_tokenizer(folder):
        tokenizer = load_tokenizer(folder, vocabulary)
        return TokenSettings(TransformersCoder(tokenizer, vocabulary, longest, where=str(folder)), most)
    if has_weights(folder):
        raise errors.FileMissing(
            f"{folder} has weights and no tokenizer, so nobody knows which words its token ids stand for; save its "
            "tokenizer there (tokenizer.save_pretrained)"
        )
    return TokenSettings(None, most, Limits(vocabulary, longest, NO_TOKEN))
