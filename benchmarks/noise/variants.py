"""Variants that should extend MoSo where noise dominates, in plain PyTorch: closed forms of a linear head on features.

    moso, moso-rank, moso-cross     as in the package, measured a second time
    within class                    the sample's gradient against the mean gradient of its own label, by rank
    rank in class                   moso-rank with ranks taken inside the sample's label
    forward, forward-cross          moso-rank and moso-cross of surrogates under the forward-corrected loss -log (p T)_y
                                    (Patrini et al., CVPR 2017), with T estimated from out-of-sample predictions
    forward, kept by moso-cross     moso-cross's choice, retrained under that loss

The gradient of a sample is the outer product of its residual `e` and its row, `e = p - one-hot`; under the corrected
loss `e = p - q`, with `q_j` proportional to `p_j T_jy`, the posterior of the right class. Surrogates, and the
retrainings of all variants, are trained side by side as one stack of heads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from benchmarks.noise.sweep import RATIO, Noise
from moso.data.partitions import partition
from moso.data.samples import id_keys
from moso.evaluation.detection import auroc
from moso.randomness import generator
from moso.tasks.label_noise import add_label_noise

CLASSES, PARTITIONS, STEPS = 100, 5, 10
EPOCHS, RETRAINING, BATCH, RATE, MOMENTUM, DECAY = 50, 60, 64, 0.05, 0.9, 5e-4
OWN = ("moso", "moso-rank", "moso-cross", "within class", "rank in class")
FORWARD = {"moso-rank": "forward", "moso-cross": "forward-cross"}
Scores = dict[str, NDArray[np.float64]]
Weights = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Problem:
    """Rows `[n, width]` with noisy labels, the positions of the partitions, and which labels are wrong."""

    rows: Tensor
    labels: Tensor
    wrong: NDArray[np.bool_]
    parts: list[NDArray[np.int64]]
    seed: int
    transition: Tensor | None = None

    def own(self, part: int) -> tuple[Tensor, Tensor]:
        """Return the rows and labels of a partition."""
        chosen = torch.from_numpy(self.parts[part])
        return self.rows[chosen], self.labels[chosen]


def residuals(rows: Tensor, labels: Tensor, at: Weights, transition: Tensor | None = None) -> Tensor:
    """Return `e`, `[..., samples, classes]`, whose outer product with the row is the gradient of a sample."""
    predicted = torch.softmax(rows @ at[0].transpose(-1, -2) + at[1].unsqueeze(-2), -1)
    if transition is None:
        return predicted - F.one_hot(labels, CLASSES)
    joint = predicted * transition.T[labels]
    return predicted - joint / joint.sum(-1, keepdim=True).clamp(min=1e-12)


def trained(
    rows: Tensor, labels: Tensor, epochs: int, seed: int, transitions: Tensor | None = None, kept: int = 0
) -> tuple[Weights, list[Weights]]:
    """Train a stack of heads, `[heads, samples, ...]` each on its own samples; return also `kept` stratified steps.

    All heads draw the same batches. `transitions` are `[heads, classes, classes]`.
    """
    heads, count, width = rows.shape
    draw = generator(seed, "variants", epochs)
    bound = width**-0.5
    start = torch.from_numpy(draw.uniform(-bound, bound, (CLASSES, width)).astype(np.float32))
    state = [start.expand(heads, -1, -1).clone(), torch.zeros(heads, CLASSES)]
    speed = [torch.zeros_like(one) for one in state]
    total = epochs * -(-count // BATCH)
    sampled = {int((number + draw.random()) * total / kept) for number in range(kept)}
    found, step = [], 0
    for _ in range(epochs):
        for batch in np.array_split(draw.permutation(count), -(-count // BATCH)):
            some = torch.from_numpy(batch)
            x, y = rows[:, some], labels[:, some]
            e = _stacked(x, y, (state[0], state[1]), transitions) / len(batch)
            rate = RATE * (1 + np.cos(np.pi * step / total)) / 2
            for value, change, slope in zip(state, speed, (e.transpose(1, 2) @ x, e.sum(1)), strict=True):
                change.mul_(MOMENTUM).add_(slope + DECAY * value)
                value.sub_(change, alpha=rate)
            if step in sampled:
                found.append((state[0].clone(), state[1].clone()))
            step += 1
    return (state[0], state[1]), found


def _stacked(x: Tensor, y: Tensor, at: Weights, transitions: Tensor | None) -> Tensor:
    if transitions is None:
        return residuals(x, y, at)
    predicted = torch.softmax(x @ at[0].transpose(-1, -2) + at[1].unsqueeze(-2), -1)
    columns = torch.stack([own.T[labels] for own, labels in zip(transitions, y, strict=True)])
    joint = predicted * columns
    return predicted - joint / joint.sum(-1, keepdim=True).clamp(min=1e-12)


def surrogates(problem: Problem) -> list[list[Weights]]:
    """Return the recorded steps of every partition's surrogate, the last of them at the end of training."""
    least = min(len(part) for part in problem.parts)
    rows, labels = (torch.stack(parts) for parts in zip(*_equal(problem, least), strict=True))
    given = problem.transition
    stack = None if given is None else given.expand(len(problem.parts), -1, -1)
    end, found = trained(rows, labels, EPOCHS, problem.seed, stack, STEPS)
    return [[(w[part], b[part]) for w, b in [*found, end]] for part in range(len(problem.parts))]


