"""`package.module:factory`: the user's own network, and a sentence for every way it can be missing or wrong."""

import sys
from pathlib import Path

import pytest
import torch

from moso.errors import MosoError
from moso.models import build_model

MODULE = """
import torch
from torch import nn

def both(num_classes, input_shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0], num_classes))

def classes_only(num_classes, width=6):
    return nn.Sequential(nn.Linear(4, width), nn.Linear(width, num_classes))

def anything(**settings):
    return nn.Linear(settings["input_shape"][0], settings["num_classes"])

def nothing():
    return nn.Linear(4, 3)

class Network(nn.Linear):
    def __init__(self, num_classes):
        super().__init__(4, num_classes)

class Holder:
    def make(num_classes):
        return nn.Linear(4, num_classes)

def lazy(num_classes):
    return nn.LazyLinear(num_classes)

def wants_more(num_classes, depth):
    return nn.Linear(4, num_classes)

def no_network():
    return "resnet"

def broken():
    raise KeyError("depth")

number = 3
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_networks.py").write_text(MODULE)
    (tmp_path / "own_unfinished.py").write_text("import no_such_package_anywhere\n")
    (tmp_path / "own_typo.py").write_text("def broken(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("own_networks", "own_unfinished", "own_typo"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("factory", ["both", "classes_only", "anything", "nothing", "Network", "Holder.make", "lazy"])
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_a_factory_is_given_what_it_takes(factory: str) -> None:
    model = build_model(f"own_networks:{factory}", (4,), classes=3, seed=0)
    assert model(torch.zeros(5, 4)).shape == (5, 3)


@pytest.mark.parametrize("factory", ["both", "lazy"])
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_own_networks_start_from_the_seed_too(factory: str) -> None:
    name = f"own_networks:{factory}"
    first, again, other = (build_model(name, (4,), classes=3, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert not any(torch.equal(value, other[key]) for key, value in first.items())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no_such_module:make", "there is no module 'no_such_module' for the network 'no_such_module:make'"),
        ("own_networks.inner:make", "there is no module 'own_networks.inner'"),
        ("own_unfinished:make", r"'own_unfinished' cannot be imported: ModuleNotFoundError.*own_unfinished.py, line 1"),
        ("own_typo:make", "module 'own_typo' cannot be imported: SyntaxError"),
        ("own_networks:make", "module 'own_networks' has no 'make'"),
        ("own_networks:", "module 'own_networks' has no ''"),
        (":both", r"':both' names no module; the form is package\.module:factory"),
        ("own_networks:number", "is a int and cannot be called"),
        ("own_networks:wants_more", "missing a required argument: 'depth'.*give its other parameters a default"),
        ("own_networks:no_network", "gave a str where a torch.nn.Module was expected"),
        (
            "own_networks:broken",
            r"factory 'own_networks:broken' failed: KeyError: 'depth' \(own_networks.py, line \d+\)",
        ),
        ("own_networks:nothing", r"gives \(2, 3\) for a batch of 2 where \(2, 5\) was expected"),
    ],
)
def test_every_way_to_fail_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(MosoError, match=sentence):
        build_model(name, (4,), classes=5, seed=0)
