"""Plots and tables of docs/noise.md, made from formulas, simulations and the lines of the sweep."""

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.noise import simulation
from benchmarks.noise.formulas import Gaussian, late_gap, pair, symmetric
from benchmarks.noise.sweep import NOISES
from moso.evaluation.paired import paired_difference

MODEL = Gaussian(classes=10, width=40, length=2.0, spread=1.0)
TEST_ROWS = 10_000
Line = dict[str, object]


def read(file: Path) -> list[Line]:
    """Return the lines of a file of results."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def draw_formulas(file: Path, seeds: int = 4) -> None:
    """Draw the early order against simulations, and the late gap, over the noise rate."""
    figure, (early, late) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rates, dots = np.linspace(0.02, 0.98, 49), np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    for colour, (name, kind, samples) in enumerate(
        (("symmetric, N = 1,000", symmetric, 1_000), ("symmetric, N = 8,000", symmetric, 8_000),
         ("pair, N = 8,000", pair, 8_000))
    ):  # fmt: skip
        early.plot(
            rates, [MODEL.early_auroc(kind(rate, 10), 3, samples) for rate in rates], color=f"C{colour}", label=name
        )
        found = [
            np.mean([simulation.early_auroc(MODEL, kind(rate, 10), samples, seed) for seed in range(seeds)])
            for rate in dots
        ]
        early.plot(dots, found, "o", color=f"C{colour}")
    early.axhline(0.5, color="grey", linewidth=0.8)
    early.set(
        xlabel="noise rate",
        ylabel="AUROC of right against wrong, within a label",
        title="early: formula, simulation (dots)",
    )
    early.legend()
    for name, kind in (("symmetric, C = 100", symmetric), ("pair, C = 100", pair)):
        other = 1 if kind is pair else 2
        late.plot(rates, [late_gap(kind(rate, 100), 0, other) for rate in rates], label=name)
    late.axhline(0, color="grey", linewidth=0.8)
    late.set(xlabel="noise rate", ylabel="log T_yy / T_yk, the gap of logits", title="late: the gap at the optimum")
    late.legend()
    figure.savefig(file, dpi=110)
    plt.close(figure)


def draw_stages(lines: list[Line], file: Path) -> None:
    """Draw how well single steps tell wrong labels, and how much of the sum with learning rates each step is."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for colour, line in enumerate(lines):
        found, share = np.asarray(line["auroc"]), 100 * np.asarray(line["share"])
        left.plot(np.arange(1, len(found) + 1), found, "o-", color=f"C{colour}", label=str(line["noise"]))
        right.plot(np.arange(1, len(share) + 1), share, "o-", color=f"C{colour}", label=str(line["noise"]))
    left.set(xlabel="sampled time step", ylabel="AUROC of one step's terms", title="late steps know more")
    right.set(xlabel="sampled time step", ylabel="share of the variance of moso in %", title="early steps decide moso")
    left.legend()
    figure.savefig(file, dpi=110)
    plt.close(figure)


