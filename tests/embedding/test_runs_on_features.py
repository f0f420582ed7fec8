"""Runs on features: `--embed`, `--prove`, and a frozen trunk that is computed once."""

import json

import numpy as np
import pytest
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import moso
from moso.cli.main import app
from moso.data import open_dataset
from moso.errors import MosoError
from moso.models import build_model
from moso.results.reading import Run

QUICK = ["--recipe", "quick", "--seeds", "1", "--ratio", "0.5", "--method", "moso-rank", "--workers", "1", "--quiet"]


def moso_run(*arguments):
    """Run `moso run`; raise the error it ends with."""
    result = CliRunner().invoke(app, ["run", *map(str, arguments)], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output


def values(run):
    return {(one["method"], one["selector"], one["seed"]): one["value"] for one in run.evaluation()}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A small network trained for a moment, for other classes than the data has."""
    folder = tmp_path_factory.mktemp("weights")
    out = folder / "run"
    moso_run("--dataset", "digits", "--model", "convnet-w8", *QUICK, "--partitions", 1, "--out", out)
    run = Run.open(out)
    model = build_model("convnet-w8", (1, 8, 8), 10, 0)
    list(run.trajectory(0))[-1].load_into(model)
    path = folder / "weights.safetensors"
    save_file({name: one for name, one in model.state_dict().items() if not name.startswith("classifier")}, path)
    return path


def test_scored_on_features_and_proven_by_the_head(weights, tmp_path):
    out = tmp_path / "run"
    moso_run("--dataset", "digits", "--embed", "convnet-w8", "--weights", weights, *QUICK, "--epochs", 8, "--out", out)
    run = Run.open(out)
    assert run.dataset("train")[0][0].shape == (16,)
    assert run.configuration.model == "linear"
    assert values(run)["full", "none", 0] > 60  # features of a trained network say something
    assert b"image/png" in (out / "report.html").read_bytes() or b"thumb" in (out / "report.html").read_bytes()
    # A second call finds everything done.
    before = (out / "embedding" / "train.npy").stat().st_mtime_ns
    moso_run("--dataset", "digits", "--embed", "convnet-w8", "--weights", weights, *QUICK, "--epochs", 8, "--out", out)
    assert (out / "embedding" / "train.npy").stat().st_mtime_ns == before


def test_given_features_are_those_that_are_computed(weights, tmp_path):
    folder = tmp_path / "features"
    arguments = ["embed", "--dataset", "digits", "--network", "convnet-w8", "--weights", weights, "--out", folder]
    assert CliRunner().invoke(app, [*map(str, arguments), "--quiet"]).exit_code == 0
    for name, place in (("given", f"features:{folder}"), ("computed", "convnet-w8")):
        extra = [] if name == "given" else ["--weights", weights]
        moso_run("--dataset", "digits", "--embed", place, *extra, *QUICK, "--out", tmp_path / name)
    moso_run("--dataset", f"features:{folder}", *QUICK, "--out", tmp_path / "alone")
    runs = [Run.open(tmp_path / name) for name in ("given", "computed", "alone")]
    for one in runs[1:]:
        np.testing.assert_allclose(one.scores()["moso-rank"], runs[0].scores()["moso-rank"], atol=1e-6)
        assert values(one) == values(runs[0])


def test_chosen_on_features_and_trained_on_the_data(weights, tmp_path):
    chosen = ["--dataset", "digits", "--embed", "convnet-w8", "--weights", weights, *QUICK]
    moso_run(
        *chosen, "--prove", "network", "--retrain-model", "mlp-w8", "--retrain-recipe", "quick", "--out", tmp_path / "a"
    )
    moso_run(*chosen, "--out", tmp_path / "b")
    one, other = Run.open(tmp_path / "a"), Run.open(tmp_path / "b")
    assert one.kept("moso-rank").tolist() == other.kept("moso-rank").tolist()
    networks = {found["network"] for found in one.evaluation()}
    assert networks == {"mlp-w8"}
    # The oracle is a run without features whose retraining on all data is the same.
    moso_run("--dataset", "digits", "--model", "mlp-w8", *QUICK, "--out", tmp_path / "c")
    assert values(one)["full", "none", 0] == values(Run.open(tmp_path / "c"))["full", "none", 0]


def test_proven_by_fine_tuning_the_whole_network(weights, tmp_path):
    moso_run(
        "--dataset", "digits", "--embed", "convnet-w8", "--weights", weights, *QUICK, "--prove", "network",
        "--retrain-recipe", "quick", "--out", tmp_path / "a",
    )  # fmt: skip
    run = Run.open(tmp_path / "a")
    assert {found["network"] for found in run.evaluation()} == {"convnet-w8"}
    assert values(run)["full", "none", 0] > 60


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--prove", "network"], "settings-conflict"),
        (["--embed-size", "32"], "settings-conflict"),
        (["--embed", "convnet", "--train", "head"], "settings-conflict"),
        (["--feature-views", "2"], "settings-conflict"),
        (["--train", "most"], "setting-invalid"),
        (["--pretrained", "--weights", "x.pth"], "settings-conflict"),
        (["--pretrained"], "settings-conflict"),
        (["--weights", "no-such-file.pth"], "file-missing"),
        (["--embed", "features:no-such-folder"], "file-missing"),
        (["--embed", "torch.nn:Flatten"], "model-unsuitable"),
        (["--embed", "convnet"], "setting-missing"),
        (["--embed", "timm:resnet18", "--prove", "network"], "setting-missing"),
        (["--model", "timm:resnet18", "--train", "head"], "setting-missing"),
        (["--model", "convnet", "--train", "last:2"], "setting-missing"),
    ],
)
def test_what_does_not_go_together_is_refused(flags, code, tmp_path):
    with pytest.raises(MosoError) as caught:
        moso_run("--dataset", "digits", *QUICK, *flags, "--out", tmp_path / "run")
    assert caught.value.code == code
    assert not (tmp_path / "run" / "run.toml").exists()


@pytest.mark.parametrize(("damage", "code"), [("order", "classes-mismatch"), ("length", "sample-unknown")])
def test_features_of_other_rows_are_refused(tmp_path, damage, code):
    data = open_dataset("digits", test_share=0.0).train
    rows = np.asarray(data.reader.read(np.arange(len(data))).reshape(len(data), -1), np.float32)
    labels = data.labels[::-1] if damage == "order" else data.labels
    count = len(rows) - (5 if damage == "length" else 0)
    np.save(tmp_path / "train.npy", rows[:count])
    np.save(tmp_path / "train_labels.npy", labels[:count])
    with pytest.raises(MosoError) as caught:
        moso_run("--dataset", "digits", "--embed", f"features:{tmp_path}", *QUICK, "--out", tmp_path / "run")
    assert caught.value.code == code


FROZEN = [
    "--dataset",
    "digits",
    "--model",
    "convnet-w8",
    *QUICK,
    "--method",
    "el2n",
    "--method",
    "herding",
    "--seeds",
    2,
]


@pytest.mark.parametrize("train", ["head", "last:2"])
def test_a_trunk_that_is_computed_once_changes_nothing(weights, tmp_path, train):
    for trunk in ("once", "every"):
        moso_run(*FROZEN, "--weights", weights, "--train", train, "--trunk", trunk, "--out", tmp_path / trunk)
    once, every = Run.open(tmp_path / "once"), Run.open(tmp_path / "every")
    assert json.loads((tmp_path / "once" / "trunk" / "trunk.json").read_text())["cut"]
    assert not (tmp_path / "every" / "trunk").exists()
    assert once.dataset("train")[0][0].shape != every.dataset("train")[0][0].shape
    for name, scores in every.scores().items():
        np.testing.assert_allclose(once.scores()[name], scores, rtol=1e-4, atol=1e-6, err_msg=name)
    assert values(once) == pytest.approx(values(every), abs=0.6)  # two test samples of 359
    # What is opened again is the part that was trained.
    network = once.build_model()
    for point in once.trajectory(0):
        point.load_into(network)
    assert network(once.dataset("train")[0][0][None]).shape == (1, 10)


def test_a_trunk_of_random_weights_differs_from_seed_to_seed_and_is_not_cut(tmp_path):
    # A factory: a network by name is refused without weights.
    moso_run(*FROZEN, "--model", "moso.experiments.networks:resnet8", "--train", "head", "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "trunk").exists()


def test_augmentation_is_refused_a_cut_or_gets_fixed_views(weights, tmp_path):
    augmented = [*FROZEN, "--weights", weights, "--train", "head", "--augmentation", "crop"]
    with pytest.warns(UserWarning, match="feature-views"):
        moso_run(*augmented, "--out", tmp_path / "plain")
    moso_run(*augmented, "--feature-views", "2", "--out", tmp_path / "views")
    files = sorted(path.name for path in (tmp_path / "views" / "trunk").glob("*.npy"))
    assert files == ["test.npy", "train-crop-000.npy", "train-crop-001.npy", "train.npy"]
    samples = Run.open(tmp_path / "views").samples("train")
    view = samples.training_view("crop", 0)
    some = np.arange(5)
    first, second, third = (view.batch(some, epoch)[0] for epoch in range(3))
    assert (first == third).all()
    assert not (first == second).all()


def test_the_library_takes_the_same_settings(weights):
    train = open_dataset("digits").train
    images, labels = train.reader.inputs[:300], train.labels[:300]
    pruned = moso.prune(
        (images, labels), ratio=0.5, embed="convnet-w8", weights=str(weights), recipe="quick", partitions=2
    )
    assert len(pruned.kept) == 150
    frozen = moso.prune(
        (images, labels),
        ratio=0.5,
        model="convnet-w8",
        weights=str(weights),
        train="head",
        recipe="quick",
        partitions=2,
    )
    assert (frozen.run.directory.root / "trunk" / "train.npy").exists()
    assert len(frozen.kept) == 150


@pytest.mark.parametrize("train", ["head", "last:1"])
def test_a_network_that_is_given_itself_may_be_frozen(train):
    """It may have been trained before, so it is not taken for one of random weights."""
    inputs, labels = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32), np.arange(60) % 3
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    settings = {"partitions": 2, "time_steps": 2, "epochs": 2, "progress": False}
    pruned = moso.prune((inputs, labels), ratio=0.5, model=network, train=train, **settings)
    assert len(pruned.kept) == 30
