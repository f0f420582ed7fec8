"""Commands: flags, settings in TOML, damaged runs and requests of browsers, whatever they are."""

import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest
import tomli_w
from fuzz_inputs import NUMBERS, TEXTS, VALUES, as_flag, damaged
from fuzz_limits import command, fuzzed
from hypothesis import given
from hypothesis import strategies as st

from moso.cli.main import main
from moso.cli.options.configuration_flags import RunSettings
from moso.configuration import Configuration
from moso.report.page.server import Explorer
from moso.results import Run

SMALL = [
    *("--model", "mlp-w8", "--epochs", "1", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--workers", "1", "--quiet"),
]
# Flags that fetch from a network, or write where they say.
LEFT_OUT = {"pretrained", "embed"}
FLAGS = sorted({f"--{one.name.replace('_', '-')}" for one in RunSettings.flags() if one.name not in LEFT_OUT})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("fuzzed") / "run"
    with pytest.raises(SystemExit):
        main(["run", *SMALL, "--out", str(out)])
    return out


@fuzzed
@given(st.lists(st.tuples(st.sampled_from(FLAGS), NUMBERS | TEXTS), min_size=1, max_size=2))
def test_flags(capsys, flags):
    given = [part for flag, value in flags for part in (flag, as_flag(value))]
    command(capsys, "run", *SMALL, "--dry-run", *given)


@fuzzed
@given(st.dictionaries(st.sampled_from([*Configuration.model_fields, "epochs", "out", "nothing"]), VALUES, max_size=3))
def test_settings_in_a_file(capsys, values):
    file = Path(tempfile.mkdtemp(prefix="moso-fuzz-")) / "run.toml"
    values = {name: value for name, value in values.items() if name not in LEFT_OUT}
    try:
        text = tomli_w.dumps(values)
    except (TypeError, ValueError):
        return  # not TOML
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    command(capsys, "run", file, "--dry-run", "--quiet", "--model", "mlp-w8")


@fuzzed
@given(st.binary(max_size=200))
def test_files_that_are_no_settings(capsys, content):
    file = Path(tempfile.mkdtemp(prefix="moso-fuzz-")) / "run.toml"
    file.write_bytes(content)
    command(capsys, "run", file, "--dry-run", "--quiet", "--model", "mlp-w8")


VERBS = st.sampled_from(
    [
        ["status"],
        ["verify"],
        ["verify", "--repair"],
        ["select", "--quiet"],
        ["report"],
        ["export", "--out", "kept.csv", "--overwrite"],
    ]
)


@fuzzed
@given(st.data(), VERBS)
def test_damaged_runs(capsys, finished, monkeypatch, data, verb):
    root = Path(tempfile.mkdtemp(prefix="moso-fuzz-"))
    monkeypatch.chdir(root)
    shutil.copytree(finished, root / "run")
    files = sorted(path for path in (root / "run").rglob("*") if path.is_file() and path.suffix != ".html")
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(files))
        path.write_bytes(data.draw(damaged(path.read_bytes())))
    command(capsys, verb[0], "run", *verb[1:])
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def server(finished):
    with Explorer(Run.open(finished)) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


PATHS = st.builds(
    lambda kind, rest, query: f"/{kind}/{rest}?{query}",
    st.sampled_from(["", "picture", "column", "text", "row", "nearest", "x", "..", "http://["]),
    NUMBERS.map(str) | TEXTS,
    st.sampled_from(
        ["", "sample=0", "pixels=9999999999", "count=-1", "sample=" + "7" * 4400, "a&b&c", "%ff", "[" * 20]
    ),
)


@fuzzed
@given(PATHS, TEXTS | st.sampled_from(["127.0.0.1", "[", "[::1]:x", "localhost:99999"]), st.binary(max_size=20))
def test_requests(capfd, server, path, host, tail):
    head = f"GET {as_flag(path).replace(' ', '')} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as browser:
        browser.sendall(head.encode("utf-8", "replace") + tail)
        browser.shutdown(socket.SHUT_WR)
        reply = b""
        while part := browser.recv(65536):
            reply += part
    assert not reply or reply.startswith((b"HTTP/", b"<!DOCTYPE"))
    assert b" 500 " not in reply[:40]
    assert "Traceback" not in capfd.readouterr().err
