"""Swapped captions of real pictures: are they found, and does retrieval gain when they are pruned?

CIFAR-100's pictures get captions made of their class names by several templates; a share of the captions is swapped
between pictures of different classes. Surrogates are two towers on features of a pretrained network (--embed). Test
captions have one template, so recall at 1 is among 100 distinct texts.

Beside MoSo's scores stands the similarity of the towers themselves, at the end of training: of the surrogate that was
trained on the pair, and the mean over the surrogates that were not; and the orders of `moso suspects`, whose default is
pruned by, too. Every seed has two runs: few time steps combined by rank, and many of them, optimizer-aware, whose sums
over judges tend to the fall of a pair's loss (`moso-cross` with `combine = "sum"`). One line per seed goes to
`pairs.jsonl`; a killed benchmark goes on where it was, and `pairs.md` is made from the lines.

    python -m benchmarks.pairs CIFAR100 FEATURES --runs runs/pairs
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from moso.analysis.pair_issues import pair_suspicions
from moso.configuration import Configuration
from moso.evaluation.detection import auroc, precision_at
from moso.evaluation.paired import paired_difference
from moso.evidence.layout import part_name
from moso.evidence_kinds.unseen_losses import UNSEEN_LOSSES
from moso.executors.local import local_executor
from moso.files import write_text
from moso.randomness import generator
from moso.results.reading import Run
from moso.run.job import Job
from moso.run.stages import begin, compare, gather, score_stage
from moso.run.training import network
from moso.tasks.contrastive import towers

DOCS = Path(__file__).parent.parent / "docs" / "results"
TEMPLATES = (
    "a photo of a {}",
    "a small picture showing a {}",
    "this is a {} outside",
    "one {} in the middle of the frame",
    "look at the {}",
)
ROWS, TEST_ROWS, SWAPPED, RATIOS = 8_000, 5_000, 0.2, (0.2, 0.4)
TIME_STEPS, MANY_STEPS = 6, 40
METHODS = ("moso", "moso-rank", "moso-cross")
SIMILARITIES = ("similarity, own surrogate", "similarity, other surrogates")
# Orders of `moso suspects`, and the name under which its default is pruned by.
ORDERS, PRUNED = ("out-of-sample", "neighbours", "combined"), "suspects"
SUM = f"moso-cross, sum of {MANY_STEPS} steps, optimizer-aware"


def captions(labels: NDArray[np.int64], names: list[str], seed: int) -> tuple[list[str], NDArray[np.bool_]]:
    """Return one caption per picture, and which ones were swapped with those of pictures of another class."""
    draw = generator(seed, "captions")
    templates = draw.integers(0, len(TEMPLATES), len(labels))
    of = np.arange(len(labels))
    chosen = draw.permutation(len(labels))[: round(SWAPPED * len(labels))]
    # Sorted by class and moved on by more than the largest class has: nobody keeps a caption of the own class.
    chosen = chosen[np.argsort(labels[chosen], kind="stable")]
    of[chosen] = np.roll(chosen, np.bincount(labels[chosen]).max())
    texts = [TEMPLATES[templates[one]].format(names[labels[one]].replace("_", " ")) for one in of.tolist()]
    return texts, labels != labels[of]


def write_pairs(source: Path, features: Path, folder: Path, seed: int) -> NDArray[np.bool_]:
    """Write pairs, and the features of the same rows, below a folder; return which training captions were swapped."""
    (folder / "pairs").mkdir(parents=True, exist_ok=True)
    (folder / "features").mkdir(exist_ok=True)
    names = (source / "classes.txt").read_text(encoding="utf-8").splitlines()
    swapped = np.zeros(0, dtype=bool)
    for split, count in (("train", ROWS), ("test", TEST_ROWS)):
        labels = np.load(features / f"{split}_labels.npy")[:count]
        table = pq.read_table(source / f"{split}.parquet").slice(0, count)
        image = next(name for name in table.column_names if "label" not in name)
        if split == "train":
            texts, swapped = captions(labels, names, seed)
        else:
            texts = [TEMPLATES[0].format(names[label].replace("_", " ")) for label in labels.tolist()]
        pq.write_table(pa.table({"image": table[image], "text": texts}), folder / "pairs" / f"{split}.parquet")
        np.save(folder / "features" / f"{split}.npy", np.load(features / f"{split}.npy", mmap_mode="r")[:count])
        np.save(folder / "features" / f"{split}_labels.npy", labels)
    return swapped


def settings_of(folder: Path, seed: int) -> dict[str, object]:
    """Return the settings that both runs of a seed share."""
    return {
        "dataset": f"pairs:{folder / 'pairs'}",
        "embed": f"features:{folder / 'features'}",
        "model": "two-towers",
        "recipe": "pairs",
        "ratios": list(RATIOS),
        "seed": seed,
        "seeds": 1,
    }


def finished(folder: Path, seed: int) -> Job:
    """Return the job of the run with few time steps, complete; it goes on where it was."""
    own = {"methods": list(METHODS), "settings": {"moso-cross": {"judges": "all"}}, "time_steps": TIME_STEPS}
    job = Job.open(folder / "run", Configuration.resolve({**settings_of(folder, seed), **own}))
    with job.directory.locked(), local_executor(1) as executor:
        begin(job)
        compare(job, executor)
    return job


def finished_sums(folder: Path, seed: int) -> Job:
    """Return the job of the run with many time steps, complete, and retrained on what `moso suspects` leaves."""
    own = {
        "methods": ["moso-cross"],
        "settings": {"moso-cross": {"judges": "all", "combine": "sum"}},
        "time_steps": MANY_STEPS,
        "optimizer_aware": True,
    }
    job = Job.open(folder / "sums", Configuration.resolve({**settings_of(folder, seed), **own}))
    with job.directory.locked(), local_executor(1) as executor:
        begin(job)
        score_stage(job, executor)
        gather(job, executor, frozenset({UNSEEN_LOSSES.name}))
        opinions, _ = pair_suspicions(Run.open(job.directory.root))
        np.save(folder / "suspects.npy", -opinions["combined"])
        compare(job, executor, [(PRUNED, folder / "suspects.npy")])
    return job


@torch.no_grad()
def similarities(job: Job, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return the cosine of every pair at its own surrogate, and the mean cosine at the others."""
    train, parts = job.data.train, job.partitions(seed)
    view, count = train.evaluation_view(), len(train)
    own, others = np.zeros(count), np.zeros(count)
    for part, positions in enumerate(parts):
        model = network(job, seed, part_name(part), "final").eval()
        found = np.zeros(count)
        for some in np.array_split(np.arange(count), 20):
            one, other = towers(model(*view.batch(some)[:2]))
            found[some] = (one * other).sum(1).double().numpy()
        mine = np.isin(np.arange(count), positions)
        own[mine] = found[mine]
        others[~mine] += found[~mine] / (len(parts) - 1)
    return dict(zip(SIMILARITIES, (own, others), strict=True))


