"""`moso explore` without a browser: who is answered, and with what."""

import hmac
import http.client
import io
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from report_runs import Elements, run_to, texts, two_classes

from moso.errors import MosoError
from moso.report.page.page_columns import once
from moso.report.page.server import Explorer
from moso.results.originals import Originals


@contextmanager
def served(run, host="127.0.0.1", other=None):
    with Explorer(run, host, other=other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    given = {"Host": f"127.0.0.1:{server.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, headers=given)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply, body


@pytest.fixture(scope="module")
def server(finished):
    with served(finished) as one:
        yield one


def test_the_page_is_the_same_program_without_the_data(server):
    reply, body = ask(server, "/")
    assert reply.status == 200
    found = Elements(body.decode())
    assert found.about["mode"] == "served"
    assert list(found.blocks) == ["about"]
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "Python" not in reply.headers["Server"]


def test_columns_are_those_of_the_run(server, finished):
    table = finished.table()
    assert np.frombuffer(ask(server, "/column/score%2Fmoso")[1]).tobytes() == finished.scores()["moso"].tobytes()
    assert (np.frombuffer(ask(server, "/column/label")[1], dtype=np.uint8) == table["label"].to_numpy()).all()
    _, one = ask(server, "/column/steps?sample=17")
    _, all_of_them = ask(server, "/column/steps")
    steps = np.frombuffer(all_of_them, dtype="<f4").reshape(2, -1)
    assert np.frombuffer(one, dtype="<f4").tolist() == steps[:, 17].tolist()


def test_pictures_are_those_of_the_source(server, finished):
    reply, body = ask(server, "/picture/5?pixels=64")
    assert reply.headers["Content-Type"] == "image/png"
    original = Originals.open(finished.configuration).picture(finished.table()["id"][5].as_py())
    with Image.open(io.BytesIO(body)) as picture:
        assert (np.asarray(picture) == np.asarray(original)).all()


@pytest.mark.parametrize(
    "path",
    [
        "/picture/../../etc/passwd",
        "/picture/..%2F..%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/picture/1438",
        "/picture/-1",
        "/picture/1e3",
        "/picture/%C2%B2",
        "/picture/99999999999999999999999999",
        f"/picture/{'7' * 5000}",
        f"/column/steps?sample={'7' * 5000}",
        "/column/../run.toml",
        "/column/steps?sample=1438",
        "/column/nothing",
        "/nearest/0",
        "/run.toml",
        "/report.html",
        "/x/",
    ],
)
def test_nothing_but_the_samples_can_be_asked_for(server, path):
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize("path", ["http://[", "http://[::1", f"/?{'a&' * 500}{'a=1&' * 500}"])
def test_what_is_no_address_is_a_bad_request(server, path, capfd):
    assert ask(server, path)[0].status == 400
    assert "Traceback" not in capfd.readouterr().err


def test_only_reading_is_possible(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, "/", method)[0].status == 501
    reply, body = ask(server, "/", "HEAD")
    assert (reply.status, body) == (200, b"")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "",
        "127.0.0.1:1",
        "[",
        "[::1",
        "::::",
        "[::1]:x",
    ],
)
def test_another_name_for_this_machine_is_not_answered(server, host):
    """DNS rebinding: a stranger's site whose name leads here sends its own name as the host."""
    reply, body = ask(server, "/", Host=host.format(port=server.port))
    assert reply.status == 403
    assert b"moso-rank" not in body


def test_this_machine_by_its_own_names_is_answered(server):
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert ask(server, "/", Host=f"{host}:{server.port}")[0].status == 200


def test_other_sites_may_not_ask(server):
    assert ask(server, "/picture/0", Sec_Fetch_Site="cross-site")[0].status == 403
    assert ask(server, "/picture/0", Sec_Fetch_Site="same-origin")[0].status == 200


def test_bound_elsewhere_the_address_needs_its_token(finished):
    with served(finished, "0.0.0.0") as server:
        assert len(server.token) >= 32
        assert server.address.endswith(f":{server.port}/{server.token}/")
        assert ask(server, f"/{server.token}/", Host="box.example")[0].status == 200
        assert ask(server, f"/{server.token}/column/label")[0].status == 200
        for path in ("/", "/column/label", f"/{server.token}", f"/{server.token[:-1]}/", f"/{'x' * 32}/", "/%C3%A9/"):
            assert ask(server, path)[0].status == 404
    with served(finished, "0.0.0.0") as other:
        assert other.token != server.token


def test_a_port_that_is_taken_is_one_sentence(server, finished):
    with pytest.raises(MosoError, match=r"cannot listen on 127\.0\.0\.1 port .* give another --host or --port"):
        Explorer(finished, "127.0.0.1", server.port)


