"""Small runs that stop after a stage, and pages read back without a browser: an oracle for what a browser shows."""

import base64
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from moso.configuration import Configuration
from moso.executors import InProcess
from moso.results import Run
from moso.run import Job
from moso.run.stages import begin, evaluate_stage, score_stage, select_stage, train_stage

SETTINGS = {
    "model": "mlp-w8",
    "epochs": 2,
    "partitions": 2,
    "time_steps": 2,
    "methods": ["moso", "moso-rank"],
    "augmentation": "none",
}
STAGES = ("begun", "trained", "scored", "selected", "evaluated")
HOSTILE = "<script>alert(1)<" + "script>"
FAR_AWAY = [5, 57, 101]
HOSTILE_TOO = '"><img src=x onerror=alert(1)>'


def run_to(root: Path, stage: str, **settings) -> Run:
    """A small run that stops after a stage."""
    job = Job.open(root, Configuration.resolve({**SETTINGS, "seeds": 2, "ratios": [0.4, 0.8], **settings}))
    executor, wanted = InProcess(lambda *_: None), STAGES.index(stage)
    with job.directory.locked():
        begin(job)
        for number, work in enumerate((train_stage, score_stage, lambda job, _: select_stage(job), evaluate_stage)):
            if number < wanted:
                work(job, executor)
    return Run.open(root)


def hostile_folder(root: Path) -> Path:
    """An image folder whose classes and files have names that are markup."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 2)):
        for name in (HOSTILE, HOSTILE_TOO):
            place = root / split / name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"'\" onload='alert(2)' {{{{ 7 * 7 }}}} %%about%% <b>{number}.png")
    return root


def two_classes(tmp_path: Path) -> dict[str, Any]:
    """The settings of a run over a table of numbers with two classes."""
    values = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)
    columns = {f"x{number}": values[:, number] for number in range(5)}
    pq.write_table(pa.table({**columns, "label": np.arange(80) % 2}), tmp_path / "table.parquet")
    return {"dataset": f"parquet:{tmp_path / 'table.parquet'}", "partitions": 1}


def texts(tmp_path: Path) -> dict[str, Any]:
    """The settings of a run over short texts."""
    lines = [f"sentence {number} about {'cats' if number % 2 else 'dogs'}\t{number % 2}" for number in range(80)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]))
    return {"dataset": f"text:{tmp_path / 'texts.tsv'}", "model": "bag"}


class Elements(HTMLParser):
    """A page's elements with their attributes, all text, and the data blocks by id."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, tuple[dict[str, str | None], str]] = {}
        self.inside: dict[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside is not None and self.inside.get("id"):
            self.blocks[self.inside["id"]] = (self.inside, data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def about(self) -> dict[str, Any]:
        return json.loads(self.blocks["about"][1])

    def content(self, name: str) -> bytes:
        attributes, text = self.blocks[name]
        content = base64.b64decode(text, validate=True)
        return zlib.decompress(content) if attributes["data-deflated"] == "1" else content

    def column(self, name: str) -> Any:
        """A column, `[length]` or `[rows, length]`, or a list of texts."""
        described, content = self.about["columns"][name], self.content(name)
        if described["kind"] == "texts":
            count = int.from_bytes(content[:4], "little")
            ends = np.frombuffer(content[4 : 8 + 4 * count], dtype="<u4")
            texts = content[8 + 4 * count :]
            return [texts[a:b].decode() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        if described["kind"] == "bits":
            packed = np.frombuffer(content, dtype=np.uint8)
            return np.unpackbits(packed, bitorder="little", count=described["length"]).astype(bool)
        values = np.frombuffer(content, dtype=np.dtype(described["kind"]).newbyteorder("<"))
        return values.reshape(described["rows"], described["length"]) if described["rows"] > 1 else values


def table_with_copies(tmp_path: Path) -> dict[str, Any]:
    """The settings of a run over rows of numbers: every tenth is a copy of the one before it, three are far away."""
    draw = np.random.default_rng(0)
    labels = np.arange(240) % 3
    values = (draw.normal(size=(240, 6)) + 4 * np.eye(6)[labels]).astype(np.float32)
    values[9::10] = values[8::10]
    values[FAR_AWAY] = [[40.0] * 6, [-40.0] * 6, [40.0, -40.0] * 3]
    columns = {f"x{number}": values[:, number] for number in range(6)}
    pq.write_table(pa.table({**columns, "label": labels}), tmp_path / "copies.parquet")
    return {"dataset": f"parquet:{tmp_path / 'copies.parquet'}", "partitions": 2, "test_share": 0.3}
