"""Exports: what was kept comes back, sample for sample, and nothing is written where it does not belong."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import moso
from moso.cli.export import export
from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from moso.errors import MosoError
from moso.export.as_folder import safe_name
from moso.export.kept import export_kept
from moso.results import Run
from moso.results.selections import selection_path, write_selection
from moso.run import Job
from moso.run.computed_scores import write_scores
from moso.run.stages import begin, select_stage
from moso.selection import Kept
from refusals import refusal

PICK = {"method": "random", "selector": "balanced", "ratio": 0.5}


def selected(root: Path, **settings) -> Run:
    """A run that has selected by the random score, which needs no training."""
    given = {"model": "mlp-w8", "epochs": 1, "partitions": 1, "time_steps": 1, "seeds": 1, "ratios": [0.5]}
    job = Job.open(root, Configuration.resolve({**given, **settings}))
    with job.directory.locked():
        begin(job)
        for seed in job.configuration.all_seeds():
            write_scores(job, seed, [job.configuration.choice("random")])
        select_stage(job, [("random", "balanced"), ("random", "random")])
    return Run.open(root)


def image_folder(root: Path, classes=("ant", "bee"), each: int = 6) -> Path:
    draw = np.random.default_rng(0)
    for split, count in (("train", each), ("val", 2)):
        for name in classes:
            place = root / split / name / "images"
            place.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{name}_{number}.png")
    return root


def image_parquet(root: Path, classes=("ant", "bee"), each: int = 6) -> Path:
    """JPEGs, so that encoding them again would change their pixels."""
    draw, rows = np.random.default_rng(0), []
    for label in range(len(classes)):
        for _ in range(each):
            stream = io.BytesIO()
            Image.fromarray(draw.integers(0, 255, (8, 8, 3)).astype(np.uint8)).save(stream, "JPEG")
            rows.append({"image": {"bytes": stream.getvalue(), "path": None}, "label": label})
    described = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": list(classes)}}
    table = pa.Table.from_pylist(rows)
    metadata = {"huggingface": json.dumps({"info": {"features": described}})}
    root.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), root / "images.parquet")
    return root / "images.parquet"


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Run:
    return selected(tmp_path_factory.mktemp("digits") / "run", seeds=2)


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Run:
    place = tmp_path_factory.mktemp("pets")
    return selected(place / "run", dataset=f"folder:{image_folder(place / 'data')}")


def same_samples(run: Run, kept, again) -> None:
    """Every kept sample is in `again` with its label and pixels, and nothing else is."""
    before = run.samples("train")
    own = sorted(_known(before, position) for position in kept)
    assert own == sorted(_known(again, position) for position in range(len(again)))


def _known(samples, position: int) -> tuple[str, bytes]:
    picture = samples.picture(int(position))
    return samples.classes[samples.labels[position]], picture.convert("RGB").tobytes()


def test_indices_in_all_formats_are_what_the_run_kept(digits, tmp_path):
    kept = digits.kept("random", 0.5, "balanced")
    table = digits.table()
    for name in ("kept.csv", "kept.npy", "kept.parquet"):
        exported = export_kept(digits, tmp_path / name, **PICK)
        assert exported.samples == len(kept)
    with (tmp_path / "kept.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["position"]) for row in rows] == kept.tolist()
    assert [int(row["id"]) for row in rows] == table["id"].to_numpy()[kept].tolist()
    assert [int(row["label"]) for row in rows] == table["label"].to_numpy()[kept].tolist()
    positions = np.load(tmp_path / "kept.npy", allow_pickle=False)
    assert positions.dtype == np.int64
    assert (positions == kept).all()
    parquet = pq.read_table(tmp_path / "kept.parquet")
    assert parquet.column_names == ["id", "position", "label", "score"]
    assert (parquet["score"].to_numpy() == digits.scores()["random"][kept]).all()


def test_ids_instead_of_positions_numbers_and_paths_alike(digits, pets, tmp_path):
    for run, name in ((digits, "numbers.npy"), (pets, "paths.npy")):
        export_kept(run, tmp_path / name, ids=True, **PICK)
        found = np.load(tmp_path / name, allow_pickle=False)
        kept = run.kept("random", 0.5, "balanced")
        assert found.tolist() == [run.table()["id"][int(one)].as_py() for one in kept]


def test_another_seed_is_another_selection(digits, tmp_path):
    export_kept(digits, tmp_path / "kept.npy", seed=1, **PICK)
    assert (np.load(tmp_path / "kept.npy") == digits.kept("random", 0.5, "balanced", seed=1)).all()


@pytest.mark.parametrize("form", ["parquet-data", "folder"])
def test_exported_data_opens_again_as_the_kept_samples(digits, pets, tmp_path, form):
    for number, run in enumerate((digits, pets)):
        out = tmp_path / f"{form}-{number}"
        export_kept(run, out, form=form, with_test=True, **PICK)
        again = open_dataset(f"{form.removesuffix('-data')}:{out}")
        same_samples(run, run.kept("random", 0.5, "balanced"), again.train)
        test = run.samples("test")
        assert sorted(_known(test, i) for i in range(len(test))) == sorted(
            _known(again.test, i) for i in range(len(again.test))
        )


def test_one_parquet_file_without_the_test(digits, tmp_path):
    export_kept(digits, tmp_path / "pruned.parquet", form="parquet-data", **PICK)
    again = open_dataset(f"parquet:{tmp_path / 'pruned.parquet'}", test_share=0)
    assert again.test is None
    same_samples(digits, digits.kept("random", 0.5, "balanced"), again.train)
    ids = pq.read_table(tmp_path / "pruned.parquet")["id"].to_numpy()
    assert (ids == digits.table()["id"].to_numpy()[digits.kept("random", 0.5, "balanced")]).all()


def test_encoded_images_go_out_byte_for_byte(tmp_path):
    source = image_parquet(tmp_path / "data")
    run = selected(tmp_path / "run", dataset=f"parquet:{source}")
    before = [row["bytes"] for row in pq.read_table(source)["image"].to_pylist()]
    export_kept(run, tmp_path / "out.parquet", form="parquet-data", **PICK)
    for row in pq.read_table(tmp_path / "out.parquet").to_pylist():
        assert row["image"]["bytes"] == before[row["id"]]
    export_kept(run, tmp_path / "out", form="folder", **PICK)
    files = sorted((tmp_path / "out" / "train").rglob("*.jpg"))
    assert len(files) == len(run.kept("random", 0.5, "balanced"))
    assert all(file.read_bytes() == before[int(file.stem)] for file in files)


def test_exported_parquet_opens_in_hugging_face_datasets(digits, tmp_path):
    datasets = pytest.importorskip("datasets")
    export_kept(digits, tmp_path / "out", form="parquet-data", **PICK)
    opened = datasets.Dataset.from_parquet(str(tmp_path / "out" / "train.parquet"), cache_dir=str(tmp_path / "cache"))
    assert opened.features["label"].names == [str(digit) for digit in range(10)]
    assert opened[0]["image"].size == (8, 8)


def test_samples_of_an_image_folder_keep_their_ids_and_bytes(pets, tmp_path):
    export_kept(pets, tmp_path / "out", form="folder", **PICK)
    again = open_dataset(f"folder:{tmp_path / 'out'}", test_share=0)
    kept = pets.kept("random", 0.5, "balanced")
    assert again.train.ids.to_pylist() == [pets.samples().ids[int(one)].as_py() for one in kept]
    root = Path(pets.configuration.dataset.removeprefix("folder:"))
    for sample_id in again.train.ids.to_pylist():
        assert (tmp_path / "out/train" / sample_id).read_bytes() == (root / "train" / sample_id).read_bytes()


def test_links_point_to_the_originals(pets, tmp_path):
    export_kept(pets, tmp_path / "out", form="folder", link=True, **PICK)
    root = Path(pets.configuration.dataset.removeprefix("folder:")).resolve()
    links = list((tmp_path / "out").rglob("*.png"))
    assert links
    assert all(path.is_symlink() and path.resolve().is_relative_to(root) for path in links)
    same_samples(
        pets, pets.kept("random", 0.5, "balanced"), open_dataset(f"folder:{tmp_path / 'out'}", test_share=0).train
    )


def test_labels_are_the_ones_trained_on(tmp_path):
    place = image_folder(tmp_path / "data")
    run = selected(tmp_path / "run", dataset=f"folder:{place}", label_noise=1.0)
    kept = run.kept("random", 0.5, "balanced")
    for form in ("folder", "parquet-data"):
        export_kept(run, tmp_path / form, form=form, **PICK)
        again = open_dataset(f"{form.removesuffix('-data')}:{tmp_path / form}", test_share=0)
        same_samples(run, kept, again.train)


def test_numbers_keep_their_names_and_values(tmp_path):
    draw = np.random.default_rng(0)
    columns = {name: draw.normal(size=20).astype(np.float32) for name in ("width", "height")}
    pq.write_table(pa.table({**columns, "label": np.arange(20) % 2}), tmp_path / "flowers.parquet")
    run = selected(tmp_path / "run", dataset=f"parquet:{tmp_path / 'flowers.parquet'}", augmentation="none")
    export_kept(run, tmp_path / "out.parquet", form="parquet-data", **PICK)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["width", "height", "label", "id"]
    ids = written["id"].to_numpy()
    assert (written["width"].to_numpy() == columns["width"][ids]).all()
    again = open_dataset(f"parquet:{tmp_path / 'out.parquet'}", test_share=0)
    assert again.train.shape == (2,)
    with refusal("pictures-required", "--format"):
        export_kept(run, tmp_path / "out", form="folder", **PICK)
    assert not (tmp_path / "out").exists()


def test_inputs_of_several_dimensions_keep_their_shape(tmp_path):
    values = np.random.default_rng(0).normal(size=(20, 2, 3)).astype(np.float32)
    pq.write_table(pa.table({"series": values.tolist(), "label": np.arange(20) % 2}), tmp_path / "series.parquet")
    run = selected(tmp_path / "run", dataset=f"parquet:{tmp_path / 'series.parquet'}", augmentation="none")
    export_kept(run, tmp_path / "out.parquet", form="parquet-data", **PICK)
    again = open_dataset(f"parquet:{tmp_path / 'out.parquet'}", test_share=0)
    assert again.train.shape == (2, 3)
    ids = pq.read_table(tmp_path / "out.parquet")["id"].to_numpy()
    assert (again.train.reader.read(np.arange(len(again.train))) == values[ids]).all()


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "/etc/passwd",
        "..",
        ".hidden",
        "con",
        "a/b",
        'x"y:z',
        "<script>",
        "tab\there",
        "é" * 300,
        "",
        "nul.txt",
    ],
)
def test_no_class_name_leads_out_of_its_folder(name):
    safe = safe_name(name)
    assert safe
    assert not safe.startswith(".")
    assert "/" not in safe
    assert "\\" not in safe
    assert len(safe.encode()) <= 101
    assert (Path("/root/of/all") / safe).resolve().parent == Path("/root/of/all")


def test_hostile_class_names_stay_inside_and_come_back(tmp_path):
    classes = ("../../x", "..", "a/b", "A/B", "plain")
    run = selected(tmp_path / "run", dataset=f"parquet:{image_parquet(tmp_path / 'data', classes)}")
    before = {path for path in tmp_path.rglob("*") if "run" not in path.parts}
    export_kept(run, tmp_path / "deep" / "out", form="folder", **PICK)
    new = set(tmp_path.rglob("*")) - before
    assert all("deep" in path.parts or "run" in path.parts for path in new)
    again = open_dataset(f"folder:{tmp_path / 'deep' / 'out'}", test_share=0)
    same_samples(run, run.kept("random", 0.5, "balanced"), again.train)


def test_what_is_there_is_replaced_only_when_asked(digits, tmp_path):
    for name, form in (("kept.csv", None), ("out", "folder")):
        export_kept(digits, tmp_path / name, form=form, **PICK)
        with refusal("output-exists", "--overwrite"):
            export_kept(digits, tmp_path / name, form=form, **PICK)
        export_kept(digits, tmp_path / name, form=form, overwrite=True, **PICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.csv", "out"]


def test_a_folder_that_is_no_export_is_never_overwritten(digits, tmp_path):
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "photo.jpg").write_text("dear")
    with refusal("output-exists"):
        export_kept(digits, tmp_path / "holiday", form="folder", overwrite=True, **PICK)
    assert (tmp_path / "holiday" / "photo.jpg").read_text() == "dear"


def test_a_failed_export_leaves_what_was_there(digits, tmp_path, monkeypatch):
    export_kept(digits, tmp_path / "out", form="folder", **PICK)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("moso.export.as_folder._write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        export_kept(digits, tmp_path / "out", form="folder", overwrite=True, **PICK)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_data_that_changed_is_refused(tmp_path):
    place = image_folder(tmp_path / "data")
    run = selected(tmp_path / "run", dataset=f"folder:{place}")
    Image.new("RGB", (8, 8)).save(place / "train" / "ant" / "images" / "ant_0.png")
    with refusal("data-changed"):
        export_kept(run, tmp_path / "out", form="folder", **PICK)


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("kept.txt", {}, ("output-invalid", "kept.txt", "--format")),
        ("kept", {"form": "parket"}, ("unknown-name", "parket", "parquet")),
        ("kept.csv", {"ids": True}, ("settings-conflict", "--ids")),
        ("kept.csv", {"with_test": True}, ("settings-conflict", "--with-test")),
        ("kept.npy", {"link": True}, ("settings-conflict", "--link")),
        (
            "kept.parquet",
            {"form": "parquet-data", "with_test": True},
            ("output-invalid", "--with-test", "train.parquet"),
        ),
        ("kept.csv", {"seed": 7}, ("unknown-name", 7)),
        ("kept.csv", {"ratio": 0.3}, ("selection-ambiguous",)),
        ("kept.csv", {"method": None, "selector": None}, ("selection-ambiguous", 2)),
        ("out", {"form": "folder", "link": True}, ("settings-conflict", "--link")),
    ],
)
def test_bad_input_gets_one_sentence_and_leaves_nothing(digits, tmp_path, name, options, told):
    with refusal(*told):
        export_kept(digits, tmp_path / name, **{**PICK, **options})
    assert list(tmp_path.iterdir()) == []


def test_files_and_folders_are_not_taken_for_each_other(digits, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with refusal("output-invalid", "folder.csv"):
        export_kept(digits, tmp_path / "folder.csv", **PICK)
    (tmp_path / "file").touch()
    with refusal("output-invalid"):
        export_kept(digits, tmp_path / "file", form="folder", overwrite=True, **PICK)


def test_an_export_into_the_data_itself_is_refused(pets):
    inside = Path(pets.configuration.dataset.removeprefix("folder:")) / "pruned"
    with refusal("output-invalid"):
        export_kept(pets, inside, form="folder", **PICK)


def test_the_command_says_what_it_wrote(digits, tmp_path):
    app = typer.Typer()
    app.command()(export)
    asked = [str(digits.directory.root), "--method", "random", "--selector", "balanced", "--ratio", "0.5", "--out"]
    result = CliRunner().invoke(app, [*asked, str(tmp_path / "kept.csv")], catch_exceptions=False)
    assert result.stdout == (
        f"719 of 1,438 training samples, kept by random (balanced) at ratio 0.5, written to {tmp_path / 'kept.csv'}\n"
    )
    result = CliRunner().invoke(app, [*asked, str(tmp_path / "out"), "--format", "folder", "--quiet"])
    assert result.stdout == ""
    assert (tmp_path / "out" / "train" / "0").is_dir()


def test_a_ratio_that_was_not_selected_yet_is_selected_now(digits, tmp_path):
    app = typer.Typer()
    app.command()(export)
    asked = [str(digits.directory.root), "--method", "random", "--selector", "balanced", "--quiet"]
    for number, (flags, kept) in enumerate(
        ((["--ratio", "37%"], 906), (["--keep", "1000"], 1000), (["--keep", "0.25"], 360))
    ):
        out = tmp_path / f"kept{number}.npy"
        CliRunner().invoke(app, [*asked, *flags, "--out", str(out)], catch_exceptions=False)
        assert len(np.load(out)) == kept
    for flags, code in (
        (["--ratio", "37"], "ratio-out-of-range"),
        (["--ratio", "0.3", "--keep", "0.7"], "settings-conflict"),
        (["--keep", "5000"], "ratio-out-of-range"),
    ):
        with pytest.raises(MosoError) as refused:
            CliRunner().invoke(app, [*asked, *flags, "--out", str(tmp_path / "no.npy")], catch_exceptions=False)
        assert refused.value.code == code


@pytest.mark.parametrize("classes", [("zebra", "ant", "bee"), ("ant", "con", "bee"), ("b:x", "b-y")])
def test_folders_keep_the_order_and_the_names_of_classes(tmp_path, classes):
    """Readers number classes by the sorted names of folders: `zebra` would become 2, `_con` (from `con`) the first."""
    run = selected(tmp_path / "run", dataset=f"parquet:{image_parquet(tmp_path / 'data', classes)}")
    done = export_kept(run, tmp_path / "out", **PICK, form="folder")
    assert [line.strip() for line in (done.path / "classes.txt").read_text().splitlines()] == list(classes)
    again = open_dataset(f"folder:{done.path}", test_share=0.3)
    assert again.train.classes == classes
    before, kept = run.samples("train"), run.kept(**PICK)
    pictures = {_known(before, position)[1]: int(before.labels[position]) for position in kept}
    for position in range(len(again.train)):
        assert pictures[_known(again.train, position)[1]] == again.train.labels[position]


def test_a_class_of_which_nothing_is_kept_does_not_shift_the_others(tmp_path):
    run = selected(tmp_path / "run", dataset=f"folder:{image_folder(tmp_path / 'data', ('ant', 'bee', 'cow'))}")
    ids = run.table()["id"].to_pylist()
    made = run.selection(**PICK)
    kept = np.array([number for number, name in enumerate(ids) if not name.startswith("ant/")])
    selection_path(run.directory.root, made).unlink()
    write_selection(run.directory.root, made, run.samples("train").ids, Kept(kept))
    done = export_kept(run, tmp_path / "out", **PICK, form="folder")
    assert sorted(path.name for path in (done.path / "train").iterdir()) == ["ant", "bee", "cow"]
    with pytest.raises(MosoError) as refused:
        open_dataset(f"folder:{done.path}")
    assert refused.value.code == "data-empty"


def test_data_in_memory_is_exported_as_indices_only(tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
    pruned = moso.prune(
        (images, np.arange(40) % 2), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, partitions=1
    )
    export_kept(pruned.run, tmp_path / "kept.npy")
    assert (np.load(tmp_path / "kept.npy") == pruned.kept).all()
    with refusal("data-in-memory"):
        export_kept(pruned.run, tmp_path / "out", form="folder")
