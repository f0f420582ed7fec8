"""Two towers for pairs: a small network for pictures or rows of numbers, and a bag of words for texts."""

import math

from torch import Tensor, nn

from moso.data.tokenizer import PADDING

# Rows of the table of word vectors. Token ids go by frequency, so the most frequent words have a row of their own; the
# rest share rows (the hashing trick), and the network needs not know the vocabulary.
WORDS = 4_096


class TwoTowers(nn.Module):
    """An input tower and a text tower, each with one hidden layer in front of its embedding.

    Pictures pass three 3x3 convolutions with group-norm, of `width`, 2 `width` and 4 `width` channels; rows of numbers
    pass one hidden layer of 2 `width` units. Texts are the mean of word vectors of `width` numbers. No batch-norm, so
    that a pair's embedding depends on nothing but the pair.

    Args:
        input_shape: `(channels, height, width)` of a picture, or the shape of a row of numbers.
        outputs: Numbers per embedding.
        width: Size of the towers.

    Example:
        >>> import torch
        >>> model = TwoTowers((3, 16, 16), outputs=8, width=16)
        >>> one, other = model(torch.zeros(2, 3, 16, 16), torch.tensor([[2, 7, 0], [2, 5, 9]]))
        >>> one.shape, other.shape
        (torch.Size([2, 8]), torch.Size([2, 8]))
    """

    def __init__(self, input_shape: tuple[int, ...], outputs: int, width: int) -> None:
        super().__init__()
        if len(input_shape) == 3:
            self.inputs = nn.Sequential(
                *_convolution(input_shape[0], width),
                *_convolution(width, 2 * width),
                *_convolution(2 * width, 4 * width),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(4 * width, outputs),
            )
        else:
            hidden = nn.Linear(math.prod(input_shape), 2 * width)
            self.inputs = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(2 * width, outputs))
        self.words = nn.Embedding(WORDS, width, padding_idx=PADDING)
        self.texts = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))

    def forward(self, inputs: Tensor, texts: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Return the embeddings of inputs and of token ids `[batch, length]`; of the inputs alone without texts."""
        one: Tensor = self.inputs(inputs)
        if texts is None:
            return one
        there = (texts != PADDING).unsqueeze(-1)
        # Ids beyond the table share its rows, but none shares that of padding.
        rows = texts.where(texts < WORDS, 1 + texts % (WORDS - 1))
        other: Tensor = self.texts((self.words(rows) * there).sum(1) / there.sum(1).clamp(min=1))
        return one, other


def _convolution(channels: int, filters: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, filters, 3, padding=1, stride=2, bias=False),
        nn.GroupNorm(math.gcd(4, filters), filters),
        nn.ReLU(),
    ]