def line_of(folder: Path, seed: int, swapped: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the numbers of one seed: of the run with few time steps, and of the one with many."""
    job = finished(folder, seed)
    run = Run.open(job.directory.root)
    scores = {name: run.score_of(name) for name in METHODS}
    line = {"seed": seed, **_numbers(run, {**similarities(job, seed), **scores}, METHODS, swapped)}
    return line | sums_of(folder, seed, swapped)


def sums_of(folder: Path, seed: int, swapped: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the numbers of one seed that come from the run with many time steps."""
    run = Run.open(finished_sums(folder, seed).directory.root)
    opinions, _ = pair_suspicions(run)
    orders = {SUM: run.score_of("moso-cross"), **{name: -opinions[name] for name in ORDERS}}
    return {"sums": _numbers(run, orders, ("moso-cross", PRUNED), swapped)}


def _numbers(
    run: Run, orders: Mapping[str, NDArray[np.float64] | None], methods: Sequence[str], swapped: NDArray[np.bool_]
) -> dict[str, Any]:
    found = {name: {"auroc": auroc(-order, swapped), "precision": precision_at(-order, swapped)}
             for name, order in orders.items() if order is not None}  # fmt: skip
    recall = {f"{row['method']} {row['ratio']:g}": row["value"] for row in run.evaluation()}
    left = {f"{name} {ratio:g}": float(swapped[run.kept(name, ratio)].mean()) for name in methods for ratio in RATIOS}
    return {"found": found, "recall": recall, "swapped_kept": left}


def page(lines: list[dict[str, Any]]) -> str:
    """Return the tables of all seeds."""
    seeds = len(lines)
    text = ["# Swapped captions of CIFAR-100's pictures", "", "<!-- made by `python -m benchmarks.pairs` -->", ""]
    about = (
        f"{ROWS:,} pictures (as features of a pretrained network), {len(TEMPLATES)} templates of captions, "
        f"{SWAPPED:.0%} of the captions swapped; two towers, recipe `pairs`, 5 partitions, "
        f"{TIME_STEPS} time steps unless a row says otherwise; seeds: {seeds}."
    )
    text += [about, ""]
    text += ["| order of suspicion | AUROC | swapped among the first 20 % |", "| --- | ---: | ---: |"]
    every = [line["found"] | line["sums"]["found"] for line in lines]
    for name in (*SIMILARITIES, *METHODS, SUM, *ORDERS):
        both = [np.array([found[name][key] for found in every]) for key in ("auroc", "precision")]
        shown_name = f"`moso suspects`, {name}" if name in ORDERS else name
        text.append(f"| {shown_name} | {spread(both[0], 3)} | {spread(100 * both[1], 1)} % |")
    text += ["", "Mean ± standard deviation over seeds.", ""]
    text += ["| kept | recall at 1 in % | difference to random selection, points | swapped in what is kept |",
             "| --- | ---: | ---: | ---: |"]  # fmt: skip
    sums = [line["sums"] for line in lines]
    full = np.array([line["recall"]["full 0"] for line in lines])
    text.append(f"| all pairs | {spread(full, 1)} | | {SWAPPED:.0%} |")
    for ratio in RATIOS:
        by_chance = spread(np.array([line["recall"][f"random {ratio:g}"] for line in lines]), 1)
        text.append(f"| random, {ratio:.0%} removed | {by_chance} | | {SWAPPED:.0%} |")
        for name, of, shown_name in (*((name, lines, name) for name in METHODS), ("moso-cross", sums, SUM),
                                     (PRUNED, sums, "`moso suspects`, combined")):  # fmt: skip
            own = {number: line["recall"][f"{name} {ratio:g}"] for number, line in enumerate(of)}
            chance = {number: line["recall"][f"random {ratio:g}"] for number, line in enumerate(of)}
            apart = paired_difference(own, chance, test_samples=TEST_ROWS)
            shown = "" if apart is None or apart.pairs < 2 else f"{apart.value:+.1f} ± {apart.margin:.1f}"
            left = np.array([line["swapped_kept"][f"{name} {ratio:g}"] for line in of])
            values = spread(np.array(list(own.values())), 1)
            text.append(f"| {shown_name}, {ratio:.0%} removed | {values} | {shown} | {100 * left.mean():.1f} % |")
    text += ["", "Differences are paired by seed, with the margin of Student's 95 % interval."]
    return "\n".join(text) + "\n"


def spread(values: NDArray[np.float64], digits: int) -> str:
    """Return the mean and the standard deviation of some values."""
    deviation = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{deviation}"


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cifar", type=Path, help="folder with train.parquet, test.parquet and classes.txt")
    parser.add_argument("features", type=Path, help="folder with features of the same rows")
    parser.add_argument("--runs", type=Path, required=True, help="where run directories lie")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOCS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    file = given.out / "pairs.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    for seed in range(len(lines), given.seeds):
        folder = given.runs / f"seed-{seed}"
        swapped = write_pairs(given.cifar, given.features, folder, seed)
        lines.append(line_of(folder, seed, swapped))
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{json.dumps(lines[-1])}\n")
        print(f"seed {seed}: done", flush=True)
    write_text(given.out / "pairs.md", page(lines))


if __name__ == "__main__":
    main()
