"""Wrap the long lines of Markdown pages: paragraphs and items that have one; code, tables and headings stay.

python -m website.wrap docs/compare.md docs/view.md
"""

import re
import sys
from pathlib import Path

from website.prose import WIDTH

_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
# A word with the spaces inside its code spans and links, so that neither is broken.
_TOKEN = re.compile(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+")


def wrapped(page: str) -> str:
    """Return a page whose prose fits the width.

    Example:
        >>> [len(line) for line in wrapped("- " + "word " * 30 + "\\n\\n    code").split("\\n")]
        [116, 36, 0, 8]
    """
    lines: list[str] = []
    paragraph: list[str] = []
    fenced = False
    for line in page.split("\n"):
        fence = line.lstrip().startswith("```")
        kept = fence or fenced or not line.strip() or line.startswith(("|", "#", "<", "!["))
        if kept or (line.startswith("    ") and not paragraph):
            lines += [*_fitted(paragraph), line]
            paragraph = []
            fenced = fenced != fence
        elif _ITEM.match(line):
            lines += _fitted(paragraph)
            paragraph = [line]
        else:
            paragraph.append(line)
    return "\n".join([*lines, *_fitted(paragraph)])


def _fitted(paragraph: list[str]) -> list[str]:
    """Return the lines of a paragraph or item, filled anew if one of them is too long."""
    if all(len(line) <= WIDTH for line in paragraph):
        return paragraph
    item = _ITEM.match(paragraph[0])
    lead = item[0] if item else re.match(r"\s*", paragraph[0])[0]  # type: ignore[index]
    rest = " ".join([paragraph[0][len(lead) :], *(line.strip() for line in paragraph[1:])])
    first, *others = _TOKEN.findall(rest)
    lines = [lead + first]
    for token in others:
        # A line may not begin like an item: it would become one.
        if len(lines[-1]) + 1 + len(token) > WIDTH and not _ITEM.match(f"{token} "):
            lines.append(" " * len(lead) + token)
        else:
            lines[-1] += f" {token}"
    return lines


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        before = file.read_text(encoding="utf-8")
        if (after := wrapped(before)) != before:
            file.write_text(after, encoding="utf-8")
            print(name)
