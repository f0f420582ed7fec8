"""Other packages' selectors: found by entry point, named when broken, never in the place of ours."""

import numpy as np
import pytest

import moso
from moso.errors import MosoError
from moso.methods import listing
from moso.selection import find_selector, selectors

SOURCE = """
import numpy as np
from moso.selection import Selector

last = Selector("last-ones", "the last ones", lambda problem: np.arange(len(problem))[-problem.budget :])
top = Selector("top", "not ours", last.choose)
text = "no selector at all"
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that makes an installed package with these entry points."""
    number = iter(range(99))

    def make(points: dict[str, str], package: str = "their-package") -> None:
        root = tmp_path / f"{package}-{next(number)}"
        module = f"plugin_{root.name.replace('-', '_')}"
        metadata = root / f"{package.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {value.replace('MODULE', module)}" for name, value in points.items()]
        (metadata / "entry_points.txt").write_text("[moso.selectors]\n" + "\n".join(lines) + "\n")
        (root / f"{module}.py").write_text(SOURCE)
        monkeypatch.syspath_prepend(str(root))

    return make


def test_an_installed_selector_is_found_used_and_listed(install):
    install({"last-ones": "MODULE:last"})
    assert moso.select([3.0, 2.0, 1.0, 0.0], ratio=0.5, selector="last-ones").tolist() == [2, 3]
    assert "last-ones" in selectors()
    assert {"name": "last-ones", "kind": "selector", "needs": "scores"}.items() <= listing()[-1].items()


def test_a_broken_one_is_named_and_hurts_nobody_else(install):
    install({"gone": "no_such_module:thing", "last-ones": "MODULE:last"})
    assert find_selector("top").name == "top"
    assert find_selector("last-ones").name == "last-ones"
    with pytest.raises(MosoError, match="'gone' of package 'their-package' cannot be loaded: No module named"):
        find_selector("gone")
    with pytest.raises(MosoError, match="'gone' of package 'their-package'"):
        selectors()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"top": "MODULE:top"}, "package 'their-package' declares 'top' in moso.selectors, a name of moso's own"),
        ({"words": "MODULE:text"}, "'words' of package 'their-package' is a str, not a Selector"),
        ({"other": "MODULE:last"}, "declares 'other' in moso.selectors, but the object calls itself 'last-ones'"),
    ],
)
def test_what_does_not_fit_is_refused(install, points, message):
    install(points)
    with pytest.raises(MosoError, match=message):
        selectors()


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
