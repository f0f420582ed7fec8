"""timm and torchvision import although torchvision's compiled part may not, and say so when they are missing."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from moso.errors import MosoError
from moso.models.compat import import_timm, import_torchvision

installed = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")

# What every torchvision does at the end of its import, whether its compiled part was loaded or not.
FAKES = """
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(lambda dets, scores, iou_threshold: dets)
"""
# A compiled part that registers its operators, under whatever file name; a second registration is an error here and
# the end of the process in C++.
COMPILED = """
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
REGISTERED_LATER = """
import torch
later = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    later.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
print("registered")
"""


def run(program: str, *places: Path) -> str:
    found = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*map(str, places), *([found] if found else [])])
    done = subprocess.run(
        # Some versions of torch leave a temporary folder to the end of the process, and say so there.
        [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-c", program],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def stand_in(folder: Path, package_name: str = "torchvision", **modules: str) -> Path:
    """A folder with a package of these modules; `init` is the package itself."""
    package = folder / package_name
    package.mkdir()
    for name, text in modules.items():
        (package / f"{'__init__' if name == 'init' else name}.py").write_text(text)
    return folder


@installed
def test_both_import_in_a_fresh_process() -> None:
    program = """
from moso.models.compat import import_timm, import_torchvision
print(import_torchvision().__name__, import_timm().__name__)
from torchvision import transforms
print(transforms.RandomCrop(4).size)
"""
    assert run(program) == "torchvision timm\n(4, 4)"


@installed
def test_a_failed_import_of_the_users_own_is_forgotten() -> None:
    program = """
from contextlib import suppress
with suppress(RuntimeError):
    import torchvision
from moso.models.compat import import_timm
print(import_timm().__name__)
"""
    assert run(program) == "timm"


@installed
def test_a_timm_network_does_a_forward_pass() -> None:
    program = """
import torch
from moso.models import build_model
print(tuple(build_model("resnet18", (3, 32, 32), 5, seed=0)(torch.zeros(2, 3, 32, 32)).shape))
"""
    assert run(program) == "(2, 5)"


def test_a_whole_torchvision_registers_its_own_operators(tmp_path: Path) -> None:
    """Whatever the file of its compiled part is called: nothing was declared before it came."""
    place = stand_in(tmp_path, init="from torchvision import odd_name\nfrom torchvision import fakes",
                     odd_name=COMPILED, fakes=FAKES)  # fmt: skip
    program = "from moso.models.compat import import_torchvision as own; print(own().odd_name.__name__)"
    assert run(program, place) == "torchvision.odd_name"


def test_operators_are_declared_where_the_compiled_part_does_not_load(tmp_path: Path) -> None:
    place = stand_in(tmp_path, init="from torchvision import before\nfrom torchvision import fakes\nwhole = True",
                     before="", fakes=FAKES)  # fmt: skip
    program = "from moso.models.compat import import_torchvision as own; print(own().whole, own() is own())"
    assert run(program, place) == "True True"


def test_nothing_that_was_declared_is_left_behind(tmp_path: Path) -> None:
    """A compiled part that is loaded later, as after an upgrade in a notebook, registers its operators unharmed."""
    place = stand_in(tmp_path, init="from torchvision import fakes", fakes=FAKES)
    program = f"from moso.models.compat import import_torchvision\nimport_torchvision()\n{REGISTERED_LATER}"
    assert run(program, place) == "registered"


def test_notices_of_the_import_are_not_shown_and_the_users_own_are(tmp_path: Path) -> None:
    notice = "import warnings\nwarnings.warn('Failed to load image Python extension')\n"
    place = stand_in(tmp_path, init=notice)
    program = """
import warnings
from moso.models.compat import import_torchvision
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import_torchvision()
    warnings.warn("the user's own")
print([str(one.message) for one in seen])
"""
    assert run(program, place) == '["the user\'s own"]'


@pytest.mark.parametrize(
    ("init", "reason"),
    [
        ("raise RuntimeError('compiled with different CUDA major versions')", "different CUDA major versions"),
        ("raise RuntimeError('operator torchvision::other does not exist')", "torchvision::other does not exist"),
        ("from torch import no_such_name", "no_such_name"),
    ],
)
def test_a_torchvision_beyond_repair_is_said_in_a_sentence(tmp_path: Path, init: str, reason: str) -> None:
    program = """
import sys
from moso.errors import MosoError
from moso.models.compat import import_transformers
try:
    import_transformers()
except MosoError as problem:
    print(problem)
print("torchvision" in sys.modules)
"""
    said, left = run(program, stand_in(tmp_path, init=init)).splitlines()
    assert said.startswith("torchvision is installed and does not import beside torch")
    assert reason in said
    assert left == "False"


def test_a_transformers_that_wants_a_newer_torch_is_said_in_a_sentence(tmp_path: Path) -> None:
    stand_in(tmp_path, "torchvision", init="")
    stand_in(tmp_path, "transformers", init="__version__ = '9.0'\ndef is_torch_available(): return False")
    program = """
from moso.errors import MosoError
from moso.models.compat import import_transformers
try:
    import_transformers()
except MosoError as problem:
    print(problem)
"""
    assert "transformers 9.0 does not work with torch" in run(program, tmp_path)


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MosoError, match=r'timm is not installed; pip install "moso-prune\[vision\]"'):
        import_timm()
    with pytest.raises(MosoError, match=r"torchvision is not installed"):
        import_torchvision()
