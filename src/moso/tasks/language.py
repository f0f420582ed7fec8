"""Language modelling: a sample is a sequence of tokens, and its answer says which of them are to be predicted.

Labels have the length of the sequence: the token itself where it is predicted, `IGNORED` where it is not (prompts,
padding). The loss of a sample is the mean cross-entropy over **its own** predicted tokens, so it depends neither on the
other samples of a batch nor on padding. Long and short samples weigh alike; a token weighs less in a longer sample.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import nn

from moso import errors
from moso.batch import Batch
from moso.tasks.classification import class_outputs
from moso.tasks.task import Answers, Task

# The label of positions without loss, everywhere in transformers.
IGNORED = -100


def token_shares(logits: torch.Tensor, labels: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Return what each position adds to the loss of its sample; the loss is the sum over positions.

    Args:
        logits: Outputs, shape `[batch, length, vocabulary]`.
        labels: The token that each position predicts, or `IGNORED`, shape `[batch, length]`.
        smoothing: Label smoothing.

    Returns:
        Cross-entropy divided by the number of the sample's predicted tokens, shape `[batch, length]`; 0 elsewhere.

    Raises:
        ModelUnsuitable: A label is no token of the network's vocabulary.

    Example:
        >>> token_shares(torch.zeros(1, 3, 2), torch.tensor([[IGNORED, 0, 1]]))
        tensor([[0.0000, 0.3466, 0.3466]])
    """
    wide = logits if logits.dtype.itemsize >= 4 else logits.float()
    try:
        each = F.cross_entropy(
            wide.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED, label_smoothing=smoothing
        )
    except IndexError as problem:
        raise errors.ModelUnsuitable(
            f"a label is no token of the network, whose vocabulary has {logits.shape[2]} ({problem}); the samples were "
            "tokenised for another vocabulary: use the tokenizer of the network"
        ) from problem
    return each / (labels != IGNORED).sum(1, keepdim=True).clamp(min=1)


def following(labels: torch.Tensor) -> torch.Tensor:
    """Return labels one position earlier, as a causal network predicts them: position n predicts token n + 1.

    Example:
        >>> following(torch.tensor([[5, 6, 7]]))
        tensor([[   6,    7, -100]])
    """
    return F.pad(labels, (0, 1), value=IGNORED)[:, 1:]


def next_token_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross-entropy of each sample's predicted tokens by a causal network, shape `[batch]`.

    Args:
        model: The network; its outputs, or their `logits`, have shape `[batch, length, vocabulary]`.
        batch: `(inputs, labels)`, or a mapping of the network's arguments and `labels`.

    Raises:
        LossInvalid: The batch has no labels.
        ModelUnsuitable: The network gives no outputs `[batch, length, vocabulary]`, or has no output for a label.

    Example:
        >>> class Uniform(nn.Module):
        ...     def forward(self, input_ids):
        ...         return torch.zeros(*input_ids.shape, 4)
        >>> tokens = torch.tensor([[0, 1, 2]])
        >>> next_token_loss(Uniform(), {"input_ids": tokens, "labels": tokens})
        tensor([1.3863])
    """
    return _losses(model, batch, True)


def masked_token_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return the mean cross-entropy of each sample's masked tokens, shape `[batch]`; batches as `next_token_loss`."""
    return _losses(model, batch, False)


def _losses(model: nn.Module, batch: Batch, causal: bool) -> torch.Tensor:
    inputs, labels = sequences_of(batch)
    logits = class_outputs(model, inputs)
    if logits.ndim != 3 or len(logits) != len(labels):
        raise errors.ModelUnsuitable(
            f"the network gives {tuple(logits.shape)} for {len(labels)} sequences; a language model gives one output "
            "per position and token, [batch, length, vocabulary]: give a network with a language-modelling head"
        )
    # A batch is as long as its longest sequence; labels are stored as long as the longest of all.
    labels = labels[:, : logits.shape[1]]
    return token_shares(logits, following(labels) if causal else labels).sum(1)


def sequences_of(batch: Batch) -> tuple[Batch, torch.Tensor]:
    """Return the inputs of a network and the labels of a batch.

    Raises:
        LossInvalid: The batch is neither a pair nor a mapping with `labels`.
    """
    if isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[1], torch.Tensor):
        return batch[0], batch[1]
    try:
        labels = batch["labels"]
        return {name: value for name, value in batch.items() if name != "labels"}, labels
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise errors.LossInvalid(
            f"the batch of a language model is a pair (inputs, labels) or has 'labels', not {type(batch).__name__}"
        ) from problem


@dataclass(frozen=True, kw_only=True)
class LanguageModelling(Task):
    """Tokens are predicted from other tokens of their sequence; measured by the mean loss of the samples.

    `width` is `(length, vocabulary)` once texts are tokenised.
    """

    counted_as: ClassVar[tuple[str, str]] = ("token to predict", "tokens to predict")
    is_causal: ClassVar[bool] = True

    def read(self, answers: ArrayLike) -> tuple[Self, NDArray[np.int64]]:
        """Check labels, `[n, length]`; answers that were not tokenised yet, `[n, 0]`, are taken as they are.

        Raises:
            ShapeMismatch: Labels have another shape.
        """
        labels = np.asarray(answers)
        if labels.ndim != 2:
            raise errors.ShapeMismatch(f"labels of sequences have shape [samples, length], not {labels.shape}")
        return self, labels.astype(np.int64, copy=False)

    def sized(self, length: int, vocabulary: int) -> Self:
        """Return the task of sequences of this length over this vocabulary."""
        return replace(self, width=(length, vocabulary))

    def predicted(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of predicted tokens per sample; a causal network cannot predict the first token."""
        return np.asarray((labels[:, int(self.is_causal) :] != IGNORED).sum(1), dtype=np.int64)

    def cells(self, targets: Answers) -> pa.Array:
        """Return the number of predicted tokens per sample, as the column of `scores.parquet`."""
        return pa.array(self.predicted(np.asarray(targets)))

    @property
    def learned(self) -> str:
        """What is learned, in a few words."""
        return f"tokens of a vocabulary of {self.width[1]:,}" if isinstance(self.width, tuple) else "tokens"


@dataclass(frozen=True, kw_only=True)
class CausalLanguageModelling(LanguageModelling):
    """Each token is predicted from the tokens before it.

    Example:
        >>> task = CausalLanguageModelling().sized(8, 100)
        >>> task.outputs, task.predicted(np.array([[5, 6, IGNORED], [5, IGNORED, IGNORED]]))
        ((8, 100), array([1, 0]))
    """

    name: ClassVar[str] = "causal-lm"
    losses = staticmethod(next_token_loss)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelling(LanguageModelling):
    """Masked tokens are predicted from all others of the sequence.

    Example:
        >>> MaskedLanguageModelling().predicted(np.array([[5, IGNORED]]))
        array([1])
    """

    name: ClassVar[str] = "masked-lm"
    is_causal: ClassVar[bool] = False
    losses = staticmethod(masked_token_loss)
