"""The documentation site builds without a warning, holds every page, and needs no network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import moso
from moso.cli.verbs import VERBS

pytest.importorskip("mkdocs", reason="the site needs the extra [docs]")
from website.hooks import pointed, settled
from website.notebooks import TUTORIALS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_verb_name_and_notebook_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs")
        if "readings" not in place.parts:
            built = place.with_name("index.html") if place.name == "README.md" else place.with_suffix(".html")
            assert (site / built).is_file()
    for verb in VERBS:
        assert "<table>" in (site / f"reference/commands/{verb}.html").read_text(encoding="utf-8")
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference/api").glob("*.html"))
    for name in moso.__all__:
        assert name == "__version__" or re.search(rf'id="moso\.[\w.]*{name}"', reference), name
    for name in TUTORIALS:
        assert (site / f"guide/{name}.ipynb").is_file()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?([^\s\">]+)", html)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)\"?[^>]*href=\"?([^\s\">]+)", html)
        assert [source for source in loaded if "//" in source] == [], page


def test_flags_of_a_verb_are_in_its_page(site: Path) -> None:
    page = (site / "reference/commands/run.html").read_text(encoding="utf-8")
    for flag in ("--dataset", "--ratio", "--tolerance", "--executor"):
        assert flag in page


def test_stars_take_the_pages_that_are_named_nowhere_else() -> None:
    nav = [{"Home": "index.md"}, {"How-to": ["data.md"]}, {"Reference": [{"Methods": ["methods.md", "methods/*"]}]}]
    pages = ["data.md", "index.md", "lost.md", "methods.md", "methods/aum.md", "methods/moso.md"]
    assert settled(nav, pages) == [
        {"Home": "index.md"},
        {"How-to": ["data.md", "lost.md"]},
        {"Reference": [{"Methods": ["methods.md", "methods/aum.md", "methods/moso.md"]}]},
    ]


@pytest.mark.parametrize(
    ("target", "place", "beside", "expected"),
    [
        ("docs/data.md", "index.md", True, "data.md"),
        ("CONTRIBUTING.md", "index.md", True, "contributing.md"),
        ("../README.md", "suspects.md", False, "index.md"),
        ("../../examples", "how-to/index.md", False, "../examples.md"),
        ("../results/cost.md", "guide/limits.md", False, "../results/cost.md"),
        ("https://example.org/a", "index.md", True, "https://example.org/a"),
    ],
)
def test_links_lead_to_the_pages_of_the_site(target: str, place: str, beside: bool, expected: str) -> None:
    assert pointed(target, place, beside) == expected


def test_search_works_from_the_folder_without_a_network(site: Path, browser) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.type(".md-search__input", "label noise", delay=30)
    page.wait_for_selector(".md-search-result__link", timeout=60_000)
    assert page.locator(".md-search-result__link").count() > 5
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    page.close()
