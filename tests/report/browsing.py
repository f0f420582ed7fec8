"""A page in a real browser that must not complain, and must not ask the network for anything."""

import time
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def opened(browser, address: str | Path, view: str = "", own: tuple[str, ...] = (), **context):
    """The page, loaded; afterwards no error, no dialog and no request beyond `own` addresses may have happened."""
    target = address.resolve().as_uri() if isinstance(address, Path) else address
    with browser.new_context(viewport={"width": 1366, "height": 850}, **context) as surroundings:
        page, complaints = surroundings.new_page(), []
        page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("requestfailed", lambda request: complaints.append(f"failed {request.url}"))
        allowed = (target.split("#")[0], "blob:", *own)
        page.on("request", lambda one: None if one.url.startswith(allowed) else complaints.append(f"asked {one.url}"))
        page.goto(f"{target}#{view}")
        page.wait_for_selector("body[data-ready]")
        yield page
        assert complaints == []


def count(page) -> int:
    """How many samples the grid says it shows."""
    return int(page.inner_text(".toolbar .count").split()[0].replace(",", ""))


def shown(page) -> list[str]:
    """The ids that pass the filters, in the order of the grid."""
    return page.evaluate("Array.from(moso.model.shown, (one) => moso.model.idOf(one))")


def choose(page, field: str, value: str) -> None:
    """Choose from one of the filters."""
    page.select_option(f'[data-field="{field}"]', value)
    settle(page)


def settle(page) -> None:
    """Wait for two frames: whatever was begun has been drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page, expression: str, seconds: float = 300) -> None:
    """Wait until something holds in the page. Playwright's own way evaluates text there, which the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"in vain: {expression}"
        time.sleep(0.05)


def set_ratio(page, per_cent: float) -> None:
    """Type a ratio."""
    page.fill(".exact input", str(per_cent))
    page.press(".exact input", "Enter")
    settle(page)
