"""How much of the gain on features is left when the head is regularised? Plain PyTorch, without moso.

Scores of linear heads on features have a closed form, so this program is also a second, independent measurement of
`moso-rank` and `moso-cross`. A tenth of the training rows is held out; test rows are never opened.

    python -m benchmarks.head_regularisation FOLDER --noise 0.2
    python -m benchmarks.head_regularisation FOLDER --rows 20000 --surrogate 64:5e-4 --surrogate 64:5e-3
"""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor, nn

PARTITIONS, STEPS = 5, 10
# Batch size and weight decay of surrogates (50 epochs) and of retraining (60 epochs), both at rate 0.05.
SURROGATES = ("64:5e-4", "256:5e-3")
RETRAININGS = ("64:5e-4", "256:5e-4", "256:2e-3", "256:5e-3")
Positions = NDArray[np.int64]
Scores = dict[str, NDArray[np.float64]]


def trained(
    rows: Tensor, labels: Tensor, epochs: int, batch_size: int, decay: float, seed: int, kept: int = 0
) -> tuple[nn.Linear, list[tuple[Tensor, Tensor]]]:
    """Train a linear head; also return its weights at `kept` stratified steps."""
    torch.manual_seed(seed)
    head = nn.Linear(rows.shape[1], int(labels.max()) + 1)
    rule = torch.optim.SGD(head.parameters(), 0.05, momentum=0.9, weight_decay=decay)
    total = epochs * -(-len(rows) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(rule, total)
    draw = np.random.default_rng(seed)
    sampled = {int((number + draw.random()) * total / kept) for number in range(kept)}
    found, step = [], 0
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rows)), batch_size):
            rule.zero_grad()
            torch.autograd.backward(F.cross_entropy(head(rows[batch]), labels[batch]))
            rule.step()
            schedule.step()
            if step in sampled:
                found.append((head.weight.detach().clone(), head.bias.detach().clone()))
            step += 1
    return head, found


def residuals(rows: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return softmax minus one-hot, whose outer product with the row is the gradient of a sample."""
    return torch.softmax(rows @ weight.T + bias, 1) - F.one_hot(labels, weight.shape[0])


def terms(own: tuple[Tensor, Tensor], judged: tuple[Tensor, Tensor], at: tuple[Tensor, Tensor], alone: bool) -> Tensor:
    """Return the agreement of `judged` with the mean gradient of `own`; `alone` leaves the sample itself out."""
    mine, theirs = residuals(*own, *at), residuals(*judged, *at)
    mean, bias, count = mine.T @ own[0] / len(mine), mine.mean(0), len(mine)
    dots = ((theirs @ mean) * judged[0]).sum(1) + theirs @ bias
    if not alone:
        return dots
    norms = (theirs**2).sum(1) * ((judged[0] ** 2).sum(1) + 1)
    return (count * dots - norms) / (count - 1)


def scores(rows: Tensor, labels: Tensor, batch_size: int, decay: float) -> Scores:
    """Return `moso-rank`, and `moso-cross` with one judge, of every row."""
    parts = np.array_split(np.random.default_rng(0).permutation(len(rows)), PARTITIONS)
    found = {name: np.zeros(len(rows)) for name in ("moso-rank", "moso-cross")}
    for number, part in enumerate(parts):
        own = rows[part], labels[part]
        other = parts[(number + 1) % PARTITIONS]
        judged = rows[other], labels[other]
        for at in trained(*own, 50, batch_size, decay, 0, STEPS)[1]:
            found["moso-rank"][part] += rankdata(terms(own, own, at, True)) / len(part) / STEPS
            found["moso-cross"][other] += rankdata(terms(own, judged, at, False)) / len(other) / STEPS
    return found


def balanced(values: NDArray[np.float64], labels: Tensor, count: int) -> Positions:
    """Return the positions of the `count` highest values of every class."""
    chosen = []
    for label in range(int(labels.max()) + 1):
        own = np.flatnonzero(labels.numpy() == label)
        chosen.append(own[np.argsort(-values[own])][:count])
    return np.concatenate(chosen)


def _recipe(text: str) -> tuple[int, float]:
    size, _, decay = text.partition(":")
    return int(size), float(decay)


def main() -> None:
    """Print one table row per recipe of surrogates, share removed and recipe of retraining."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--noise", type=float, default=0.0)
    asked.add_argument("--rows", type=int, help="the first rows only")
    asked.add_argument("--surrogate", action="append", help="batch size and weight decay, such as 64:5e-4")
    asked.add_argument("--retraining", action="append", help="the same of retraining")
    given = asked.parse_args()
    torch.set_num_threads(1)
    rows = torch.tensor(np.load(given.folder / "train.npy")[: given.rows].astype(np.float32))
    clean = torch.tensor(np.load(given.folder / "train_labels.npy")[: given.rows].astype(np.int64))
    classes = int(clean.max()) + 1
    surrogates, retrainings = (
        [_recipe(one) for one in own] for own in (given.surrogate or SURROGATES, given.retraining or RETRAININGS)
    )
    rows = (rows - rows.mean()) / rows.std()
    order, draw = np.random.default_rng(0).permutation(len(rows)), np.random.default_rng(5)
    held, others = order[: len(rows) // 10], order[len(rows) // 10 :]
    noisy, wrong = clean.clone(), draw.random(len(rows)) < given.noise
    noisy[wrong] = torch.tensor(draw.integers(0, classes, int(wrong.sum())))
    train, labels = rows[others], noisy[others]

    def accuracy(kept: Positions, batch_size: int, decay: float) -> float:
        heads = [trained(train[kept], labels[kept], 60, batch_size, decay, seed)[0] for seed in (77, 78)]
        with torch.no_grad():
            right = [(head(rows[held]).argmax(1) == clean[held]).float().mean().item() for head in heads]
        return 100 * float(np.mean(right))

    print("| surrogates | removed | retraining | random | moso-rank | moso-cross |\n|---|---|---|---|---|---|")
    chance = np.random.default_rng(3).random(len(train))
    for surrogate in surrogates:
        found = scores(train, labels, *surrogate)
        for count, removed in ((len(train) // classes // 5, 0.8), (3 * len(train) // classes // 5, 0.4)):
            for recipe in retrainings:
                shown = [accuracy(balanced(one, labels, count), *recipe) for one in (chance, *found.values())]
                names = ["batches of {}, decay {:g}".format(*one) for one in (surrogate, recipe)]
                print(
                    f"| {names[0]} | {removed:g} | {names[1]} | " + " | ".join(f"{one:.1f}" for one in shown) + " |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
