"""What other packages bring: found by entry point, imported when used, named if broken, never in the place of ours."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import moso
from moso.configuration.configuration import Configuration
from moso.data.dataset import datasets, open_dataset
from moso.errors import MosoError
from moso.methods import listing
from moso.models import MODELS, build_model, models
from moso.registry import Registry
from moso.selection import SELECTORS, find_selector, selectors
from moso.training.recipe import load_recipe, recipes

SELECTION = """
import numpy as np
from moso.selection import Selector

last = Selector("last-ones", "the last ones", lambda problem: np.arange(len(problem))[-problem.budget :])
top = Selector("top", "not ours", last.choose)
text = "no selector at all"
"""
SOURCE = """
from moso.data.sources.digits import open_digits
from moso.data.sources.source import Request, Source


def open_mirrored(request):
    return open_digits(Request())


mirrored = Source("mirrored:PATH", "digits, the other way round", open_mirrored, fits=("tiny", "hasty"))
"""
NETWORK = """
from torch import nn
from moso.models import Network


def make(shape, classes, width):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))


tiny = Network("tiny", "two layers", make, "images", 8)
"""
RECIPE = """
from moso.training.recipe import load_recipe

hasty = load_recipe("quick").model_copy(update={"name": "hasty", "description": "no time"})
"""
LISTINGS = """
import sys
import moso.cli.main
from moso.data.dataset import datasets
from moso.models import models
from moso.training.recipe import recipes

assert models() and datasets() and recipes()
print(*sys.modules)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that makes an installed package with these entry points."""
    number = iter(range(99))

    def make(
        points: dict[str, str], package: str = "their-package", group: str = "moso.selectors", code: str = SELECTION
    ) -> str:
        root = tmp_path / f"{package}-{next(number)}"
        # Modules and entry points are remembered for as long as the process lives: every test has its own.
        module = f"{tmp_path.name}_{root.name}".replace("-", "_")
        metadata = root / f"{package.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value.replace('MODULE', module)}" for name, value in points.items()]
        (metadata / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")
        (root / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(str(root))
        return module

    return make


def test_an_installed_selector_is_found_used_and_listed(install):
    install({"last-ones": "MODULE:last"})
    assert moso.select([3.0, 2.0, 1.0, 0.0], ratio=0.5, selector="last-ones").tolist() == [2, 3]
    assert "last-ones" in selectors()
    assert {"name": "last-ones", "kind": "selector", "needs": "scores"}.items() <= listing()[-1].items()


def test_names_are_told_before_anything_is_imported(install):
    module = install({"last-ones": "MODULE:last"})
    assert SELECTORS.names()[-1] == "last-ones"
    with pytest.raises(MosoError, match="last-ones"):
        find_selector("last-one")
    assert module not in sys.modules
    find_selector("last-ones")
    assert module in sys.modules


def test_an_installed_source_network_and_recipe_make_a_run_together(install):
    install({"mirrored": "MODULE:mirrored"}, "their-data", "moso.sources", SOURCE)
    install({"tiny": "MODULE:tiny"}, "their-networks", "moso.models", NETWORK)
    install({"hasty": "MODULE:hasty"}, "their-recipes", "moso.recipes", RECIPE)
    assert ("mirrored:PATH", "digits, the other way round") in datasets()
    assert ("tiny", "two layers (another width: tiny-w16)") in models()
    assert ("hasty", "no time") in recipes()
    assert len(open_dataset("mirrored:anywhere").train) > 1000
    configuration = Configuration.resolve({"dataset": "mirrored:anywhere"})
    assert (configuration.model, configuration.recipe) == ("tiny", "hasty")
    assert configuration.surrogate == load_recipe("quick").surrogate
    network = build_model("tiny-w4", (1, 8, 8), classes=10, seed=0)
    assert [tuple(one.shape) for one in network.parameters()] == [(4, 64), (4,), (10, 4), (10,)]
    assert torch.equal(network[1].weight, build_model("tiny-w4", (1, 8, 8), classes=10, seed=0)[1].weight)


@pytest.mark.parametrize(
    ("group", "ask"),
    [
        ("moso.sources", lambda: open_dataset("gone:anywhere")),
        ("moso.models", lambda: build_model("gone", (1, 8, 8), classes=10, seed=0)),
        ("moso.recipes", lambda: load_recipe("gone")),
        ("moso.selectors", lambda: find_selector("gone")),
        ("moso.scores", lambda: moso.scores.find_score("gone")),
        ("moso.methods", lambda: moso.methods.find_method("gone")),
    ],
)
def test_a_broken_one_of_every_group_names_its_package(install, group, ask):
    install({"gone": "no_such_module:thing"}, group=group)
    with pytest.raises(MosoError, match="'gone' of package 'their-package' cannot be loaded: No module named") as found:
        ask()
    assert found.value.code == "plugin-broken"


def test_a_broken_one_hurts_nobody_else(install):
    install({"gone": "no_such_module:thing", "last-ones": "MODULE:last"})
    assert find_selector("top").name == "top"
    assert find_selector("last-ones").name == "last-ones"
    with pytest.raises(MosoError, match="'gone' of package 'their-package'"):
        selectors()


@pytest.mark.parametrize(
    ("points", "code", "message"),
    [
        (
            {"top": "MODULE:top"},
            "name-taken",
            "package 'their-package' declares 'top' in moso.selectors, a name of moso's own",
        ),
        ({"words": "MODULE:text"}, "plugin-broken", "'words' of package 'their-package' is a str, not a Selector"),
        (
            {"other": "MODULE:last"},
            "plugin-broken",
            "declares 'other' in moso.selectors, but the object calls itself 'last-ones'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(install, points, code, message):
    install(points)
    with pytest.raises(MosoError, match=message) as found:
        selectors()
    assert found.value.code == code


def test_two_packages_cannot_share_a_name(install):
    install({"last-ones": "MODULE:last"})
    install({"last-ones": "MODULE:last"}, package="another-package")
    with pytest.raises(MosoError, match="both declare 'last-ones'"):
        find_selector("last-ones")


def test_a_name_nobody_knows_is_answered_with_everybodys(install):
    install({"last-ones": "MODULE:last"})
    with pytest.raises(MosoError, match="unknown selector 'last-one'; nearest: last-ones"):
        find_selector("last-one")


def test_ours_stay_ours_where_a_plugin_wants_their_name(install):
    install({"top": "MODULE:top"})
    scores = np.arange(4.0)
    assert moso.select(scores, ratio=0.5, selector="top").tolist() == [2, 3]


def test_a_name_is_registered_once():
    with pytest.raises(MosoError) as found:
        MODELS.register(MODELS.get("mlp"))
    assert found.value.code == "name-taken"


def test_a_lazy_entry_is_made_once_and_not_for_its_name():
    made = []
    registry = Registry("list", list, "moso.no-such-group")
    registry.register_lazily("one", lambda: made.append(1) or [1])
    assert (registry.names(), made) == (["one"], [])
    assert registry.get("one") is registry.get("one") is registry.all()["one"]
    assert made == [1]


def test_what_is_heavy_is_imported_when_it_is_used():
    """Listing networks, sources and recipes imports none of the packages that some of them need."""
    found = subprocess.run([sys.executable, "-c", LISTINGS], capture_output=True, text=True, check=True)
    assert not {"timm", "torchvision", "datasets", "transformers", "ray", "sklearn"} & set(found.stdout.split())