def _equal(problem: Problem, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    for part in range(len(problem.parts)):
        rows, labels = problem.own(part)
        yield rows[:count], labels[:count]


def agreement(problem: Problem, part: int, at: Weights, judged: NDArray[np.int64], *, own: bool) -> NDArray[np.float64]:
    """Return `G . g_z` of some samples, with the mean gradient of a partition; without the sample itself if `own`."""
    rows, labels = problem.own(part)
    mine = residuals(rows, labels, at, problem.transition)
    mean, bias = mine.T @ rows / len(rows), mine.mean(0)
    some = torch.from_numpy(judged)
    theirs = residuals(problem.rows[some], problem.labels[some], at, problem.transition)
    found = ((theirs @ mean) * problem.rows[some]).sum(1) + theirs @ bias
    if own:
        norms = theirs.square().sum(1) * (problem.rows[some].square().sum(1) + 1)
        found = (len(rows) * found - norms) / (len(rows) - 1)
    return found.double().numpy()


def within_class(problem: Problem, part: int, at: Weights) -> NDArray[np.float64]:
    """Return `G_y . g_z` of a partition's samples, `G_y` the mean gradient of the others with the same label."""
    rows, labels = problem.own(part)
    e = residuals(rows, labels, at, problem.transition)
    found = torch.zeros(len(rows))
    for label in torch.unique(labels):
        some = labels == label
        mine, x, count = e[some], rows[some], int(some.sum())
        dots = ((mine @ (mine.T @ x)) * x).sum(1) + mine @ mine.sum(0)
        norms = mine.square().sum(1) * (x.square().sum(1) + 1)
        found[some] = (dots - norms) / max(1, count - 1)
    return found.double().numpy()


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks scaled to [0, 1]."""
    return np.asarray((rankdata(values) - 1) / max(1, len(values) - 1))


def scores_of(problem: Problem, steps: list[list[Weights]]) -> Scores:
    """Return the scores that follow from surrogates; under the corrected loss only `forward` and `forward-cross`."""
    count, corrected = len(problem.rows), problem.transition is not None
    names = ("moso-rank", "moso-cross") if corrected else OWN
    found: Scores = {name: np.zeros(count) for name in names}
    labels = problem.labels.numpy()
    for part, mine in enumerate(problem.parts):
        others = np.setdiff1d(np.arange(count), mine)
        for number, at in enumerate(steps[part][:-1]):
            own = agreement(problem, part, at, mine, own=True)
            found["moso-rank"][mine] += ranks(own)
            found["moso-cross"][others] += ranks(agreement(problem, part, at, others, own=False))
            if not corrected:
                rate = RATE * (1 + np.cos(np.pi * (number + 0.5) / STEPS)) / 2
                found["moso"][mine] += rate * own
                found["within class"][mine] += ranks(within_class(problem, part, at))
                for label in np.unique(labels[mine]):
                    some = labels[mine] == label
                    found["rank in class"][mine[some]] += ranks(own[some])
    return {FORWARD[name]: value for name, value in found.items()} if corrected else found


def estimated_transition(problem: Problem, steps: list[list[Weights]]) -> Tensor:
    """Return `T`, `[classes, classes]`: how often the class that other surrogates predict carries each label."""
    votes = torch.zeros(len(problem.rows), CLASSES)
    for part, mine in enumerate(problem.parts):
        others = torch.from_numpy(np.setdiff1d(np.arange(len(problem.rows)), mine))
        weight, bias = steps[part][-1]
        votes[others] += torch.softmax(problem.rows[others] @ weight.T + bias, 1)
    counts = torch.full((CLASSES, CLASSES), 1e-3)
    counts.index_put_((votes.argmax(1), problem.labels), torch.ones(len(problem.labels)), accumulate=True)
    return counts / counts.sum(1, keepdim=True)


def kept_of(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the top of every class by score, as many of each."""
    budget = round((1 - RATIO) * len(labels))
    order = np.lexsort((np.arange(len(labels)), -scores))
    place = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        own = order[labels[order] == label]
        place[own] = np.arange(len(own))
    return np.sort(np.lexsort((np.arange(len(labels)), labels, place))[:budget])


def normalised(folder: Path) -> tuple[tuple[Tensor, NDArray[np.int64]], tuple[Tensor, Tensor]]:
    """Return the training and test rows of a folder of features with their labels, in one scale, centred."""
    rows, labels = ([np.load(folder / f"{split}{kind}.npy") for split in ("train", "test")] for kind in ("", "_labels"))
    train, test = (one.astype(np.float32) for one in rows)
    mean, scale = train.mean(axis=0), np.sqrt(train.var(axis=0).mean())
    given = [torch.from_numpy((one - mean) / scale) for one in (train, test)]
    return (given[0], labels[0].astype(np.int64)), (given[1], torch.from_numpy(labels[1].astype(np.int64)))


def measured(
    noise: Noise, train: tuple[Tensor, NDArray[np.int64]], test: tuple[Tensor, Tensor], seed: int
) -> Iterator[dict[str, object]]:
    """Yield one line per variant: its test accuracy, AUROC for wrong labels and the wrong share of what it keeps."""
    rows, clean = train
    keys = id_keys(pa.array(np.arange(len(clean))))
    labels, _ = add_label_noise(clean, keys, CLASSES, noise.rate, seed, noise.kind)
    parts = partition(keys, labels, PARTITIONS, seed)
    problem = Problem(rows, torch.from_numpy(labels), labels != clean, parts, seed)
    steps = surrogates(problem)
    found: Scores = {"random": generator(seed, "random").random(len(clean)), **scores_of(problem, steps)}
    corrected = replace(problem, transition=estimated_transition(problem, steps))
    found |= scores_of(corrected, surrogates(corrected))
    kept = {name: kept_of(scores, labels) for name, scores in found.items()}
    kept["forward, kept by moso-cross"] = kept["moso-cross"]
    assert corrected.transition is not None
    plain = torch.eye(CLASSES)
    losses = torch.stack([corrected.transition if name.startswith("forward, kept") else plain for name in kept])
    stack = [torch.from_numpy(one) for one in kept.values()]
    answers = torch.stack([problem.labels[one] for one in stack])
    (weight, bias), _ = trained(torch.stack([rows[one] for one in stack]), answers, RETRAINING, seed + 1_000, losses)
    right = ((test[0] @ weight.transpose(1, 2) + bias[:, None]).argmax(-1) == test[1]).double().mean(1)
    for number, (name, chosen) in enumerate(kept.items()):
        line: dict[str, object] = {
            "noise": noise.name,
            "seed": seed,
            "method": name,
            "value": 100 * float(right[number]),
        }
        line["wrong_kept"] = float(problem.wrong[chosen].mean())
        if name in found and name != "random":
            line["auroc"] = auroc(-found[name], problem.wrong)
        yield line
