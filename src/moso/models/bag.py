"""A bag of words: the mean of word vectors and one hidden layer; no word order, no attention, seconds to train."""

from torch import Tensor, nn

from moso.data.tokenizer import PADDING


class BagOfWords(nn.Module):
    """Word vectors of size `width`, averaged over a text, and one hidden layer of `width` rectified units.

    Args:
        vocabulary: Number of token ids.
        classes: Number of outputs.
        width: Size of word vectors and hidden layer.

    Example:
        >>> import torch
        >>> BagOfWords(vocabulary=50, classes=6, width=16)(torch.tensor([[2, 7, 9, 0], [2, 7, 0, 0]])).shape
        torch.Size([2, 6])
    """

    def __init__(self, vocabulary: int, classes: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.hidden = nn.Linear(width, width)
        self.relu = nn.ReLU()
        self.classifier = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits `[batch, classes]` of token ids `[batch, length]`; padding is ignored."""
        there = (tokens != PADDING).unsqueeze(-1)
        mean = (self.words(tokens) * there).sum(1) / there.sum(1)
        logits: Tensor = self.classifier(self.relu(self.hidden(mean)))
        return logits
