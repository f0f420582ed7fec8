"""Run directories of any size without their training: made-up scores over real or made-up data, in the run's own files.

For what only looks at runs: the page over 50,000 pictures, the server over a million rows.
"""

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from moso.configuration import Configuration
from moso.configuration.fields import FORMAT
from moso.data.readers import MEMORY_LIMIT_BYTES
from moso.data.sources.registry import open_source
from moso.evidence import StepTerms, terms_path, write_terms
from moso.evidence.arrays import writing
from moso.evidence_kinds.reference_features import FEATURES
from moso.files import write_json, write_table, write_text
from moso.results.reading import Run
from moso.results.retrainings import FULL, Retraining, retraining_path
from moso.results.selections import Selection, write_selection
from moso.selection import Kept, kept_count, select

NAMES = ("moso", "moso-standardised", "moso-rank")
RATIOS = (0.3, 0.5, 0.7)
PARTITIONS, TIME_STEPS, EPOCHS = 5, 10, 20


def pictures(path: Path, samples: int, classes: int = 100) -> str:
    """A Parquet file of small pictures, smooth with some noise, as photographs are; returns the data set's name."""
    draw = np.random.default_rng(0)
    encoded = []
    slopes = np.linspace(-1, 1, 32)
    for _ in range(samples):
        base, across, down = draw.uniform(60, 190, 3), draw.normal(0, 40, 3), draw.normal(0, 40, 3)
        smooth = base + slopes[:, None, None] * down + slopes[None, :, None] * across
        pixels = np.clip(smooth + draw.normal(0, 9, (32, 32, 1)), 0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
        encoded.append({"bytes": stream.getvalue(), "path": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": encoded, "label": np.arange(samples) % classes}), path)
    return f"parquet:{path}"


def rows(path: Path, samples: int, classes: int = 10) -> str:
    """A Parquet file of four numbers per sample; returns the data set's name."""
    draw = np.random.default_rng(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {f"x{number}": draw.normal(size=samples).astype(np.float32) for number in range(4)}
    pq.write_table(pa.table({**columns, "label": np.arange(samples) % classes}), path)
    return f"parquet:{path}"


def make_run(root: Path, dataset: str, features: NDArray[np.floating[Any]] | int = 0) -> Run:
    """A finished run over all training samples of a data set, its numbers drawn at random.

    `features` are given, one row per sample; or drawn around a centre per class, with this many numbers; 0 is none.
    """
    train, _ = open_source(dataset, None, MEMORY_LIMIT_BYTES)
    configuration = Configuration.resolve(
        {"dataset": dataset, "ratios": list(RATIOS), "seeds": 1, "partitions": PARTITIONS, "epochs": EPOCHS}
    )
    draw, count = np.random.default_rng(0), len(train)
    write_text(root / "run.toml", configuration.to_toml())
    stages = {name: {"complete": True, "seconds": 1.0} for name in ("train", "score", "select", "evaluate")}
    described = {
        "name": dataset,
        "fingerprint": {"train": "made-up"},
        "train": count,
        "test": 1000,
        "classes": list(train.classes),
        "outputs": len(train.classes),
        "task": train.task.name,
        "shape": list(train.shape),
        "vocabulary": None,
        "labels_drawn_at_random": [],
    }
    write_json(root / "manifest.json", {"format": FORMAT, "dataset": described, "stages": stages, "seeds": [0]})
    parts = draw.integers(0, PARTITIONS, count).astype(np.int32)
    worth = draw.normal(size=count)
    scores = {name: worth + draw.normal(scale=0.5, size=count) for name in NAMES}
    _write_scores(root, train.ids, pa.array(train.labels), parts, scores)
    _write_steps(root, parts, worth)
    if not isinstance(features, int):
        _write_features(root, features)
    elif features:
        centres = draw.normal(size=(len(train.classes), features)).astype(np.float32)
        _write_features(root, centres[train.labels] + draw.normal(scale=0.8, size=(count, features)))
    _write_evaluation(root, configuration, train.ids, train.labels, scores, len(train.classes))
    return Run.open(root)


def _write_features(root: Path, features: NDArray[np.floating[Any]]) -> None:
    path = FEATURES.path(root)
    with writing(path, features.shape, np.float32) as file:
        file[:] = features
    write_json(path.with_suffix(".json"), {"format": 1, "samples": len(features), "width": features.shape[1]})


def _write_scores(
    root: Path, ids: pa.Array, labels: pa.Array, parts: NDArray[np.int32], scores: dict[str, NDArray[np.float64]]
) -> None:
    for name, values in scores.items():
        write_table(root / "scores" / f"{name}.parquet", pa.table({"id": ids, "score": values}))
        write_json(root / "scores" / f"{name}.json", {"score": name, "seed": 0})
    write_table(root / "scores.parquet", pa.table({"id": ids, "label": labels, "partition": parts, **scores}))


def _write_steps(root: Path, parts: NDArray[np.int32], worth: NDArray[np.float64]) -> None:
    draw, total = np.random.default_rng(1), 20 * EPOCHS
    for part in range(PARTITIONS):
        own = worth[parts == part]
        for step in np.linspace(5, total, TIME_STEPS).astype(int).tolist():
            dot = own + draw.normal(scale=2.0, size=len(own))
            terms = StepTerms(step, (0.1,), dot[None], np.abs(draw.normal(size=(1, len(own)))))
            write_terms(terms_path(root / "terms" / f"part-{part:03d}", step), terms)
        loss = (2.3 * np.exp(-np.arange(EPOCHS) / 6) + 0.1 * draw.random(EPOCHS)).tolist()
        rates = (0.1 * (1 + np.cos(np.pi * np.arange(EPOCHS) / EPOCHS)) / 2).tolist()
        write_json(
            root / "state" / f"part-{part:03d}" / "history.json",
            {"total_steps": total, "loss": loss, "learning_rate": rates},
        )


def _write_evaluation(
    root: Path,
    configuration: Configuration,
    ids: pa.Array,
    labels: NDArray[np.int64],
    scores: dict[str, NDArray[np.float64]],
    classes: int,
) -> None:
    draw = np.random.default_rng(2)
    # Random selections are made by the page's reader from nothing but their file; one method is enough to look at.
    for method, values in scores.items():
        for ratio in RATIOS:
            kept = select(values, ratio=ratio, labels=labels, selector="balanced")
            write_selection(root, Selection(method, "balanced", ratio, 0), ids, Kept(kept))
    cells = [Retraining(FULL, "none", 0.0, 0, configuration.model, configuration.recipe, configuration.match)]
    for method in (*scores, "random"):
        for ratio in RATIOS:
            recipe = (configuration.model, configuration.recipe, configuration.match)
            cells.append(Retraining(method, "balanced", ratio, 0, *recipe))
    for cell in cells:
        correct = draw.binomial(10, 0.7 - 0.2 * cell.ratio, classes)
        result = {
            "samples": kept_count(len(labels), cell.ratio),
            "metric": "accuracy",
            "unit": "%",
            "better": "higher",
            "value": float(10 * correct.mean()),
            "class_correct": correct.tolist(),
            "class_count": [10] * classes,
            "loss": [],
        }
        write_json(retraining_path(root, cell), {**asdict(cell), **result})
