"""Tables of text, printed or written as Markdown.

Not by tabulate: a dozen lines do not justify a dependency, and committed pages must keep their bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """A title, the names of the columns, rows of text (the first cell names the row), and a note.

    Example:
        >>> print(TextTable("colours", ["name", "share"], [["red", "0.5"]]).markdown())
        ### colours
        <BLANKLINE>
        | name | share |
        | --- | ---: |
        | red | 0.5 |
        <BLANKLINE>
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"### {self.title}", ""]
        if self.rows:
            lines.append(f"| {' | '.join(_cell(name) for name in self.columns)} |")
            lines.append(f"| --- |{' ---: |' * (len(self.columns) - 1)}")
            lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in self.rows]
            lines.append("")
        return "\n".join([*lines, self.note, ""] if self.note else lines)


def _cell(text: str) -> str:
    """Escape text so that it cannot end its cell."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
