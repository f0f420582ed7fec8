"""`moso explore`: the page over any number of samples, served to a browser on this machine.

Nothing is written and no path is ever taken from a request: samples are requested by position, columns by name. On the
loopback interface only requests whose Host header is a loopback name are answered, so that a foreign web site cannot
reach the server under its own name (DNS rebinding). On other interfaces the URL begins with a secret token.
"""

import hmac
import io
import ipaddress
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from moso import errors
from moso.errors import MosoError
from moso.report.page.content import Content, gather
from moso.report.page.page import policy, shell
from moso.report.page.thumbnails import TINY
from moso.results.reading import Run

LARGEST_PICTURE = 1024
# Size of the cache of encoded pictures.
_REMEMBERED = 4096
# Whole columns, and searches for neighbours, at the same time; others wait, because each takes memory of its own.
_COLUMNS_AT_ONCE, _SEARCHES_AT_ONCE = 4, 2
# Digits of a number, and questions of a query, beyond which a request is none of the page.
_DIGITS, _QUESTIONS = 16, 16
_ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="#1d5fd1"/></svg>'
)
Reply = tuple[str, bytes]


class Explorer(ThreadingHTTPServer):
    """An HTTP server for one run's page; `address` is the URL to open.

    Args:
        run: The run.
        host: Address to listen on.
        port: Port to listen on; 0 takes any free port.
        other: A second run over the same samples, to compare it with.

    Raises:
        PortUnavailable: The address or port cannot be used.

    Example:
        >>> Explorer.is_loopback("127.0.0.1"), Explorer.is_loopback("::1"), Explorer.is_loopback("0.0.0.0")
        (True, True, False)
    """

    daemon_threads = True
    # A second server must not silently share a port that is in use.
    allow_reuse_port = False

    def __init__(self, run: Run, host: str = "127.0.0.1", port: int = 0, other: Run | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as problem:
            raise errors.PortUnavailable(
                f"cannot listen on {host} port {port} ({problem}); give another --host or --port"
            ) from problem
        self.host, self.port = host, int(self.server_address[1])
        self.token = "" if self.is_loopback(host) else secrets.token_urlsafe(24)
        try:
            self.resources = Resources(gather(run, other))
        except BaseException:
            self.server_close()
            raise

    @property
    def address(self) -> str:
        """The URL of the page."""
        named = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        place = f"[{named}]" if ":" in named else named
        return f"http://{place}:{self.port}/{self.token + '/' if self.token else ''}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that the browser closed during a reply; report other errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @staticmethod
    def is_loopback(host: str) -> bool:
        """Return whether only this machine can reach an address."""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def admits(self, host: str) -> bool:
        """Return whether a request with this Host header may be answered."""
        try:
            name = urlsplit(f"//{host}")
            fits = name.port in (self.port, None)
        except ValueError:
            return False
        return bool(self.token) or (fits and self.is_loopback(name.hostname or ""))


class Resources:
    """The resources of the server by the first part of the path; positions are whole numbers, names are columns."""

    def __init__(self, content: Content) -> None:
        self.content = content
        columns = {name: column.described for name, column in content.columns.items()}
        self.page = shell({**content.about, "columns": columns, "left_out": []}, "served").encode()
        self.kinds: dict[str, Callable[[str, dict[str, str]], Reply]] = {
            "": lambda rest, asked: ("text/html; charset=utf-8", self.page),
            "icon.svg": lambda rest, asked: ("image/svg+xml", _ICON),
            "column": self.column,
            "picture": lambda rest, asked: self.picture(self.position(rest), number(asked, "pixels", 128)),
            "text": lambda rest, asked: ("text/plain; charset=utf-8", self.text(self.position(rest))),
            "row": lambda rest, asked: ("application/octet-stream", self.row(self.position(rest))),
            "nearest": self.nearest,
        }
        self.picture = lru_cache(_REMEMBERED)(self._picture)
        self._columns = threading.BoundedSemaphore(_COLUMNS_AT_ONCE)
        self._searches = threading.BoundedSemaphore(_SEARCHES_AT_ONCE)

    def find(self, path: str, asked: dict[str, str]) -> Reply | None:
        """Return the reply for a path below the page's URL; None if there is no such resource."""
        kind, _, rest = path.partition("/")
        if kind not in self.kinds or (kind == "" and rest):
            return None
        try:
            return self.kinds[kind](unquote(rest), asked)
        except LookupError:
            return None

    def position(self, text: str) -> int:
        """Parse a sample's position.

        Raises:
            LookupError: There is no such sample.
        """
        found = number({"position": text}, "position", -1)
        if not 0 <= found < self.content.samples:
            raise LookupError(text)
        return found

    def column(self, name: str, asked: dict[str, str]) -> Reply:
        """Return a column's bytes, or the values of one sample as float32."""
        column = self.content.columns[name]
        if "sample" in asked:
            return "application/octet-stream", column.at(self.position(asked["sample"])).astype("<f4").tobytes()
        with self._columns:
            return "application/octet-stream", column.content()

    def _picture(self, position: int, pixels: int) -> Reply:
        shown = self.content.shown
        picture = None if shown is None else shown.picture(position)
        if picture is None:
            raise LookupError(position)
        pixels = max(1, min(pixels, LARGEST_PICTURE))
        stream, lossless = io.BytesIO(), max(picture.size) <= TINY
        small = picture if picture.mode in ("L", "RGB") else picture.convert("RGB")
        small = small.copy()
        small.thumbnail((pixels, pixels))
        small.save(stream, "PNG" if lossless else "JPEG", **({} if lossless else {"quality": 88}))
        return "image/png" if lossless else "image/jpeg", stream.getvalue()

    def text(self, position: int) -> bytes:
        """Return a sample's text in UTF-8."""
        if self.content.shown is None:
            raise LookupError(position)
        return self.content.shown.text(position).encode("utf-8", "replace")

    def row(self, position: int) -> bytes:
        """Return a sample's first values as float32."""
        if self.content.shown is None or self.content.shown.samples is None:
            raise LookupError(position)
        return self.content.shown.rows(np.array([position])).astype("<f4").tobytes()

    def nearest(self, rest: str, asked: dict[str, str]) -> Reply:
        """Return the positions of the nearest samples as uint32, nearest first."""
        nearest = self.content.columns["features"].nearest
        assert nearest is not None
        with self._searches:
            found = nearest(self.position(rest), number(asked, "count", 64))
        return "application/octet-stream", found.astype("<u4").tobytes()


def number(asked: dict[str, str], name: str, default: int) -> int:
    """Parse a whole number from a query; the default if it is missing or malformed.

    Example:
        >>> number({"count": "12"}, "count", 64), number({"count": "-1"}, "count", 64)
        (12, 64)
    """
    text = asked.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else default


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD requests, and refuses those without the right host or token."""

    protocol_version = "HTTP/1.1"
    server_version = "moso"
    sys_version = ""
    timeout = 60
    # A reply is two writes: with Nagle's algorithm the second waits 40 ms for the client to acknowledge the first.
    disable_nagle_algorithm = True
    server: Explorer

    def do_GET(self) -> None:
        """Answer a request."""
        if not self.server.admits(self.headers.get("Host", "")):
            self._reply(HTTPStatus.FORBIDDEN, "text/plain", b"this address is not the one that moso explore printed\n")
            return
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            self._reply(HTTPStatus.FORBIDDEN, "text/plain", b"other sites may not ask for this\n")
            return
        try:
            parts = urlsplit(self.path)
            asked = {name: values[-1] for name, values in parse_qs(parts.query, max_num_fields=_QUESTIONS).items()}
        except ValueError:
            self._reply(HTTPStatus.BAD_REQUEST, "text/plain", b"this is no address\n")
            return
        path = self._below_token(parts.path)
        try:
            found = None if path is None else self.server.resources.find(path, asked)
        except (MosoError, OSError) as problem:  # the run or its data was removed, or cannot be read any more
            self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", f"{problem}\n".encode())
            return
        if found is None:
            self._reply(HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing here\n")
        else:
            self._reply(HTTPStatus.OK, *found)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _below_token(self, path: str) -> str | None:
        rest = path.removeprefix("/")
        if not self.server.token:
            return rest
        given, slash, rest = rest.partition("/")
        # Without the slash, the page's relative URLs would not begin with the token.
        return rest if slash and hmac.compare_digest(given.encode(), self.server.token.encode()) else None

    def _reply(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": f"{policy('served')}; frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
        """Suppress the log of requests."""