def by_method(lines: list[Line], noise: str) -> dict[str, dict[int, float]]:
    """Return the values of every method under a noise by seed; of random selection, the balanced one."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if line["noise"] == noise and line.get("selector") != "random":
            found.setdefault(str(line["method"]), {})[int(str(line["seed"]))] = float(str(line["value"]))
    return found


def table(lines: list[Line], methods: tuple[str, ...]) -> str:
    """Return a table of accuracies and paired differences to random selection, one column per noise."""
    rows = ["| | " + " | ".join(one.name for one in NOISES) + " |", "| --- |" + " ---: |" * len(NOISES)]
    for method in methods:
        cells = []
        for noise in NOISES:
            values = by_method(lines, noise.name)
            own, chance = values.get(method), values.get("random")
            if not own or not chance:
                cells.append("")
                continue
            mean = f"{np.mean(list(own.values())):.1f}"
            apart = None if method in ("random", "full") else paired_difference(own, chance, test_samples=TEST_ROWS)
            margin = "" if apart is None or apart.pairs < 2 else f" ± {apart.margin:.1f}"
            cells.append(mean if apart is None else f"{mean} ({apart.value:+.1f}{margin})")
        rows.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def detections(lines: list[Line], methods: tuple[str, ...]) -> str:
    """Return a table of AUROC and of the share of wrong labels in what is kept."""
    rows = ["| | " + " | ".join(one.name for one in NOISES) + " |", "| --- |" + " ---: |" * len(NOISES)]
    for method in methods:
        cells = []
        for noise in NOISES:
            own = [line for line in lines if line["noise"] == noise.name and line["method"] == method
                   and line.get("selector") != "random"]  # fmt: skip
            order = [float(str(line["auroc"])) for line in own if "auroc" in line]
            kept = [float(str(line["wrong_kept"])) for line in own if "wrong_kept" in line]
            shown = f"{np.mean(order):.2f}, " if order else ""
            cells.append(f"{shown}{100 * np.mean(kept):.0f} %" if kept else "")
        rows.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def draw_sweep(lines: list[Line], methods: tuple[str, ...], file: Path) -> None:
    """Draw the paired difference of every method to random selection, with its interval, per noise."""
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for number, method in enumerate(methods):
        places, values, margins = [], [], []
        for place, noise in enumerate(NOISES):
            found = by_method(lines, noise.name)
            own, chance = found.get(method, {}), found.get("random", {})
            apart = paired_difference(own, chance, test_samples=TEST_ROWS) if own and chance else None
            if apart is not None and apart.pairs > 1:
                places.append(place + 0.12 * (number - (len(methods) - 1) / 2))
                values.append(apart.value)
                margins.append(apart.margin)
        axes.errorbar(places, values, margins, fmt="o", capsize=3, label=method)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xticks(range(len(NOISES)), [one.name for one in NOISES])
    axes.set(ylabel="points above random selection", title="80 % removed, linear head on 20,000 CIFAR-100 features")
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def page(sweep: list[Line], variants: list[Line], stages: list[Line]) -> str:
    """Return the page of results."""
    seeds, more = (
        ", ".join(f"{one.name}: {len({line['seed'] for line in lines if line['noise'] == one.name})}" for one in NOISES)
        for lines in (sweep, variants)
    )
    methods = ("auto", "moso-cross", "moso-rank", "moso-standardised", "moso", "moso-rank, trusted risk")
    own = ("moso", "moso-rank", "moso-cross", "within class", "rank in class", "forward", "forward-cross",
           "forward, kept by moso-cross")  # fmt: skip
    took = sorted({f"{line['noise']}: {line['took']}" for line in sweep if "took" in line})
    parts = [
        "# Label noise on CIFAR-100 features",
        "<!-- made by `python -m benchmarks.noise page`; the reading is docs/noise.md -->",
        "20,000 rows, linear head, recipe `linear-probe`, 5 partitions, 10 stratified steps, 80 % removed, "
        "class-balanced. Accuracy on 10,000 test rows in %, in brackets the difference to class-balanced random "
        "selection of the same seeds, with the margin of Student's 95 % interval.",
        f"Seeds: {seeds}.",
        table(sweep, ("full", "random", *methods)),
        f"What `auto` took: {'; '.join(took)}. The trusted set are 400 samples with right labels (4 per class), held "
        "out of the same rows; nothing is trained on them.",
        "![points above random selection](noise-sweep.png)",
        "## AUROC for wrong labels, and wrong labels in what is kept",
        detections(sweep, ("random", *methods)),
        "## Variants, in plain PyTorch",
        f"Own code, closed forms. Seeds: {more}.",
        table(variants, ("random", *own)),
        detections(variants, own),
        "## Single time steps",
        "AUROC of sums of the same step terms, inside partitions, seed 0:",
        _sums(stages),
        "![stages](noise-stages.png)",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _sums(stages: list[Line]) -> str:
    names = ("moso", "without the largest 1 %", "without rates", "moso-rank")
    rows = ["| | " + " | ".join(names) + " | first step, its share of moso's variance | last step, its share |",
            "| --- |" + " ---: |" * (len(names) + 2)]  # fmt: skip
    for line in stages:
        sums, order, share = line["sums"], np.asarray(line["auroc"]), 100 * np.asarray(line["share"])
        assert isinstance(sums, dict)
        ends = [f"{order[end]:.2f}, {share[end]:.1f} %" for end in (0, -1)]
        rows.append(f"| {line['noise']} | " + " | ".join([*(f"{sums[name]:.3f}" for name in names), *ends]) + " |")
    return "\n".join(rows)
