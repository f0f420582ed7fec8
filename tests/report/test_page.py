"""The page: whole, offline, escaped, the same bytes for the same run, and sensible when a run is not finished."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import moso
from moso.errors import MosoError
from moso.executors import InProcess
from moso.report.page import render, write_report
from moso.report.plots import accuracy_figure, ordered_lines, png, write_plots
from moso.run import Configuration, Job, Run
from moso.run.cells import FULL, Cell, cell_path
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Run:
    return run_to(tmp_path_factory.mktemp("report") / "run", "evaluated", label_noise=0.2)


@pytest.fixture(scope="module")
def page(finished) -> str:
    return render(finished)


class Elements(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def check_offline(page: str) -> Elements:
    found = Elements(page)
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "base"}
    for _, attributes in found.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "action", "poster"):
                assert value.startswith("data:image/")
    assert "url(" not in page
    assert "@import" not in page
    assert any("default-src 'none'" in (meta.get("content") or "") for meta in found.all("meta"))
    return found


def test_the_page_is_one_small_file_that_asks_nothing_of_the_network(finished, page):
    path = write_report(finished)
    assert path == finished.directory.root / "report.html"
    assert path.read_text(encoding="utf-8") == page
    assert path.stat().st_size < 2_000_000
    check_offline(page)


def test_the_page_says_what_was_found_and_how(finished, page):
    text = Elements(page).text
    for expected in ("moso-rank (balanced)", "random (random)", "all data", "40 % removed, 863 kept", "of 2 seeds"):
        assert expected in text
    for expected in ("equal epochs", "stratified", "recipe digits", "has paid for itself", "Pruning cost"):
        assert expected in text
    for row in ordered_lines(finished):
        assert f"{row.mean:.1f} ± {row.spread:.1f}" in text
    assert finished.manifest["versions"]["torch"] in text
    assert "Not finished" not in text


def test_samples_are_shown_as_pictures_and_random_labels_are_marked(finished, page):
    found = Elements(page)
    tiny = [image for image in found.all("img") if image.get("class") == "tiny"]
    assert len(tiny) >= 24
    drawn = set(finished.manifest["dataset"]["labels_drawn_at_random"])
    shown = [int(image["alt"].removeprefix("sample ")) for image in tiny]
    assert page.count('<li class="drawn">') == sum(one in drawn for one in shown)
    lowest = int(np.argmin(finished.scores()["moso"]))
    assert finished.table()["id"][lowest].as_py() in shown


def test_the_same_run_gives_the_same_bytes_anywhere(finished, page, tmp_path):
    shutil.copytree(finished.directory.root, tmp_path / "elsewhere")
    assert render(Run.open(tmp_path / "elsewhere")) == page


@pytest.mark.parametrize(
    ("stage", "missing", "there"),
    [
        ("begun", ["not scored yet, and surrogates not all trained", "Nothing is selected", "0 of 18 retr"], []),
        ("trained", ["Samples are not scored yet:"], ["to train the surrogates"]),
        ("scored", ["Nothing is selected yet", "0 of 18 retrainings are done"], ["Highest moso", "Scores"]),
        ("selected", ["0 of 18 retrainings are done"], ["Share of each class that moso (balanced) keeps"]),
    ],
)
def test_an_unfinished_run_says_what_is_missing(tmp_path, stage, missing, there):
    text = check_offline(render(run_to(tmp_path / "run", stage))).text
    assert "Nothing has been retrained on a pruned digits yet" in text
    for sentence in [*missing, *there]:
        assert sentence in text


def test_a_run_that_has_only_a_configuration_has_a_page(tmp_path):
    configuration = Configuration.resolve(SETTINGS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(configuration.to_toml())
    assert "The run has not begun" in render(Run.open(tmp_path / "run"))


def test_an_evaluation_cut_short_is_counted_and_not_overstated(finished, tmp_path):
    shutil.copytree(finished.directory.root, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    manifest = run.manifest
    del manifest["stages"]["evaluate"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    for cell in run.evaluation():
        if cell["seed"] == 1 and cell["method"] != FULL:
            names = Cell.__dataclass_fields__
            cell_path(tmp_path / "run", Cell(**{name: cell[name] for name in names})).unlink()
    text = Elements(render(run)).text
    assert "10 of 18 retrainings are done" in text
    assert "1 to 2 seeds" in text
    assert "a single seed cannot tell merit from chance" in text


HOSTILE = "<script>alert(1)<" + "script>"


def hostile_folder(root: Path) -> Path:
    draw = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 2)):
        for name in (HOSTILE, '"><img src=x onerror=alert(1)>'):
            place = root / split / name
            place.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"'\" onload='alert(2)' {{{{ 7 * 7 }}}} <b>{number}.png")
    return root


def test_names_from_data_are_shown_and_never_run(tmp_path):
    folder = hostile_folder(tmp_path / "<i>data")
    run = run_to(tmp_path / "run", "selected", dataset=f"folder:{folder}", label_noise=0.5)
    found = check_offline(render(run))
    assert "label drawn at random" in found.text
    assert HOSTILE in found.text
    assert "{{ 7 * 7 }} <b>0.png" in found.text
    assert "<i>data" in found.text
    assert not [tag for tag, _ in found.elements if tag == "i"]
    assert all(image["src"].startswith("data:image/") for image in found.all("img"))


def test_inputs_that_are_no_pictures_are_named(tmp_path):
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    columns = {f"x{number}": values[:, number] for number in range(4)}
    pq.write_table(pa.table({**columns, "label": np.arange(60) % 3}), tmp_path / "table.parquet")
    run = run_to(tmp_path / "run", "scored", dataset=f"parquet:{tmp_path / 'table.parquet'}")
    text = Elements(render(run)).text
    assert "The inputs are neither pictures nor texts" in text
    lowest = run.table()["id"][int(np.argmin(run.scores()["moso"]))].as_py()
    assert f"id {lowest}" in text


def test_data_in_memory_gives_a_page_without_pictures():
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
    labels = np.arange(40) % 2
    settings = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 1}
    pruned = moso.prune((images, labels), ratio=0.5, test_set=(images, labels), **settings)
    text = check_offline(write_report(pruned.run).read_text(encoding="utf-8")).text
    assert "The samples cannot be shown: the run was made from data in memory" in text
    assert "Pruning the data" in text
    assert "has not been measured beside it" in text


def test_data_that_is_gone_or_changed_gives_a_page_that_says_so(tmp_path):
    folder = hostile_folder(tmp_path / "data")
    run = run_to(tmp_path / "run", "scored", dataset=f"folder:{folder}")
    shutil.move(folder, tmp_path / "moved")
    assert "The samples cannot be shown: data set " in Elements(render(run)).text
    first = next((tmp_path / "moved" / "train").iterdir())
    shutil.move(tmp_path / "moved", folder)
    for image in (folder / "train" / first.name).iterdir():
        image.rename(image.with_name(f"other-{image.name}"))
    assert "the data no longer has sample" in Elements(render(run)).text


def test_many_classes_are_cut_to_the_extremes(tmp_path):
    values = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    columns = {f"x{number}": values[:, number] for number in range(4)}
    pq.write_table(pa.table({**columns, "label": np.arange(200) % 40}), tmp_path / "table.parquet")
    run = run_to(
        tmp_path / "run", "selected", dataset=f"parquet:{tmp_path / 'table.parquet'}", partitions=1, ratios=[0.5]
    )
    text = Elements(render(run)).text
    assert "The 10 classes that are kept least and the 10 kept most of 40" in text


def test_plots_are_written_as_files_the_same_bytes_each_time(finished, tmp_path):
    paths = write_plots(finished, tmp_path / "plots")
    assert [path.name for path in paths] == ["accuracy.png", "scores.png"]
    again = write_plots(finished, tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    with Image.open(paths[0]) as picture:
        assert picture.width > 1000
        assert "Software" not in picture.info


def test_plots_of_an_unfinished_run_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(MosoError, match="has no scores; run `moso score` first"):
        write_plots(run_to(tmp_path / "run", "begun"), tmp_path)


def test_the_users_matplotlib_settings_change_nothing(finished):
    import matplotlib

    rows = ordered_lines(finished)
    plain = png(accuracy_figure(rows))
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9}):
        assert png(accuracy_figure(rows)) == plain
