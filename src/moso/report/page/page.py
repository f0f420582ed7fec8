"""report.html: one file that opens offline and lets a person look at what a run kept, what it dropped, and why.

The page is a program (`page/` in the repository, built into `assets/`) and the data it looks at: a small JSON part
and columns of bytes. Everything that comes from data (class names, ids, texts) reaches the document as text, never
as markup; the page forbids every request and every script but its own. The same run gives the same bytes, but for the
seconds that its computations took.
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

MAX_MEGABYTES = 25.0
_IN_A_FILE = "img-src blob:"
_SERVED = "img-src 'self'; connect-src 'self'"


def write_report(run: Run, max_mb: float = MAX_MEGABYTES) -> Path:
    """Write the page of a run, finished or not; returns its path. `max_mb` are millions of bytes.

    >>> import moso, tempfile, numpy as np
    >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
    >>> pruned = moso.prune((images, labels), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
    >>> write_report(pruned.run).name
    'report.html'
    """
    path = run.directory.root / "report.html"
    write_text(path, render(run, max_mb))
    return path


def render(run: Run, max_mb: float = MAX_MEGABYTES) -> str:
    """The page as text, all of it."""
    content = gather(run)
    room = int(max_mb * 1e6) - len(shell(content.about, "file").encode())
    if room < 0:
        raise errors.SettingInvalid(f"a page of {max_mb:g} MB has no room for any sample; give at least --max-mb 1")
    packed = pack(content, room)
    return shell({**content.about, **packed.about}, "file", packed.blocks)


def shell(about: dict[str, Any], mode: Mode, blocks: Iterable[tuple[str, Block]] = ()) -> str:
    """The document: the program, its style, what it knows, and in a file the data itself."""
    data = "\n".join(_element(html.escape(name), block) for name, block in blocks)
    # One pass, so that nothing that comes from data is looked at for marks.
    parts = {
        "policy": policy(mode),
        "title": html.escape(f"Pruning {about['name']}"),
        # Browsers ask a server for an icon whatever the page says; a file must not ask for anything.
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
    """What a browser may do for the page: run this script, use this style, and in a file ask nobody for anything."""
    return (
        f"default-src 'none'; script-src '{_hash(asset('page.js'))}'; style-src '{_hash(asset('page.css'))}'; "
        f"{_IN_A_FILE if mode == 'file' else _SERVED}; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """A file of the built page."""
    return (resources.files("moso.report.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in, whatever a class is called.

    >>> _json(["</script>"])
    '["\\\\u003c/script>"]'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
