"""The built page that is committed belongs to its sources."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE, ASSETS = ROOT / "page", ROOT / "src/moso/report/page/assets"
BUILT = ("page.js", "page.css", "page.html")


def test_the_build_is_that_of_the_sources():
    written = json.loads((ASSETS / "build.json").read_text())
    names = [str(path.relative_to(PAGE)) for path in (PAGE / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package.json", "tsconfig.json"]):
        digest.update(name.encode() + b"\0" + (PAGE / name).read_bytes() + b"\0")
    assert digest.hexdigest() == written["sources"], "page/ has changed: cd page && npm ci && npm run build"
    assert written["built"] == {name: hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() for name in BUILT}


def test_building_again_gives_the_same_bytes(tmp_path):
    if not (shutil.which("node") and (PAGE / "node_modules/esbuild").exists()):
        pytest.skip("Node or the page's tools are not installed (cd page && npm ci)")
    subprocess.run(["node", PAGE / "build.mjs", tmp_path], check=True, capture_output=True)
    for name in (*BUILT, "build.json"):
        assert (tmp_path / name).read_bytes() == (ASSETS / name).read_bytes()


def test_no_address_of_the_network_is_in_the_page():
    text = "".join((ASSETS / name).read_text() for name in BUILT)
    assert {line for line in text.split('"') if "://" in line} <= {"http://www.w3.org/2000/svg"}
