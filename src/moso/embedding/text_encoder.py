"""`hf:PLACE` as an embedder of texts: a model of transformers without its head, with its own tokenizer.

The features of a text are the mean of the last hidden states over its tokens, or the first token's, if the folder says
so as folders of sentence-transformers do (`1_Pooling/config.json`). Longer texts lose their end, at the model's
positions or at the length of `sentence_bert_config.json`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from moso import errors
from moso.models.transformers_folder import (
    find_folder,
    has_tokenizer,
    has_weights,
    loaded_model,
    positions_of,
    read_config,
    read_json,
)
from moso.models.transformers_tokenizer import load_tokenizer

_MEAN, _FIRST = "pooling_mode_mean_tokens", "pooling_mode_cls_token"


class TextEncoder(nn.Module):
    """A model of transformers from texts to one row of features per text.

    Args:
        network: The model without a head.
        tokenizer: Its tokenizer.
        longest: Most tokens per text; None for no limit.
        first: Take the first token's hidden state in place of the mean over tokens.
    """

    reads_texts = True

    def __init__(self, network: nn.Module, tokenizer: Any, longest: int | None, first: bool = False) -> None:
        super().__init__()
        self.network, self.tokenizer, self.longest, self.first = network, tokenizer, longest, first

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts, `[texts, width]`.

        Raises:
            ModelUnsuitable: A text has no token.
        """
        cut = {} if self.longest is None else {"truncation": True, "max_length": self.longest}
        coded = self.tokenizer(list(texts), **cut)["input_ids"]
        device = next(self.network.parameters()).device
        if not all(coded):
            empty = texts[next(number for number, one in enumerate(coded) if not one)]
            raise errors.ModelUnsuitable(f"the tokenizer makes no token of the text {empty!r}, so it has no features")
        fill = getattr(self.network.config, "pad_token_id", None) or 0
        tokens = pad_sequence([torch.tensor(one) for one in coded], batch_first=True, padding_value=fill).to(device)
        there = pad_sequence([torch.ones(len(one), dtype=torch.long) for one in coded], batch_first=True).to(device)
        states: Tensor = self.network(input_ids=tokens, attention_mask=there).last_hidden_state
        if self.first:
            return states[:, 0]
        weights = there[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


def text_encoder(name: str) -> TextEncoder:
    """Return the embedder of texts called `hf:PLACE`.

    Raises:
        FileMissing: There is no such folder, or it lacks weights or a tokenizer.
        FileUnreadable, FileUnsafe: As for the folder.
        ModelUnsuitable: The folder asks for a pooling that is not known here.
        WeightsMismatch: The weights do not fit.
    """
    folder = find_folder(name)
    config = read_config(folder)
    if not has_weights(folder):
        raise errors.FileMissing(f"{folder} has no weights (model.safetensors); features of random weights say nothing")
    if not has_tokenizer(folder):
        raise errors.FileMissing(
            f"{folder} has no tokenizer; save the one that the model was trained with there (tokenizer.save_pretrained)"
        )
    limits = [positions_of(config), _note(folder / "sentence_bert_config.json").get("max_seq_length")]
    longest = min((one for one in limits if isinstance(one, int)), default=None)
    tokenizer = load_tokenizer(folder, int(config.vocab_size))
    return TextEncoder(loaded_model(folder, config, "AutoModel"), tokenizer, longest, _takes_first(folder))


def _takes_first(folder: Path) -> bool:
    """Return whether the folder asks for the first token's state; the mean over tokens is the default."""
    note = _note(folder / "1_Pooling" / "config.json")
    asked = [mode for mode, wanted in note.items() if mode.startswith("pooling_mode") and wanted is True]
    if asked not in ([], [_MEAN], [_FIRST]):
        raise errors.ModelUnsuitable(
            f"{folder / '1_Pooling'} asks for {', '.join(asked)}; known are the mean over tokens and the first token"
        )
    return asked == [_FIRST]


def _note(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = read_json(path)
    if not isinstance(found, dict):
        raise errors.FileUnreadable(f"{path} holds no settings")
    return found
