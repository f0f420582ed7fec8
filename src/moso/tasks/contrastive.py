"""Contrastive learning of pairs: two towers embed an input and its text, and a pair should be closer than strangers.

The usual loss takes the other pairs of the batch as negatives, so a pair has no loss, and no gradient, of its own. Here
negatives come from a **bank**: `negatives` pairs of the split, drawn by the hash of their ids at the address
(`bank_seed`, epoch), the same for every pair of the epoch. With the towers' unit embeddings `u(x)` and `v(c)` of the
pair `(x, c)`, the bank's `u_j`, `v_j`, the temperature `tau`, and `[.]` for what is held constant:

    l = 1/2 ( l(u; [v], [v_1], [v_2], ...) + l(v; [u], [u_1], [u_2], ...) )

    infonce  l(q; k, k_1, ...) = -log softmax_0(q.k, q.k_1, q.k_2, ...)   (all / tau)
    siglip   l(q; k, k_1, ...) = softplus(-(q.k / tau + b)) + sum_j softplus(q.k_j / tau + b)

The bank is embedded at the weights of the step, and no gradient flows through it. So the gradient of a pair exists, and
the mean gradient is the mean of these gradients. The partner is constant, too: with a gradient through it, a tower
would be pulled to its partner twice and pushed from strangers once, and all embeddings would collapse (docs/pairs.md).
A member of the bank whose text is that of the pair is no negative of it and left out.

Sources: van den Oord et al., 2018 (InfoNCE); Radford et al., ICML 2021 (two towers); Zhai et al., ICCV 2023 (SigLIP).
The bank without gradient is that of He et al., CVPR 2020, embedded anew at every step.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.func import functional_call

from moso import errors
from moso.batch import Batch, Shared
from moso.errors import unknown_name
from moso.tasks.metric import Measure, Metric
from moso.tasks.task import Answers, Outputs, Task

Form = Literal["infonce", "siglip"]
RECALL = Measure("recall at 1")
# Numbers of an embedding, unless the network of the user's own has others.
EMBEDDING = 64


@dataclass(frozen=True, eq=False)
class Bank(Shared):
    """The negatives of a step: inputs `[bank, ...]` and token ids `[bank, length]` of pairs of the same split."""

    inputs: Tensor
    texts: Tensor

    def embedded(self, model: nn.Module, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return both towers' unit embeddings `[bank, embedding]` at the network's present weights, as constants."""
        # Detached weights, because forward-mode derivatives pass through `no_grad`; without function modes, because
        # the scoring engine must not take the bank's rows for samples.
        with torch._C.DisableTorchFunction(), torch.no_grad():
            fixed = {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}
            found = functional_call(model, fixed, (self.inputs.to(device), self.texts.to(device)))
            one, other = towers(found)
        return one.detach(), other.detach()


def towers(found: object) -> tuple[Tensor, Tensor]:
    """Return the unit embeddings, `[batch, embedding]` each, of what a network of two towers gives.

    Raises:
        ModelUnsuitable: The network gives something else.

    Example:
        >>> one, other = towers((torch.ones(3, 4), torch.zeros(3, 4)))
        >>> one[0], other[0]
        (tensor([0.5000, 0.5000, 0.5000, 0.5000]), tensor([0., 0., 0., 0.]))
    """
    if isinstance(found, tuple | list) and len(found) == 2 and all(isinstance(part, Tensor) for part in found):
        one, other = found
        if one.ndim == 2 and one.shape == other.shape:
            return F.normalize(one, dim=1), F.normalize(other, dim=1)
    shape = [tuple(part.shape) for part in found if isinstance(part, Tensor)] if isinstance(found, tuple | list) else ""
    raise errors.ModelUnsuitable(
        f"the network gives {type(found).__name__} {shape or ''} for a batch of pairs; model(inputs, texts) must give "
        "two embeddings of equal shape, [batch, numbers]"
    )


