"""The page without a browser: whole, offline, escaped, the same bytes for the same run, sensible when unfinished."""

import base64
import hashlib
import io
import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from report_runs import HOSTILE, HOSTILE_TOO, SETTINGS, Elements, hostile_folder, run_to
from scipy.stats import spearmanr

import moso
from moso.configuration import Configuration
from moso.errors import MosoError
from moso.report.page.page import render, write_report
from moso.report.plots import accuracy_figure, png, write_plots
from moso.report.run_views import ordered_lines
from moso.results import Run
from moso.results.originals import Originals
from moso.results.retrainings import FULL, Retraining, retraining_path


@pytest.fixture(scope="module")
def page(finished) -> str:
    return render(finished)


def check_offline(page: str) -> Elements:
    """Nothing but the page's own script can run, and nothing asks for anything."""
    found = Elements(page)
    assert not {tag for tag, _ in found.elements} & {"link", "iframe", "object", "embed", "form", "base", "img"}
    for tag, attributes in found.elements:
        assert not any(name.startswith("on") or name in ("src", "href", "srcset", "action") for name in attributes), tag
    (policy,) = [meta["content"] for meta in found.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    runs = [attributes for attributes in found.all("script") if "type" not in attributes]
    assert len(runs) == 1
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    return found


def test_the_page_is_one_file_that_asks_nothing_of_the_network(finished, page):
    path = write_report(finished)
    assert path == finished.directory.root / "report.html"
    assert path.read_text(encoding="utf-8") == page
    assert path.stat().st_size < 1_000_000
    check_offline(page)


def test_columns_are_those_of_the_run_to_the_bit(finished, page):
    found, table = Elements(page), finished.table()
    assert found.about["ids"] == "numbers"  # rows of digits that were not held out
    assert found.column("id").tolist() == table["id"].to_pylist()
    assert (found.column("label") == table["label"].to_numpy()).all()
    assert (found.column("partition") == table["partition"].to_numpy()).all()
    for name, values in finished.scores().items():
        assert found.column(f"score/{name}").tobytes() == values.tobytes()
    drawn = set(finished.manifest["dataset"]["labels_drawn_at_random"])
    assert found.column("drawn").tolist() == [one in drawn for one in table["id"].to_pylist()]
    assert len(found.about["selections"]) == 8
    for one in found.about["selections"]:
        kept = np.flatnonzero(found.column(one["column"]))
        assert (kept == finished.kept(one["method"], one["ratio"], one["selector"])).all()


def test_the_page_says_what_was_found_and_how(finished, page):
    about = Elements(page).about
    assert about["accuracy"]["full"]["seeds"] == 2
    lines = {line["name"]: line["points"] for line in about["accuracy"]["lines"]}
    assert {"moso (balanced)", "moso-rank (balanced)", "random (random)", "random (balanced)"} == lines.keys()
    for row in ordered_lines(finished):
        if row.method != FULL:
            (point,) = [one for one in lines[row.name] if one["ratio"] == row.ratio]
            assert (point["mean"], point["spread"]) == (row.mean, row.spread)
    assert about["missing"] == []
    assert "Pruning cost" in about["cost"]["sentence"]
    said = json.dumps(about)
    for expected in ("equal epochs", "stratified", "recipe digits", finished.manifest["versions"]["torch"]):
        assert expected in said


def test_correlations_are_scipys(finished, page):
    agreement = Elements(page).about["agreement"]
    scores = finished.scores()
    assert agreement["names"] == ["moso", "moso-rank"]
    expected = spearmanr(scores["moso"], scores["moso-rank"]).statistic
    assert agreement["matrix"][0][1] == pytest.approx(expected, abs=1e-4)


def test_accuracy_of_classes_is_that_of_the_cells(finished, page):
    found = Elements(page)
    cells = [cell for cell in finished.evaluation() if (cell["method"], cell["ratio"]) == ("moso", 0.8)]
    correct, count = (np.sum([cell[name] for cell in cells], axis=0) for name in ("class_correct", "class_count"))
    wanted = {"method": "moso", "key": "balanced", "ratio": 0.8}
    row = found.column("class-accuracy")[found.about["class_accuracy"].index(wanted)]
    assert row == pytest.approx(100 * correct / count)


def test_steps_are_the_terms_that_the_score_averages(finished, page):
    steps, table = Elements(page).column("steps"), finished.table()
    for part in range(2):
        own = table["partition"].to_numpy() == part
        total = finished.history(part)["total_steps"]
        score = steps[:, own].astype(np.float64).mean(axis=0) * total / own.sum()
        assert score == pytest.approx(finished.scores()["moso"][own], rel=1e-5, abs=1e-6)


def test_tiles_are_the_pictures(finished, page):
    found = Elements(page)
    shown, tiles = found.about["shown"], found.column("tile")
    per_sheet = shown["across"] ** 2
    originals, ids = Originals.open(finished.configuration), finished.table()["id"].to_pylist()
    for position in range(0, len(ids), 97):
        sheet, place = divmod(int(tiles[position]), per_sheet)
        with Image.open(io.BytesIO(found.content(f"sheet/{sheet}"))) as picture:
            x, y = place % shown["across"] * shown["pixels"], place // shown["across"] * shown["pixels"]
            tile = np.asarray(picture.crop((x, y, x + shown["pixels"], y + shown["pixels"])))
        assert (tile == np.asarray(originals.picture(ids[position]))).all()
    assert shown["note"] == ""


def test_a_small_page_shows_some_pictures_and_says_so(finished):
    whole = len(render(finished).encode())
    small = render(finished, max_mb=(whole - 25_000) / 1e6)
    assert len(small.encode()) <= whole - 25_000
    found = Elements(small)
    there = found.column("tile") != 2**32 - 1
    assert 0 < there.sum() < len(there)
    assert f"Pictures of {there.sum():,} of 1,438 samples are in this file" in found.about["shown"]["note"]
    assert there[found.column("drawn")].mean() > there.mean()


def test_a_page_without_room_for_samples_still_says_what_was_found(finished, page):
    blocks = Elements(page).blocks
    limit = len(page.encode()) - sum(len(text) for name, (_, text) in blocks.items() if name != "about")
    small = render(finished, max_mb=limit / 1e6)
    assert len(small.encode()) <= limit
    about = Elements(small).about
    assert about["samples"] == 0
    assert "moso explore RUN shows them" in about["left_out"][0]
    assert about["accuracy"]["lines"]
    with pytest.raises(MosoError, match="has no room for any sample; give at least --max-mb 1"):
        render(finished, max_mb=0.01)


def test_the_same_run_gives_the_same_bytes_anywhere(finished, page, tmp_path):
    shutil.copytree(finished.directory.root, tmp_path / "elsewhere")
    assert render(Run.open(tmp_path / "elsewhere")) == page


@pytest.mark.parametrize(
    ("stage", "missing"),
    [
        ("begun", ["not scored yet, and surrogates not all trained", "Nothing is selected", "0 of 18 retr"]),
        ("trained", ["Samples are not scored yet:", "Nothing is selected"]),
        ("scored", ["Nothing is selected yet", "0 of 18 retrainings are done"]),
        ("selected", ["0 of 18 retrainings are done"]),
    ],
)
def test_an_unfinished_run_says_what_is_missing(tmp_path, stage, missing):
    about = check_offline(render(run_to(tmp_path / "run", stage))).about
    assert "Nothing has been retrained on a pruned digits yet" in about["headline"]
    for sentence in missing:
        assert any(sentence in one for one in about["missing"])
    assert bool(about["samples"]) == (stage in ("scored", "selected"))
    assert bool(about["training"]["histories"]) == (stage != "begun")


def test_a_run_that_has_only_a_configuration_has_a_page(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text(Configuration.resolve(SETTINGS).to_toml())
    assert "The run has not begun" in Elements(render(Run.open(tmp_path / "run"))).about["missing"][0]


def test_an_evaluation_cut_short_is_counted_and_not_overstated(finished, tmp_path):
    shutil.copytree(finished.directory.root, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    manifest = run.manifest
    del manifest["stages"]["evaluate"]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    for cell in run.evaluation():
        if cell["seed"] == 1 and cell["method"] != FULL:
            names = Retraining.__dataclass_fields__
            retraining_path(tmp_path / "run", Retraining(**{name: cell[name] for name in names})).unlink()
    about = Elements(render(run)).about
    assert "10 of 18 retrainings are done" in about["missing"][0]
    assert "1 to 2 seeds" in about["accuracy"]["note"]
    assert "a single seed has no interval" in about["headline"]


def test_names_from_data_never_become_markup(tmp_path):
    folder = hostile_folder(tmp_path / "<i>data")
    run = run_to(tmp_path / "run", "selected", dataset=f"folder:{folder}", label_noise=0.5)
    page = render(run)
    found = check_offline(page)
    assert set(found.about["classes"]) == {HOSTILE, HOSTILE_TOO}
    assert any("{{ 7 * 7 }} %%about%% <b>0.png" in one for one in found.column("id"))
    assert found.about["name"] == "<i>data"
    assert not [tag for tag, _ in found.elements if tag in ("i", "b")]
    assert HOSTILE not in page
    assert "source-label" in found.about["columns"]


def test_inputs_that_are_no_pictures_are_rows_of_numbers(tmp_path):
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    columns = {f"x{number}": values[:, number] for number in range(4)}
    pq.write_table(pa.table({**columns, "label": np.arange(60) % 3}), tmp_path / "table.parquet")
    run = run_to(tmp_path / "run", "scored", dataset=f"parquet:{tmp_path / 'table.parquet'}")
    found = Elements(render(run))
    assert "neither pictures nor texts" in found.about["shown"]["note"]
    assert (values[run.table()["id"].to_numpy()] == found.column("row").T).all()


def test_data_in_memory_gives_a_page_without_pictures():
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
    labels = np.arange(40) % 2
    settings = {"model": "mlp-w8", "recipe": "quick", "time_steps": 2, "partitions": 1}
    pruned = moso.prune((images, labels), ratio=0.5, test_set=(images, labels), **settings)
    about = check_offline(write_report(pruned.run).read_text(encoding="utf-8")).about
    assert "The samples cannot be shown: the run was made from data in memory" in about["shown"]["note"]
    assert about["name"] == "the data"
    assert "random selection of the same size" in about["headline"]


def test_data_that_is_gone_or_changed_gives_a_page_that_says_so(tmp_path):
    folder = hostile_folder(tmp_path / "data")
    run = run_to(tmp_path / "run", "scored", dataset=f"folder:{folder}")
    shutil.move(folder, tmp_path / "moved")
    assert "The samples cannot be shown: data set " in Elements(render(run)).about["shown"]["note"]
    shutil.move(tmp_path / "moved", folder)
    broken = sorted((folder / "train").rglob("*.png"))[3]
    content = broken.read_bytes()
    broken.write_bytes(b"no picture")
    about = Elements(render(run)).about
    assert "Pictures of 15 of 16 samples" in about["shown"]["note"]
    assert "1 picture cannot be read" in about["shown"]["note"]
    broken.write_bytes(content)
    first = next((folder / "train").iterdir())
    for image in first.iterdir():
        image.rename(image.with_name(f"other-{image.name}"))
    assert "no longer has sample" in Elements(render(run)).about["shown"]["note"]


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
