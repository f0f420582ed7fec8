"""A server between a client and an S3 server that answers late, with errors, by halves, or not at all."""

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Headers of one connection, which the next one has of its own.
_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "date", "server"}
_FAULTS = ("500", "503", "lost", "cut", "late")


class FaultyProxy(ThreadingHTTPServer):
    """Passes requests on, most of them.

    Args:
        target: Host and port of the server behind.
        shares: Share of requests per fault: `500` and `503` are answered and not passed on; of `lost` ones the answer
            never comes although they were done, of `cut` ones half of the answer; `late` ones wait for a while.
        late: Seconds of a late answer.
    """

    daemon_threads = True

    def __init__(self, target: tuple[str, int], shares: Mapping[str, float], late: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.shares, self.late = target, shares, late
        self.met: Counter[str] = Counter()
        self._draw, self._turn = random.Random(0), threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault(self) -> str:
        """The fault of the next request, or an empty text."""
        with self._turn:
            number, found = self._draw.random(), ""
            for name in _FAULTS:
                number -= self.shares.get(name, 0.0)
                if number < 0:
                    found = name
                    break
            self.met[found or "answered"] += 1
            return found

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not wait for a late answer is part of the matter."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def do(self) -> None:
        body = self._body()
        fault = self.server.fault()
        if fault in ("500", "503"):
            self._answer(int(fault), {"Content-Type": "application/xml"}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if fault == "late":
            time.sleep(self.server.late)
        connection = http.client.HTTPConnection(*self.server.target, timeout=600)
        own = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
        connection.request(self.command, self.path, body, {**own, "Content-Length": str(len(body))})
        reply = connection.getresponse()
        found = reply.read()
        connection.close()
        if fault == "lost":
            self.close_connection = True
            return
        kept = {name: value for name, value in reply.getheaders() if name.lower() not in _OF_A_CONNECTION}
        length = reply.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(found))
        self._answer(reply.status, kept, found, length, half=fault == "cut")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815 - http.server's names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(
        self, status: int, headers: Mapping[str, str], body: bytes, length: str = "", half: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if half else body)
        if half:
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@contextmanager
def faulty(target: str, seconds: float = 0.5, **shares: float) -> Iterator[FaultyProxy]:
    """A proxy in front of the server at an address; shares of faults as `e500=0.1`, `late=0.05`."""
    host, _, port = target.removeprefix("http://").partition(":")
    named = {name.removeprefix("e"): share for name, share in shares.items()}
    with FaultyProxy((host, int(port)), named, seconds) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
