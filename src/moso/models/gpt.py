"""Small GPT-2-like decoders of transformers, with random weights; nothing is downloaded."""

from torch import Tensor, nn

from moso.models.bert import HEAD_WIDTH
from moso.models.compat import import_transformers
from moso.models.transformers_network import TransformersNetwork


class Decoder(nn.Module):
    """A GPT-2 decoder for language modelling whose only input is token ids.

    Attention heads have width 32; padding is behind the end of a sequence, where no predicted token looks.

    Args:
        vocabulary: Number of token ids.
        length: Most tokens per sequence.
        layers: Number of layers.
        width: Width of the layers.

    Example:
        >>> import torch
        >>> Decoder(vocabulary=50, length=4, layers=1, width=32)(torch.tensor([[2, 7, 9, 0]])).shape
        torch.Size([1, 4, 50])
    """

    def __init__(self, vocabulary: int, length: int, layers: int, width: int) -> None:
        super().__init__()
        transformers = import_transformers()
        configuration = transformers.GPT2Config(
            vocab_size=vocabulary,
            n_positions=length,
            n_embd=width,
            n_layer=layers,
            n_head=max(1, width // HEAD_WIDTH),
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="sdpa",
        )
        self.model = TransformersNetwork(transformers.GPT2LMHeadModel(configuration), causal=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits `[batch, length, vocabulary]` of token ids `[batch, length]`."""
        logits: Tensor = self.model(tokens)
        return logits
