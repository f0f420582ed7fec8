"""report.html: a single file that works offline and shows what a run kept, what it dropped, and why.

The page is a program (`page/` in the repository, built into `assets/`) with its data: a small JSON part and binary
columns. Everything that comes from data (class names, ids, texts) reaches the document as text, never as markup; the
page's Content-Security-Policy forbids all requests and all scripts but its own. The same run gives the same bytes,
except for the measured seconds.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from moso import errors
from moso.files import write_text
from moso.report.page.content import Mode, gather
from moso.report.page.packing import pack
from moso.report.page.page_columns import Block
from moso.results.reading import Run

# The file of the page in a run's directory.
PAGE = "report.html"
MAX_MEGABYTES = 25.0
_IN_A_FILE = "img-src blob:"
_SERVED = "img-src 'self'; connect-src 'self'"


def write_report(run: Run, max_mb: float = MAX_MEGABYTES, other: Run | None = None) -> Path:
    """Write the page of a run, finished or not, to `report.html` in its directory.

    Args:
        run: The run.
        max_mb: Largest size of the file, in millions of bytes.
        other: A second run over the same samples. The page then compares both and is written to
            `report-against-NAME.html`.

    Returns:
        The path of the page.

    Raises:
        MosoError: ``setting-invalid`` if `max_mb` is too small for a page; ``runs-incomparable``.

    Example:
        >>> import moso, tempfile, numpy as np
        >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
        >>> pruned = moso.prune((images, labels), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
        >>> write_report(pruned.run).name
        'report.html'
    """
    path = run.directory.root / (PAGE if other is None else f"report-against-{other.directory.root.name}.html")
    write_text(path, render(run, max_mb, other))
    return path


def render(run: Run, max_mb: float = MAX_MEGABYTES, other: Run | None = None) -> str:
    """Return the page as text, with a second run beside it if one is given.

    Raises:
        SettingInvalid: `max_mb` (in millions of bytes) is too small for a page.
    """
    content = gather(run, other)
    room = int(max_mb * 1e6) - len(shell(content.about, "file").encode())
    if room < 0:
        raise errors.SettingInvalid(f"a page of {max_mb:g} MB has no room for any sample; give at least --max-mb 1")
    packed = pack(content, room)
    return shell({**content.about, **packed.about}, "file", packed.blocks)


def shell(about: dict[str, Any], mode: Mode, blocks: Iterable[tuple[str, Block]] = ()) -> str:
    """Return the HTML document: program, style, JSON part, and in a file the data blocks.

    Args:
        about: The JSON part.
        mode: ``"file"`` or ``"served"``.
        blocks: Names and blocks of the data; none for a served page, which requests its data.
    """
    data = "\n".join(_element(html.escape(name), block) for name, block in blocks)
    # A single pass over the template, so that placeholders inside the data are never expanded.
    parts = {
        "policy": policy(mode),
        "title": html.escape(f"Pruning {about['name']}"),
        # Browsers request an icon from a server in any case; a file must not request anything.
        "icon": '<link rel="icon" href="icon.svg">' if mode == "served" else "",
        "headline": html.escape(about["headline"]),
        "style": asset("page.css"),
        "about": _json({**about, "mode": mode}),
        "data": data,
        "script": asset("page.js"),
    }
    pieces = asset("page.html").split("%%")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _element(name: str, block: Block) -> str:
    return f'<script type="text/plain" id="{name}" data-deflated="{int(block.deflated)}">{block.text}</script>'


@cache
def policy(mode: Mode) -> str:
    """Return the Content-Security-Policy: only this script and style; in a file no requests at all."""
    return (
        f"default-src 'none'; script-src '{_hash(asset('page.js'))}'; style-src '{_hash(asset('page.css'))}'; "
        f"{_IN_A_FILE if mode == 'file' else _SERVED}; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """Return the text of a file of the built page."""
    return (resources.files("moso.report.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(value: Any) -> str:
    """Encode a value as JSON that is safe inside a script element, whatever a class is called.

    >>> _json(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
