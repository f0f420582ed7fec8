"""Small BERT-like encoders of transformers, with random weights; nothing is downloaded."""

import torch
from torch import Tensor, nn

from moso.data.tokenizer import PADDING
from moso.models.compat import import_transformers

HEAD_WIDTH = 32


class Encoder(nn.Module):
    """A BERT encoder for sequence classification whose only input is token ids.

    Attention heads have width 32, and feed-forward layers are four times as wide as the rest, as in BERT.

    Args:
        vocabulary: Number of token ids.
        length: Most tokens per text.
        classes: Number of outputs.
        layers: Number of layers.
        width: Width of the layers.

    Example:
        >>> Encoder(vocabulary=50, length=4, classes=6, layers=1, width=32)(torch.tensor([[2, 7, 9, 0]])).shape
        torch.Size([1, 6])
    """

    def __init__(self, vocabulary: int, length: int, classes: int, layers: int, width: int) -> None:
        super().__init__()
        transformers = import_transformers()
        configuration = transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=max(1, width // HEAD_WIDTH),
            intermediate_size=4 * width,
            max_position_embeddings=length,
            type_vocab_size=1,
            pad_token_id=PADDING,
            num_labels=classes,
            attn_implementation="sdpa",
        )
        self.network = transformers.BertForSequenceClassification(configuration)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of token ids `[batch, length]`; no word attends to padding."""
        # Position ids are expanded per sample: a row that the batch shares has no per-sample gradient. The mask already
        # has the shape that attention needs, because transformers would otherwise inspect its values to make one.
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        there = (tokens != PADDING)[:, None, None, :]
        logits: Tensor = self.network(input_ids=tokens, attention_mask=there, position_ids=positions).logits
        return logits
