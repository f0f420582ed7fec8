"""Lint for prose: spelling (codespell), length of lines, and our own worst habits.

    python -m website.prose

Spelling is checked on every page, line length and habits on the pages that people write (`CHECKED`); pages of results
and benchmarks are written by programs. Tables, links and blocks of code may have long lines.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = (
    "*.md",
    "docs/*.md",
    "docs/guide/*.md",
    "docs/how-to/*.md",
    "docs/reference/*.md",
    "docs/methods/*.md",
    "docs/results/readings/*.md",
    ".github/**/*.md",
)
WIDTH = 120
# Words that codespell takes for misspelt ones.
KNOWN = (
    "TracIn",
    "fo",
    "ans",
    "nd",
    "te",
    "ba",
    "ist",
    "mape",
    "assertin",
    "socio-economic",
    "hist",
    "thw",
    "ND",
    "Nd",
    "crate",
)
# A habit, and what to write in its place (the table of words in the style guide).
HABITS = (
    (
        r"\b(?:epochs?|scalars?|numbers?|loss(?:es)?|rows?|labels?|lines?|files?|scores?|floats?|columns?|updates?) "
        r"an? (?:sample|step|class|seed|row|partition|time step|method|shard|layer|epoch|batch|score)\b",
        'write "per": two numbers per sample, not "two numbers a sample"',
    ),
    (r"\bwhat is no\b", "name the thing that is missing"),
    (r"\b(?:whoever|nobody) is at work\b", 'write "idle"'),
    (r"\bheard of \d", 'write "last heartbeat 1 s ago"'),
    (r"\bhas paid for itself after\b", 'write "costs as much as N retrainings save"'),
    (r"\bof its own accord\b", 'write "automatically"'),
    (r"\b(?:very|really|simply|just|easily) (?:easy|simple|fast|powerful)\b", "leave the praise out, give a number"),
    (r"\bthe (?:former|latter)\b", "repeat the noun"),
)
_FENCE = re.compile(r"^\s*```")


def pages() -> list[Path]:
    """Return the pages whose lines and habits are checked."""
    found = {page for pattern in CHECKED for page in ROOT.glob(pattern)}
    return sorted(found)


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the numbered lines of a page that are prose: no code, no tables.

    Example:
        >>> list(prose_lines("One.\\n\\n    code\\n| a | b |\\n```\\nx\\n```\\nTwo."))
        [(1, 'One.'), (2, ''), (8, 'Two.')]
    """
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "|", "<")):
            yield number, line


def faults(text: str) -> list[tuple[int, str]]:
    """Return what is wrong with the lines of a page: line number and sentence.

    Example:
        >>> faults("It takes two epochs a sample.")
        [(1, 'write "per": two numbers per sample, not "two numbers a sample" (found: epochs a sample)')]
    """
    found = []
    for number, line in prose_lines(text):
        bare = re.sub(r"\]\([^)]*\)|https?://\S+", "]", line)  # links may be long
        if len(bare) > WIDTH:
            found.append((number, f"{len(bare)} characters; wrap at {WIDTH}"))
        plain = re.sub(r"`[^`]*`", "", line)
        for pattern, advice in HABITS:
            if seen := re.search(pattern, plain, flags=re.IGNORECASE):
                found.append((number, f"{advice} (found: {seen[0]})"))
    return found


def misspelt() -> str:
    """Return what codespell finds on all pages."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", ",".join(KNOWN), *map(str, sorted(files))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return (done.stdout + done.stderr).replace(f"{ROOT}/", "")


def main() -> int:
    """Print what is wrong, and return 1 if anything is."""
    lines = [
        f"{page.relative_to(ROOT)}:{number}: {sentence}"
        for page in pages()
        for number, sentence in faults(page.read_text(encoding="utf-8"))
    ]
    said = "\n".join([*lines, *misspelt().splitlines()])
    print(said or f"prose: {len(pages())} pages")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
