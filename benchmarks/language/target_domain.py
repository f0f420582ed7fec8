"""Which training samples does a target want? Questions of TREC among Debian's documentation, a tiny GPT, five seeds.

The pool has 15 % questions ("class of question ... answer") and 85 % passages of documentation ("continue ..."), both
as prompt and completion. A GPT-2-like model of two layers is trained on the pool; samples are scored by what lowers the
loss of held-out questions; 20 % are kept; a fresh model is trained on them for as many steps, and on as many samples
drawn at random. Written down: the share of questions among the kept, and the loss of other held-out questions.

    python -m benchmarks.language.target_domain --trec FOLDER --seeds 5
"""

import argparse
import gzip
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t
from torch import nn

import moso
from moso.data.tokenizer import tokens
from moso.files import write_json
from moso.models.gpt import Decoder
from moso.randomness import generator, seeded

OUT = Path(__file__).parents[2] / "docs" / "benchmarks" / "target-domain.json"
POOL, TARGET_SHARE, KEPT, VALIDATION, TEST = 600, 0.15, 0.2, 60, 150
STEPS, BATCH, RATE, TIME_STEPS = 120, 16, 3e-3, 2
METHODS: dict[str, dict[str, Any]] = {
    "moso": {"method": "moso"},
    "moso, optimizer-aware": {"method": "moso", "optimizer_aware": True},
    "less": {"method": "less"},
}
Records = list[dict[str, str]]


def questions(folder: Path) -> Records:
    """Return TREC's questions: the question is the prompt, its class and the question's mark the completion."""
    found = []
    for line in (folder / "train.txt").read_text(encoding="latin-1").splitlines():
        text, tab, coarse = line.partition("\t")
        fine, _, question = text.partition(" ")
        if tab:
            found.append({"prompt": "what kind of question is this :", "completion": f" {question} {coarse} {fine}"})
    return found


def documentation(count: int) -> Records:
    """Return passages of Debian's documentation: the first words are the prompt, the rest the completion."""
    found: Records = []
    for words in _passages():
        found.append({"prompt": f"continue the text : {' '.join(words[:4])}", "completion": f" {' '.join(words[4:])}"})
        if len(found) == count:
            return found
    raise SystemExit(f"/usr/share/doc has {len(found)} passages only; {count} are needed")


def _passages() -> Iterator[list[str]]:
    for path in sorted(Path("/usr/share/doc").rglob("*")):
        if path.is_file() and re.match(r"(readme|copyright|news)", path.name, re.IGNORECASE):
            raw = path.read_bytes()
            text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "ignore")
            words = text.split()
            for start in range(0, min(len(words) - 18, 180), 18):
                if len(tokens(" ".join(words[start : start + 18]))) <= 40:  # no rulers of dashes
                    yield words[start : start + 18]


def trained(
    data: moso.SequenceData, rows: NDArray[np.int64], seed: int, sizes: tuple[int, int], folder: str = ""
) -> Any:
    """Return a model trained on some samples for a fixed number of steps, and its trajectory if a folder is given."""
    with seeded(seed, "model"):
        model = Decoder(*sizes, layers=2, width=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    recorder = moso.Recorder(folder, total_steps=STEPS, samples=TIME_STEPS, seed=seed, moments=True) if folder else None
    if recorder is not None:
        recorder.attach(model, optimizer)
    model.train()
    order, drawn = generator(seed, "order"), np.array([], dtype=np.int64)
    with seeded(seed, "training"):
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / 30) * (1 - step / STEPS)
            while len(drawn) < BATCH:
                drawn = np.concatenate([drawn, order.permutation(rows)])
            own, drawn = drawn[:BATCH], drawn[BATCH:]
            batch = data.collate([data[int(one)] for one in own])
            optimizer.zero_grad()
            loss(model, batch).mean().backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return model.eval(), None if recorder is None else recorder.trajectory


def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss of each sample; the decoder needs no mask."""
    return moso.next_token_loss(model, (batch["input_ids"], batch["labels"]))


@torch.no_grad()
def mean_loss(model: nn.Module, data: moso.SequenceData) -> float:
    """Return the mean loss over some data."""
    batches = [
        data.collate([data[one] for one in range(start, min(start + 50, len(data)))])
        for start in range(0, len(data), 50)
    ]
    return float(torch.cat([loss(model, batch) for batch in batches]).mean())


def one_seed(seed: int, trec: Path) -> dict[str, dict[str, float]]:
    """Return shares and losses of every method for one seed."""
    torch.set_num_threads(1)
    draw = generator(seed, "domains")
    every = [questions(trec), documentation(POOL * 3)]
    own, other = ([records[one] for one in draw.permutation(len(records))] for records in every)
    count = int(TARGET_SHARE * POOL)
    held = own[count : count + VALIDATION], own[count + VALIDATION : count + VALIDATION + TEST]
    pool = [*own[:count], *other[: POOL - count]]
    is_target = np.arange(POOL) < count
    data = moso.SequenceData(pool, max_tokens=48)
    validation, test = (moso.SequenceData(records, data.coder, max_tokens=48) for records in held)
    sizes = data.vocabulary, 48
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        model, trajectory = trained(data, np.arange(POOL), seed, sizes, folder)
        found["all"] = {"share": float(is_target.mean()), "loss": mean_loss(model, test)}
        risk = moso.SampleRisk.of(validation, loss=loss, collate=validation.collate)
        for name, how in METHODS.items():
            scores = moso.score(model, data, trajectory, loss=loss, collate=data.collate, risk=risk, **how)
            kept = np.sort(np.argsort(-scores, kind="stable")[: int(KEPT * POOL)])
            found[name] = _proof(data, kept, is_target, test, seed, sizes)
    kept = np.sort(generator(seed, "random").choice(POOL, int(KEPT * POOL), replace=False))
    found["random"] = _proof(data, kept, is_target, test, seed, sizes)
    return found


def _proof(
    data: moso.SequenceData,
    kept: NDArray[np.int64],
    is_target: NDArray[np.bool_],
    test: moso.SequenceData,
    seed: int,
    sizes: tuple[int, int],
) -> dict[str, float]:
    model, _ = trained(data, kept, seed, sizes)
    return {"share": float(is_target[kept].mean()), "loss": mean_loss(model, test)}


def summary(rows: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return means over seeds, and the paired difference of losses to random selection with its 95 % interval."""
    found: dict[str, Any] = {}
    for name in rows[0]:
        shares, losses = (np.array([row[name][what] for row in rows]) for what in ("share", "loss"))
        against = losses - np.array([row["random"]["loss"] for row in rows])
        half = float(t.ppf(0.975, len(rows) - 1) * against.std(ddof=1) / len(rows) ** 0.5) if len(rows) > 1 else None
        found[name] = {
            "share": float(shares.mean()), "times its share": float(shares.mean() / TARGET_SHARE),
            "loss": float(losses.mean()), "to random": [float(against.mean()), half],
        }  # fmt: skip
    return found


def main() -> None:
    """Run all seeds and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trec", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for seed, row in enumerate(pool.map(one_seed, range(given.seeds), repeat(given.trec))):
            rows.append(row)
            print(
                seed, {name: (round(one["share"], 3), round(one["loss"], 3)) for name, one in row.items()}, flush=True
            )
    settings = {"pool": POOL, "target share": TARGET_SHARE, "kept": KEPT, "steps": STEPS, "time steps": TIME_STEPS}
    write_json(given.out, {**settings, "seeds": given.seeds, "methods": summary(rows), "rows": rows})
    print(summary(rows))


if __name__ == "__main__":
    main()