def test_texts_and_rows_come_one_by_one(tmp_path):
    run = run_to(tmp_path / "run", "scored", methods=["moso"], seeds=1, **texts(tmp_path))
    with served(run) as server:
        number = run.table()["id"][3].as_py()
        assert ask(server, "/text/3")[1].decode() == f"sentence {number} about {'cats' if number % 2 else 'dogs'}"
    table = run_to(tmp_path / "table", "scored", methods=["moso"], seeds=1, **two_classes(tmp_path))
    with served(table) as server:
        values = pq.read_table(tmp_path / "table.parquet").to_pylist()[table.table()["id"][5].as_py()]
        row = np.frombuffer(ask(server, "/row/5")[1], dtype="<f4")
        assert row.tolist() == [values[f"x{number}"] for number in range(5)]


def test_a_run_without_scores_has_a_page_too(tmp_path):
    with served(run_to(tmp_path / "run", "begun")) as server:
        _, body = ask(server, "/")
        assert Elements(body.decode()).about["samples"] == 0
        assert ask(server, "/picture/0")[0].status == 404


ROUTES = (
    "",
    "icon.svg",
    "column/label",
    "column/score%2Fmoso",
    "column/steps?sample=3",
    "picture/0",
    "text/0",
    "row/0",
)


def test_every_route_wants_the_token_and_nothing_but_it(finished, monkeypatch):
    compared = []

    def digest(given, own):
        compared.append((given, own))
        return hmac.compare_digest(given, own)

    monkeypatch.setattr("moso.report.page.server.hmac", SimpleNamespace(compare_digest=digest))
    with served(finished, "0.0.0.0") as server:
        token = server.token
        assert {route.partition("/")[0] for route in ROUTES} | {"nearest"} == set(server.resources.kinds)
        other = token[:-1] + ("a" if token[-1] != "a" else "b")
        wrong = (other, token[:-1], f"{token}x", token.swapcase(), f"{token}%00", f"%20{token}", "", "x")
        nothing = ask(server, f"/{other}/nowhere")[1]
        for route in (*ROUTES, "nearest/0"):
            for given in wrong:
                for method in ("GET", "HEAD"):
                    reply, body = ask(server, f"/{given}/{route}", method)
                    assert (reply.status, body) == (404, nothing if method == "GET" else b""), (given, route)
                    assert reply.headers["Referrer-Policy"] == "no-referrer"
            # Not as a question, and not in a header either: both would be sent on and written into logs.
            assert ask(server, f"/{route}{'&' if '?' in route else '?'}token={token}")[0].status == 404
            assert ask(server, f"/{route}", Authorization=f"Bearer {token}")[0].status == 404
        assert {own for _, own in compared} == {token.encode()}  # every token that was given, in constant time
        assert {given for given, _ in compared} >= {one.encode() for one in wrong if one}
        for route in ROUTES:
            assert ask(server, f"/{token}/{route}")[0].status == 200, route


def test_the_token_goes_to_no_other_site(finished):
    with served(finished, "0.0.0.0") as server:
        reply, body = ask(server, f"/{server.token}/")
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in reply.headers
        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
        assert reply.headers["Cache-Control"] == "no-store"
        assert server.token.encode() not in body  # its addresses are relative
        assert ask(server, f"/{server.token}/picture/0", Sec_Fetch_Site="cross-site")[0].status == 403


@pytest.mark.parametrize("route", [*ROUTES, "nearest/0"])
def test_every_route_looks_at_the_host(server, route):
    reply, body = ask(server, f"/{route}", Host=f"evil.example:{server.port}")
    assert reply.status == 403
    assert b"moso explore printed" in body


def test_a_source_that_is_gone_is_an_answer_and_no_traceback(tmp_path, capfd):
    run = run_to(tmp_path / "run", "scored", methods=["moso"], seeds=1, **two_classes(tmp_path))
    with served(run) as server:
        (tmp_path / "table.parquet").unlink()
        server.resources.content.shown.samples = None
        for route in ROUTES:
            assert ask(server, f"/{route}")[0].status in (200, 404)

        def fails(*_):
            raise OSError(5, "Input/output error")

        server.resources.kinds["row"] = fails
        reply, body = ask(server, "/row/0")
        assert reply.status == 500
        assert b"Input/output error" in body
    assert "Traceback" not in capfd.readouterr().err


def test_many_who_ask_at_once_compute_a_column_once(finished):
    """Fifty clients that open the page at the same moment."""
    with served(finished) as server:
        column, calls = server.resources.content.columns["steps"], []
        slow = once(lambda: (calls.append(1), time.sleep(0.3), column.read())[-1])
        server.resources.content.columns["steps"] = replace(column, read=slow)
        expected, found = column.content(), []
        threads = [threading.Thread(target=lambda: found.append(ask(server, "/column/steps")[1])) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert calls == [1]
    assert found == [expected] * 50
