"""timm and torchvision import although torchvision's compiled part may not, and say so when they are missing."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from moso.errors import MosoError
from moso.models.compat import import_timm, import_torchvision

installed = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


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
def test_nothing_is_declared_where_the_compiled_part_loads() -> None:
    program = """
import torch
whole = torch.library.Library("torchvision", "DEF")
def load(path):
    whole.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    whole.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.ops.load_library = load
from moso.models import compat
compat.declare_missing_operators()
print(len(compat._declared))
"""
    assert run(program) == "0"


@installed
def test_declaring_twice_changes_nothing() -> None:
    program = """
from moso.models import compat
compat.declare_missing_operators()
declared = len(compat._declared)
compat.declare_missing_operators()
compat.import_torchvision()
compat.declare_missing_operators()
print(len(compat._declared) == declared)
"""
    assert run(program) == "True"


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MosoError, match=r'timm is not installed; pip install "moso-prune\[vision\]"'):
        import_timm()
    with pytest.raises(MosoError, match=r"torchvision is not installed"):
        import_torchvision()
