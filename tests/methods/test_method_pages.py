"""Every method has a page with the same headings, the settings of the code, and numbers of our own tables."""

import re
from pathlib import Path

import pytest

from moso.methods import FAMILIES, METHODS, find_method

DOCS = Path(__file__).parents[2] / "docs"
HEADINGS = [
    "What it believes",
    "Formula",
    "Source",
    "Settings",
    "Cost and growth",
    "When to use it",
    "In our tables",
]
NAMES = list(METHODS.built_in())


def sections(name):
    """The sections of a page by heading, in their order."""
    found = re.split(r"^## (.+)$", (DOCS / "methods" / f"{name}.md").read_text(), flags=re.MULTILINE)
    return {heading: text.strip() for heading, text in zip(found[1::2], found[2::2], strict=True)}


def settings_text(name):
    """The table of settings as a page has it: the score's, then the selector's with the method's values."""
    method, rows = find_method(name), []
    for owner, fixed in ((method.find_score(), {}), (method.find_selector(), method.settings)):
        for option in [] if owner is None else owner.options():
            allowed = f" ({option.allowed})" if option.allowed else ""
            value = fixed.get(option.name, option.default)
            rows.append(f"| `{owner.name}.{option.name}` | {value} | {option.text}{allowed} |")
    return "\n".join(["| setting | here | meaning |", "| --- | --- | --- |", *rows]) if rows else "None of its own."


@pytest.mark.parametrize("name", NAMES)
def test_every_method_has_a_page_with_these_headings(name):
    assert list(sections(name))[: len(HEADINGS)] == HEADINGS
    assert all(sections(name)[heading] for heading in HEADINGS)


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_page_are_those_of_the_code(name):
    assert sections(name)["Settings"].startswith(settings_text(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_the_cost_and_the_use_that_the_code_declares(name):
    method, found = find_method(name), sections(name)

    def plain(text):
        return " ".join(text.split()).lower()

    assert plain(found["Cost and growth"]).startswith(method.traits().cost.lower())
    assert plain(found["When to use it"]).startswith(method.when.lower())


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_a_page_are_in_the_tables_that_it_names(name):
    rows = re.findall(
        r"^\| \[[^\]]+\]\(\.\./([^)#]+)[^|]*\| ([^|]+) \| [^|]+ \| ([^|]+) \|",
        sections(name)["In our tables"],
        re.MULTILINE,
    )
    for file, row, value in rows:
        lines = [line for line in (DOCS / file).read_text().splitlines() if row.split(" (")[0] in line]
        assert any(re.sub(r" \(\d+\)$", "", value) in line for line in lines), f"{value} of {row} is not in {file}"


def test_no_page_is_of_a_method_that_there_is_not():
    assert {path.stem for path in (DOCS / "methods").glob("*.md")} == set(NAMES)


def test_the_overview_links_every_page_under_its_family():
    text = (DOCS / "methods.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    by_family = {heading.lower(): part for heading, part in zip(parts[1::2], parts[2::2], strict=True)}
    for name in NAMES:
        assert f"](methods/{name}.md)" in by_family[find_method(name).group()], name
    assert [heading for heading in by_family if heading in FAMILIES] == list(FAMILIES)
