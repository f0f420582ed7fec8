"""`glister`: keep samples that together, in one step of training, reduce the loss of the data most (GLISTER).

Believes that a sample is worth what a step along its gradient does to the loss of held-out data. With g_z the gradient
of sample z (of the last layer, from the end of training w), V the judging samples and L_V their mean loss:

    greedily add  argmax_z g_z . grad L_V(w_A),     w_A = w - eta sum_{j in A} g_j     (w_A anew after every round)

g_z . grad L_V(w_A) is Taylor's estimate of what adding z to A gains, over eta. Without the update of w_A this would be
a ranking by one number per sample, and would keep near-copies of the most helpful one. The last layer's new logits of V
and their gradient are exact.

- The judging samples are `judges` of the samples themselves, drawn at random: the variant with the training loss, which
  the source allows. Held-out data (`--validation-share`) is not asked, and test data never.
- eta = `rate` C / (k m), for k kept samples of C classes and m the mean of |h|^2: if all k are taken, the mean gradient
  of a class moves the logits of a similar sample by about `rate` times its error, whatever the scale of the features.
  The source's eta is the learning rate; 100 is that of 0.01 for 10,000 kept samples of 100 classes with m = 100.
- `rounds` updates of w_A, each after an equal part of the budget is taken; k rounds are the plain greedy algorithm.
- Stochastic greedy: every round looks at a random part of the samples that are left, of size N / rounds log(1 /
  epsilon), so that all rounds together look at N log(1 / epsilon). epsilon = 0 looks at all samples in every round.

O(N C D log(1 / epsilon) + rounds V C D) for V judges, C classes and D features; one matrix [C, D] and V rows in memory.

Source: Killamsetty et al., GLISTER: Generalization based Data Subset Selection for Efficient and Robust Learning, AAAI
2021, Algorithm 1 and the Taylor approximation; stochastic greedy: Mirzasoleiman et al., AAAI 2015. (DeepCore's code
never updates w_A.)
"""

import math

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import softmax

from moso.selection.classes import ClassSettings, per_class
from moso.selection.orders import best_first, shuffled
from moso.selection.problem import Problem
from moso.selection.selectors.by_gradient.factored_gradients import gradients_of, label_columns

_CHUNK = 4096


class GlisterSettings(ClassSettings):
    """Settings of `glister`: the step, the rounds, the judging samples, and the part that every round looks at."""

    rate: float = Field(100.0, gt=0, description="length of the step, in errors of a similar sample's logits")
    rounds: int = Field(100, ge=1, description="updates of the network; as many as are kept is the plain greedy")
    judges: int = Field(10_000, ge=1, description="samples, drawn at random, whose loss is to fall; all if fewer")
    epsilon: float = Field(0.01, ge=0, lt=1, description="stochastic greedy's epsilon; 0 looks at all every round")


def glister(problem: Problem, settings: GlisterSettings) -> NDArray[np.int64]:
    """Return `budget` positions that together reduce the loss most in one step."""
    return per_class(problem, "glister", settings.classes, lambda part: _greedy(part, settings))


def _greedy(problem: Problem, settings: GlisterSettings) -> NDArray[np.int64]:
    judges = _Judges(problem, settings)
    left, kept = np.ones(len(problem), dtype=bool), []
    rounds = min(settings.rounds, problem.budget)
    for number, sizes in enumerate(np.array_split(np.arange(problem.budget), rounds)):
        asked = _asked(problem, left, len(sizes), rounds, number, settings.epsilon)
        gains = judges.gains(problem.subset(asked, 0))
        taken = asked[best_first(gains)[: len(sizes)]]
        judges.step(problem.subset(np.sort(taken), 0))
        left[taken] = False
        kept.append(taken)
    return np.concatenate(kept)


def _asked(
    problem: Problem, left: NDArray[np.bool_], least: int, rounds: int, number: int, epsilon: float
) -> NDArray[np.int64]:
    """Return the ascending positions that a round looks at, of those that are left."""
    there = np.flatnonzero(left)
    if epsilon == 0:
        return there
    size = max(least, math.ceil(len(problem) / rounds * math.log(1 / epsilon)))
    if size >= len(there):
        return there
    return np.sort(there[shuffled(problem.keys[there], problem.seed, "glister", number)[:size]])


class _Judges:
    """The judging samples, their logits after the step so far, and the gradient of their mean loss."""

    def __init__(self, problem: Problem, settings: GlisterSettings) -> None:
        drawn = shuffled(problem.keys, problem.seed, "glister", "judges")[: settings.judges]
        part = problem.subset(np.sort(drawn), 0)
        everything = np.arange(len(part))
        inputs = part.rows_for("glister", "features").take(everything)
        squared = float(np.square(inputs, dtype=np.float64).sum(axis=1).mean())
        # A power of two changes no choice, and keeps float32 in its range.
        self.unit = 2.0 ** -round(math.log2(squared) / 2) if squared > 0 else 1.0
        self.inputs = np.ldexp(inputs, round(math.log2(self.unit)))
        self.labels = label_columns(part, "glister")
        # Softmax forgets a constant, so log p are logits.
        chances = part.rows_for("glister", "probabilities").take(everything)
        self.logits = np.log(np.maximum(chances, np.finfo(np.float32).tiny))
        squared *= self.unit**2
        classes = len(np.unique(problem.labels_for("glister")))
        self.eta = settings.rate * classes / (problem.budget * squared) if squared > 0 else 0.0
        self.moved = np.zeros((self.logits.shape[1], self.inputs.shape[1]), dtype=np.float32)

    def gradient(self) -> NDArray[np.float32]:
        """Return the gradient of the judges' mean loss after the step so far, shape ``[classes, width]``."""
        total = np.zeros(self.moved.shape)
        for start in range(0, len(self.inputs), _CHUNK):
            part = slice(start, start + _CHUNK)
            errors = softmax(self.logits[part] - self.eta * (self.inputs[part] @ self.moved.T), axis=1)
            errors[np.arange(len(errors)), self.labels[part]] -= 1
            total += errors.T @ self.inputs[part]
        return np.asarray(total / len(self.inputs), dtype=np.float32)

    def gains(self, problem: Problem) -> NDArray[np.float64]:
        """Return the inner product of every sample's gradient with that of the judges, shape ``[samples]``."""
        gradient, found = self.gradient().astype(np.float64), np.empty(len(problem))
        for start in range(0, len(problem), _CHUNK):
            part = slice(start, start + _CHUNK)
            own = gradients_of(problem, "glister", part=part)
            found[part] = np.einsum("nd,nd->n", own.errors @ gradient, own.inputs * self.unit)
        return found

    def step(self, problem: Problem) -> None:
        """Add the gradients of samples to the step."""
        for start in range(0, len(problem), _CHUNK):
            own = gradients_of(problem, "glister", part=slice(start, start + _CHUNK))
            self.moved += own.errors.T @ (own.inputs * self.unit)
