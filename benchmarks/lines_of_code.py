"""How large is the package? Lines of code per room, without docstrings, comments and blank lines.

    python -m benchmarks.lines_of_code          # every room of src/moso and the sum
    python -m benchmarks.lines_of_code FOLDER   # the rooms of another folder

Beside the lines stand the names that a house should keep an eye on: how often ``Any`` is written (as a word of the
code, strings and comments left out), the functions above 60 lines or 8 parameters, the files above 400 lines.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

LONGEST_FUNCTION, MOST_PARAMETERS, LONGEST_FILE = 60, 8, 400
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(tree: ast.Module) -> set[int]:
    """List the lines of every docstring, and of strings that document the line above them."""
    found: set[int] = set()
    for node in ast.walk(tree):
        for statement in node.body if isinstance(node, DOCUMENTED) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                found.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return found


def code_lines(source: str) -> int:
    """Count the lines that hold code.

    Example:
        >>> code_lines('"About it."' + chr(10) + 'a = 1  # one' + chr(10) * 2 + '# two' + chr(10) + 'b = 2')
        2
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the parameters of a function, without ``self`` and ``cls``."""
    given = function.args
    named = [each.arg for each in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    return sum(name not in ("self", "cls") for name in named)


def large(path: Path, root: Path) -> list[str]:
    """Describe the file (all of its lines) and its functions (without docstrings) where they are above the limits."""
    source = path.read_text()
    here = str(path.relative_to(root))
    length = len(source.splitlines())
    found = [f"{here}: {length} lines"] if length > LONGEST_FILE else []
    tree = ast.parse(source)
    documented = docstring_lines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = len(set(range(node.lineno, (node.end_lineno or node.lineno) + 1)) - documented)
            count = parameters(node)
            if lines > LONGEST_FUNCTION or count > MOST_PARAMETERS:
                found.append(f"{here}:{node.lineno} {node.name}: {lines} lines, {count} parameters")
    return found


def words(source: str, word: str) -> int:
    """Count how often a name is written in the code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type == tokenize.NAME and token.string == word for token in tokens)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent.parent / "src" / "moso")
    root = parser.parse_args().folder
    lines: Counter[str] = Counter()
    anything: Counter[str] = Counter()
    files = sorted(root.rglob("*.py"))
    for path in files:
        room = path.relative_to(root).parts[0]
        source = path.read_text()
        lines[room] += code_lines(source)
        anything[room] += words(source, "Any")
    for room in sorted(lines):
        print(f"{room:20} {lines[room]:7,} lines {anything[room]:5} Any")
    print(f"{'in ' + str(len(files)) + ' files':20} {lines.total():7,} lines {anything.total():5} Any")
    for path in files:
        for what in large(path, root):
            print(what)


if __name__ == "__main__":
    main()
