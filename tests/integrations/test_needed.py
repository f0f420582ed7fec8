"""Optional packages: one sentence names the extra as it installs, and nothing is imported before it is used."""

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import moso
import moso.integrations
from moso import errors

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# The room of each package, and its extra.
ROOMS = {
    name: name for name in ("transformers", "lightning", "accelerate", "skorch", "peft", "datasets", "wandb", "mlflow")
} | {"tensorboard": "watch"}


def hide(monkeypatch, package):
    for name in [one for one in sys.modules if one.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def forget(monkeypatch, room):
    """Have a room imported afresh, and what was there before put back after the test."""
    name = f"moso.integrations.{room}"
    monkeypatch.setattr(moso.integrations, room, None, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("room", ROOMS)
def test_a_missing_package_gives_the_command_that_installs_it(room, monkeypatch):
    hide(monkeypatch, room)
    if room == "lightning":  # which has two names
        hide(monkeypatch, "pytorch_lightning")
    if room == "tensorboard":  # PyTorch's part of it was imported with the package there
        monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
        monkeypatch.delitem(sys.modules, "torch.utils.tensorboard.writer", raising=False)
    forget(monkeypatch, room)
    with pytest.raises(errors.PackageMissing) as caught:
        importlib.import_module(f"moso.integrations.{room}")
    assert caught.value.code == "package-missing"
    assert f'pip install "moso-prune[{ROOMS[room]}]"' in str(caught.value)
    assert any(requirement.startswith(room) for requirement in EXTRAS[ROOMS[room]])


def test_lightning_under_its_older_name_will_do(monkeypatch):
    older = pytest.importorskip("pytorch_lightning")
    hide(monkeypatch, "lightning")
    forget(monkeypatch, "lightning")
    found = importlib.import_module("moso.integrations.lightning")
    assert issubclass(found.MosoCallback, older.Callback)


def test_every_extra_that_an_error_names_exists():
    named = set()
    for path in Path(moso.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr="package_missing"), args=[_, ast.Constant(value=extra), *_]):
                    named.add(extra)
    assert {"cleanlab", "neighbours", "ray", "watch"} <= named
    assert named <= set(EXTRAS)


def test_a_package_that_something_else_lacks_is_not_blamed_on_the_extra(monkeypatch):
    from moso.integrations.needed import needed

    with pytest.raises(ModuleNotFoundError, match="other_package"), needed("datasets"):
        import other_package  # noqa: F401


def test_importing_moso_imports_no_integration():
    code = "import sys, moso; print([name for name in sys.modules if name.startswith('moso.integrations')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