@dataclass(frozen=True, kw_only=True)
class Contrastive(Task):
    """Pairs of inputs and texts under a contrastive loss with a bank of negatives, measured by retrieval.

    The network is called `model(inputs, texts)` and gives two embeddings `[batch, numbers]`. The metric is recall at 1:
    the share of test inputs whose nearest text, among the distinct texts of the test split, is their own.

    Attributes:
        negatives: Number of pairs in the bank; fewer if the split is smaller.
        temperature: Divides similarities.
        form: `infonce` or `siglip`.
        bias: Added to the logits of `siglip`.
        bank_seed: Seed of the bank's draws.

    Example:
        >>> task, texts = Contrastive().read(["a cat", "a dog"])
        >>> task.outputs, texts.tolist(), task.by_class
        (64, ['a cat', 'a dog'], False)
    """

    name: ClassVar[str] = "contrastive"
    answers_are_texts: ClassVar[bool] = True
    counted_as: ClassVar[tuple[str, str]] = ("number per embedding", "numbers per embedding")

    width: Outputs = EMBEDDING
    negatives: int = 256
    temperature: float = 0.1
    form: Form = "infonce"
    bias: float = -5.0
    bank_seed: int = 0

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise errors.SettingInvalid(f"negatives = {self.negatives}: a contrastive loss needs at least 1")
        if not self.temperature > 0:
            raise errors.SettingInvalid(f"temperature = {self.temperature}: it divides, and must be above 0")
        if self.form not in get_args(Form):
            raise unknown_name("form", self.form, get_args(Form))

    @property
    def column(self) -> str:
        """Name of the column of texts in exported tables."""
        return "text"

    @property
    def bank(self) -> int:
        """Number of pairs of the split that every batch brings along."""
        return self.negatives

    def losses(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return one loss per pair, shape `[batch]`, against the bank that the batch `(inputs, texts, bank)` brings.

        Raises:
            LossInvalid: The batch has no bank.
            ModelUnsuitable: The network does not give two embeddings.
        """
        if not (isinstance(batch, tuple | list) and len(batch) == 3 and isinstance(batch[2], Bank)):
            raise errors.LossInvalid(
                "a contrastive loss takes batches (inputs, texts, bank of negatives), and this one has no bank; open "
                "the data as pairs:PATH, give moso.prune task='contrastive', or wrap a view with moso.data.with_bank"
            )
        inputs, texts, bank = batch
        one, other = towers(model(inputs, texts))
        their_one, their_other = bank.embedded(model, texts.device)
        same = (texts[:, None, :] == bank.texts.to(texts.device)[None]).all(2)
        there = self._against(one, other.detach(), their_other, same)
        return (there + self._against(other, one.detach(), their_one, same)) / 2

    def _against(self, query: Tensor, partner: Tensor, strangers: Tensor, same: Tensor) -> Tensor:
        """Return the loss of one direction, `[batch]`; `same` marks strangers `[batch, bank]` that are none."""
        own = (query * partner).sum(1) / self.temperature
        others = (query @ strangers.T / self.temperature).masked_fill(same, -torch.inf)
        if self.form == "siglip":
            return F.softplus(-own - self.bias) + F.softplus(others + self.bias).sum(1)
        first = torch.zeros(len(own), dtype=torch.int64, device=own.device)
        return F.cross_entropy(torch.cat([own[:, None], others], 1), first, reduction="none")

    def usual_metric(self, answers: Answers) -> Metric:
        """Return recall at 1 from input to text, among the distinct texts `[n, length]` of the test split.

        The texts are embedded beside a single input, so towers must take unequal numbers of inputs and texts.
        """
        candidates = torch.from_numpy(np.unique(np.asarray(answers), axis=0))

        def nearest_is_own(model: nn.Module, batch: Batch) -> Tensor:
            inputs, texts = batch[:2]
            choices = candidates.to(texts.device)
            one = towers(model(inputs, texts))[0]
            theirs = torch.cat([model(inputs[:1], part)[1] for part in torch.split(choices, 1_024)])
            found = choices[(one @ F.normalize(theirs, dim=1).T).argmax(1)]
            right: Tensor = (found == texts).all(1)
            return right

        return Metric(RECALL, nearest_is_own)

    def read(self, answers: ArrayLike) -> tuple[Self, Answers]:
        """Check texts `[n]`, or token ids `[n, length]` of a tokenizer of one's own.

        Raises:
            LabelsMissing: A text is empty.
            LabelInvalid: The answers are neither texts nor token ids.
        """
        column = np.asarray(answers)
        if column.dtype == object and all(isinstance(one, str) for one in column.tolist()):
            column = column.astype(np.str_)
        if column.dtype.kind == "U" and column.ndim == 1:
            empty = np.char.strip(column) == ""
            if empty.any():
                raise errors.LabelsMissing(
                    f"text of sample {int(np.argmax(empty))} is empty ({int(empty.sum())} are in all); remove the pair"
                )
            return self, column
        if column.dtype.kind in "iu" and column.ndim == 2:
            return self, column.astype(np.int64)
        raise errors.LabelInvalid(
            f"the second half of pairs must be one text per sample, or rows of token ids, not {column.dtype} of shape "
            f"{column.shape}"
        )

    def cells(self, targets: Answers) -> pa.Array:
        """Return the texts themselves."""
        return pa.array(targets.tolist())
