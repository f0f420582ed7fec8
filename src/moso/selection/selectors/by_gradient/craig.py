"""`craig`: keep samples whose weighted gradients stand for those of their class (CRAIG).

Believes that a subset trains like the whole data if every sample has a kept one with nearly the same gradient. With g_z
the gradient of sample z (of the last layer, at the end of training), per class:

    maximise  sum_i max_{j in A} (c - |g_i - g_j|),   c the largest distance       so that  |A| = the class's quota
    weight of j in A: the number of samples i of the class whose nearest kept gradient is g_j (a kept sample is its own)

The sum of the weights is the size of the class, and the error of the weighted gradient is at most the sum of the
distances. The lazy greedy algorithm reaches (1 - 1/e) of the optimum (`greedy_cover.py`). O(n_c^2 (C + D)) time and
4 n_c^2 bytes per class of n_c samples, for C classes and D features; classes of up to 20,000 samples.

Source: Mirzasoleiman, Bilmes & Leskovec, Coresets for Data-efficient Training of Machine Learning Models, ICML 2020,
equations 11 and 14 and Algorithm 1; the last layer's gradients are the source's proxy for deep networks. Weights are
the cluster sizes (DeepCore's code adds one).
"""

from moso.selection.classes import class_problems
from moso.selection.greedy_cover import cluster_sizes, greedy_cover
from moso.selection.kept_positions import Kept, joined
from moso.selection.problem import Problem
from moso.selection.selectors.by_gradient.factored_gradients import WeightedSettings, gradients_of


class CraigSettings(WeightedSettings):
    """Settings of `craig`: the classes, and whether kept samples are weighted."""


def craig(problem: Problem, settings: CraigSettings) -> Kept:
    """Return `budget` positions, each with the number of samples whose gradient it stands for."""
    parts = class_problems(problem, "craig", settings.classes)
    return joined(_cover(part, settings.weights).within(where) for where, part in parts)


def _cover(problem: Problem, weighted: bool) -> Kept:
    similarity = gradients_of(problem, "craig").distances()
    similarity *= -1
    similarity -= similarity.min()
    order, _ = greedy_cover(similarity, problem.budget)
    return Kept(order, cluster_sizes(similarity, order).astype(float) if weighted else None)
