"""Hooks of MkDocs: the navigation's stars, pages that are made while building, links out of `docs/`."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeAlias

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.api_pages import api_list, api_pages
from website.command_pages import command_pages, verb_list
from website.notebooks import TUTORIALS, as_notebook

ROOT = Path(__file__).parents[1]
# Pages that lie beside `docs/`, and where the site has them.
BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
    "CITATION.cff": "CITATION.cff",
    "src/moso/data/sources/demo_data/PROVENANCE.md": "reference/demo-data.md",
}
NavItem: TypeAlias = "str | dict[str, str | list[NavItem]]"
_LINK = re.compile(r"(\]\()([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made now, and settle the navigation."""
    made = {**command_pages(), **api_pages(), "examples.md": examples_page()}
    made |= {place: (ROOT / name).read_text("utf-8") for name, place in BESIDE.items() if (ROOT / name).is_file()}
    for name in TUTORIALS:
        made[f"guide/{name}.ipynb"] = as_notebook((ROOT / f"docs/guide/{name}.md").read_text("utf-8"))
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    excluded = {"results/readings/"}
    pages = [file.src_uri for file in files if file.is_documentation_page()]
    pages = sorted(page for page in pages if not any(page.startswith(folder) for folder in excluded))
    config.nav = settled(config.nav or [], pages)
    return files


def settled(nav: list[NavItem], pages: list[str]) -> list[NavItem]:
    """Return the navigation with every star replaced by pages, and pages that are named nowhere under "How-to"."""
    named = set(_named(nav))
    settled_nav = [_filled(item, pages, named) for item in nav]
    flat = [one for item in settled_nav for one in item]
    lost = [page for page in pages if page not in set(_named(flat))]
    for item in flat:
        if isinstance(item, dict) and isinstance(listed := item.get("How-to"), list):
            listed += lost
    return flat


def _named(items: list[NavItem]) -> Iterator[str]:
    for item in items:
        for value in [item] if isinstance(item, str) else item.values():
            if isinstance(value, str):
                yield value
            else:
                yield from _named(value)


def _filled(item: NavItem, pages: list[str], named: set[str]) -> list[NavItem]:
    if isinstance(item, str):
        if "*" not in item:
            return [item]
        return [page for page in pages if fnmatch(page, item) and page not in named]
    return [
        {title: value if isinstance(value, str) else [one for part in value for one in _filled(part, pages, named)]}
        for title, value in item.items()
    ]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is generated, and point links to files beside `docs/` at their pages."""
    place = page.file.src_uri
    markdown = markdown.replace("<!-- verbs -->", verb_list()).replace("<!-- names -->", api_list())
    if place.startswith("guide/") and Path(place).stem in TUTORIALS:
        markdown = with_download(markdown, Path(place).stem)
    beside = place in BESIDE.values()
    return _LINK.sub(lambda found: found[1] + pointed(found[2], place, beside), markdown)


def pointed(target: str, place: str, beside: bool) -> str:
    """Return where a link of the page at `place` leads on the site.

    Args:
        target: The link as written, relative to the file in the repository.
        place: The page's address on the site.
        beside: The page lies beside `docs/` in the repository.
    """
    if "://" in target or target.startswith("mailto:"):
        return target
    home = "" if beside else "docs"
    parts: list[str] = []
    for part in (Path(home) / ("" if beside else Path(place).parent) / target).as_posix().split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    path = "/".join(parts)
    if path == "LICENSE":
        return "https://www.apache.org/licenses/LICENSE-2.0"
    if path.split("/")[0] in ("examples", ".github"):
        wanted = "examples.md" if path.startswith("examples") else "contributing.md"
    elif path in BESIDE:
        wanted = BESIDE[path]
    elif path.startswith("docs/") and beside:
        wanted = path.removeprefix("docs/")
    else:
        return target
    return "../" * place.count("/") + wanted


def with_download(markdown: str, name: str) -> str:
    """Put the link to the notebook under the heading of a tutorial."""
    heading, _, rest = markdown.partition("\n")
    return f"{heading}\n\n[This page as a notebook]({name}.ipynb){{ .md-button download={name}.ipynb }}\n{rest}"


def examples_page() -> str:
    """Return a page with the programs of `examples/`."""
    parts = ["# Examples", "Programs that run as they are; the tests run every one of them."]
    for file in sorted((ROOT / "examples").glob("*.py")):
        parts += [f"## {file.name}", f"```python\n{file.read_text('utf-8')}```"]
    return "\n\n".join(parts) + "\n"
