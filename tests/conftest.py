"""What tests of all rooms share: the real data beside the checkout, where it is there, and small made-up problems."""

import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
import torch

from moso.cli.main import main
from moso.configuration import Configuration
from moso.data.samples import StoredSamples
from moso.run import Job

# Some virtual machines announce matrix tiles and die of them: bfloat16 goes without, float32 is untouched. oneDNN looks
# at its first use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.hookimpl(tryfirst=True)  # before the fixtures, of which some train
def pytest_runtest_setup():
    """Tests run beside others on small machines, threads change bits, and a benchmark's `main` sets its own number."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with CIFAR-100, CIFAR-100N and Tiny-ImageNet; tests that need it skip where it is not."""
    root = Path(os.environ.get("MOSO_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not root.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return root


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """Debian's Chromium, or the one that $MOSO_CHROMIUM names; tests that need it skip where there is none."""
    names = (os.environ.get("MOSO_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if name and (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright comes with the extra [test]")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def small_run(tmp_path):
    """A function that makes a job on digits small enough to run to the end in a second or two."""

    def make(name: str = "run", **settings) -> Job:
        given = {
            **{"model": "mlp-w8", "epochs": 2, "partitions": 2, "time_steps": 3, "seeds": 1, "ratios": [0.5]},
            **{"methods": ["moso", "moso-standardised", "moso-rank"], "view": "evaluation"},
        }
        configuration = Configuration.resolve({**given, **settings})
        return Job.open(tmp_path / name, configuration)

    return make


@pytest.fixture
def left(capsys, tmp_path, monkeypatch):
    """Run a command in a folder of its own; returns its exit code, what it printed and what it complained of."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


@pytest.fixture
def done(left):
    """Run a command that must end well; returns what it printed."""

    def run(*arguments: str) -> str:
        code, printed, complaint = left(*arguments)
        assert code == 0, complaint
        return printed

    return run


@pytest.fixture
def refused(left):
    """Run a command that must be refused; returns what it said."""

    def run(*arguments: str) -> str:
        code, _, complaint = left(*arguments)
        assert code == 2
        assert "Traceback" not in complaint
        return complaint

    return run


@pytest.fixture(scope="session")
def s3_server():
    """A real S3 server on this machine, which this process and those it starts find where they look for S3."""
    server_of = pytest.importorskip("moto.server")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "moso")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "moso")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("NO_PROXY", host)
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server) -> str:
    """The address of a new bucket on it."""
    name = f"bucket-{uuid4().hex[:12]}"
    request = urllib.request.Request(f"{s3_server}/{name}", method="PUT")
    urllib.request.urlopen(request).close()
    return f"s3://{name}"


@pytest.fixture(params=["memory", "file", "s3"])
def address(request, tmp_path) -> str:
    """An empty place of each kind."""
    if request.param == "s3":
        return request.getfixturevalue("bucket") + "/run"
    return f"{request.param}://{tmp_path / 'there'}"


@pytest.fixture
def near(tmp_path):
    """An address on this disk."""
    return f"file://{tmp_path / 'there'}"


def stored(count: int = 60, classes: int = 3, seed: int = 0, ids=None) -> StoredSamples:
    """Random 8 x 8 images with labels in turn."""
    images = np.random.default_rng(seed).integers(0, 255, (count, 1, 8, 8)).astype(np.uint8)
    return StoredSamples.from_arrays(images, np.arange(count) % classes, ids=ids)
