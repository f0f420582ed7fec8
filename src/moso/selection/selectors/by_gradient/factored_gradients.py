"""The last layer's gradients in factored form: the product of two short rows per sample, never written out.

For cross-entropy on logits W h, the gradient of a sample's loss with respect to W is the outer product of

    a = p - onehot(y)   [classes]      p: class probabilities, y: the sample's label, or the predicted one
    b = h               [width]        h: features, the inputs of the last layer

so that <g_i, g_j> = (a_i . a_j) (b_i . b_j) and |g|^2 = |a|^2 |b|^2: classes + width numbers per sample in place of
classes * width. A bias of the last layer is left out.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moso import errors
from moso.selection.classes import ClasswiseSettings
from moso.selection.problem import Problem

NEEDS = frozenset({"features", "probabilities"})
CHUNK = 1024
# Squared distances below this share of the squared norms are rounding errors.
_NOTHING = 1e-13
_PROBABLE = 0.01  # how far a row of probabilities may be from summing to 1; float16 is within


class WeightedSettings(ClasswiseSettings):
    """Settings of a selector with weights that selects class by class by default."""

    weights: bool = Field(True, description="weigh each kept sample by how many it stands for; false: all alike")


@dataclass(frozen=True)
class FactoredGradients:
    """Last-layer gradients of some samples, in float64.

    Attributes:
        errors: The rows a, shape ``[samples, classes]``.
        inputs: The rows b, shape ``[samples, width]``.

    Example:
        >>> two = FactoredGradients(np.array([[1.0, -1.0], [0.5, -0.5]]), np.array([[1.0, 2.0], [0.0, 2.0]]))
        >>> explicit = np.einsum("nc,nd->ncd", two.errors, two.inputs).reshape(2, -1)
        >>> bool(np.allclose(two.gram(), explicit @ explicit.T))
        True
    """

    errors: NDArray[np.float64]
    inputs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def squared_norms(self) -> NDArray[np.float64]:
        """The squared norm of every gradient, shape ``[samples]``."""
        errors_of, inputs_of = (np.square(one).sum(axis=1) for one in (self.errors, self.inputs))
        return np.asarray(errors_of * inputs_of)

    def products(self, part: slice) -> NDArray[np.float64]:
        """Return the inner products of some gradients with all, shape ``[part, samples]``."""
        return np.asarray((self.errors[part] @ self.errors.T) * (self.inputs[part] @ self.inputs.T))

    def gram(self) -> NDArray[np.float64]:
        """Return the inner products of all gradients, shape ``[samples, samples]``."""
        return self.products(slice(None))

    def distances(self) -> NDArray[np.float32]:
        """Return the Euclidean distances of all gradients, shape ``[samples, samples]``; those of twins are 0."""
        norms, found = self.squared_norms, np.empty((len(self), len(self)), dtype=np.float32)
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            both = norms[part, None] + norms
            squared = both - 2 * self.products(part)
            squared[squared <= _NOTHING * both] = 0
            found[part] = np.sqrt(squared, out=squared)
        return found


def gradients_of(
    problem: Problem, selector: str, label: Literal["given", "predicted"] = "given", part: slice = slice(None)
) -> FactoredGradients:
    """Read the gradients of the samples of a problem.

    Args:
        problem: The problem, with features and probabilities.
        selector: Name of the selector, for error messages.
        label: Whether the loss is that of the sample's own label or of the predicted class.
        part: The samples to read.

    Raises:
        EvidenceMissing: The problem lacks features, probabilities or labels.
        SettingInvalid: A row of the probabilities is not a distribution.
        ClassesMismatch: The probabilities have no column for a label.
    """
    positions = np.arange(len(problem))[part]
    inputs = problem.rows_for(selector, "features").take(positions).astype(np.float64)
    errors_of = problem.rows_for(selector, "probabilities").take(positions).astype(np.float64)
    _check_distributions(errors_of, problem, positions)
    own = errors_of.argmax(axis=1) if label == "predicted" else label_columns(problem, selector)[positions]
    rows = np.arange(len(positions))
    # p_y - 1 as minus the sum of the others: float32 does not tell a probability near 1 from 1.
    errors_of[rows, own] = 0
    errors_of[rows, own] = -errors_of.sum(axis=1)
    return FactoredGradients(errors_of, inputs)


def label_columns(problem: Problem, selector: str) -> NDArray[np.int64]:
    """Return the column of the probabilities that belongs to each sample's label, shape ``[samples]``.

    Labels that are numbers are columns; labels by name, and numbers beyond the columns, go by their sorted order.

    Raises:
        EvidenceMissing: The problem has no labels or no probabilities.
        ClassesMismatch: The probabilities have no column for a label.
    """
    labels, names = problem.labels_for(selector), problem.label_names
    width = problem.rows_for(selector, "probabilities").dimension
    if names is None:
        names = np.arange(int(labels.max()) + 1)
    if names.dtype.kind in "iu" and names.min() >= 0 and names.max() < width:
        return np.asarray(names[labels], dtype=np.int64)
    if len(names) != width:
        raise errors.ClassesMismatch(
            f"selector {selector!r}: probabilities have {width} columns, but there are {len(names)} labels "
            f"({names[0]} to {names[-1]}); give one column per class, in the order of the class numbers or sorted names"
        )
    return labels


def _check_distributions(rows: NDArray[np.float64], problem: Problem, positions: NDArray[np.int64]) -> None:
    strange = (rows < 0).any(axis=1) | (np.abs(rows.sum(axis=1) - 1) > _PROBABLE)
    if strange.any():
        first = int(np.argmax(strange))
        sample = positions[first] if problem.ids is None else problem.ids[positions[first]]
        raise errors.SettingInvalid(
            f"the probabilities of sample {sample} are no distribution: they sum to {rows[first].sum():.4g} and the "
            f"smallest is {rows[first].min():.4g}; give the softmax of a network's outputs, one column per class"
        )
