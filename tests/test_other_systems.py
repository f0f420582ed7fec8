"""moso imports and works where Linux's own functions do not exist, as on macOS and Windows.

What those systems lack is hidden from a fresh process and from the workers that it starts. This is no proof that moso
runs on them (other packages still see Linux), but that moso itself asks for nothing that they do not have.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# `sitecustomize` is imported by every Python that starts, before anything else.
HIDING = """
import os
import signal
import sys
from importlib.abc import MetaPathFinder

MODULES = {"fcntl", "grp", "pwd", "resource", "syslog", "termios", "tty"}
IN_OS = ["O_DIRECTORY", "O_NOFOLLOW", "chown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg",
         "getpgid", "getuid", "killpg", "mkfifo", "process_cpu_count", "pread", "pwrite",
         "sched_getaffinity", "sched_setaffinity", "statvfs"]
IN_SIGNAL = ["SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm", "pthread_kill",
             "pthread_sigmask", "setitimer", "sigwait"]


class Hiding(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} (hidden)", name=name)


sys.meta_path.insert(0, Hiding())
for name in MODULES:
    sys.modules.pop(name, None)
for module, names in ((os, IN_OS), (signal, IN_SIGNAL)):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
TINY = [
    *("--model", "mlp-w8", "--recipe", "quick", "--partitions", "2", "--time-steps", "2", "--seeds", "1"),
    *("--ratio", "0.5", "--method", "moso", "--quiet"),
]


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The surroundings of a process from which those functions are hidden."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text(HIDING)
    path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def done(command: list[str], surroundings: dict[str, str], folder: Path) -> str:
    found = subprocess.run(
        [sys.executable, *command], env=surroundings, cwd=folder, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_module_imports(hidden: dict[str, str], tmp_path: Path) -> None:
    program = """
    import os, signal, sys
    assert not hasattr(signal, "SIGUSR1") and not hasattr(os, "sched_getaffinity")
    import importlib, pkgutil
    import moso, moso.cli.main
    assert "fcntl" not in sys.modules
    names = [one.name for one in pkgutil.walk_packages(moso.__path__, "moso.") if one.name != "moso.__main__"]
    # An integration imports its framework, which sees that this is Linux and asks for what is hidden.
    names = [name for name in names if not name.startswith("moso.integrations.")]
    for name in names:
        importlib.import_module(name)
    print(len(names))
    """
    assert int(done(["-c", textwrap.dedent(program)], hidden, tmp_path)) > 100


def test_the_library_selects_and_a_lease_is_held_lost_and_refused(hidden: dict[str, str], tmp_path: Path) -> None:
    program = """
    import time
    from dataclasses import replace
    from pathlib import Path
    import moso
    from moso.cli.options.executor_options import usable_cores
    from moso.errors import MosoError
    from moso.storage.lease import held, read_holder
    from moso.storage.lease_backend import FileLease

    print(moso.select([0.3, -0.1, 0.8], ratio=0.34, selector="top").tolist(), usable_cores() >= 1)
    path = Path("here") / ".lock"
    path.parent.mkdir()
    with held(path, renew=0.05) as mine:
        # Of this machine or not: both are refused.
        try:
            with held(path):
                print("taken twice")
        except MosoError as problem:
            print(problem)
    print(read_holder(path))
    try:
        with held(path, renew=0.05) as mine:
            FileLease(path).renew(replace(mine, owner="another", host="far"))
            for _ in range(1000):
                time.sleep(0.01)
            print("nobody stopped it")
    except MosoError as problem:
        print(problem)
    """
    chosen, refused, left, lost = done(["-c", textwrap.dedent(program)], hidden, tmp_path).splitlines()
    assert chosen == "[0, 2] True"
    assert refused.startswith("another moso is working in here")
    assert left == "None"
    assert lost.startswith("here was taken over by a moso on far")


def test_a_run_of_two_workers_and_its_list_of_methods(hidden: dict[str, str], tmp_path: Path) -> None:
    assert "moso-rank" in done(["-m", "moso", "methods"], hidden, tmp_path)
    done(["-m", "moso", "run", *TINY, "--workers", "2", "--out", "run"], hidden, tmp_path)
    assert (tmp_path / "run/report.html").stat().st_size > 10_000
    assert not (tmp_path / "run/.lock").exists()
    # The same bytes as with all of Linux's functions.
    done(["-m", "moso", "run", *TINY, "--workers", "1", "--out", "beside"], dict(os.environ), tmp_path)
    assert (tmp_path / "run/scores.parquet").read_bytes() == (tmp_path / "beside/scores.parquet").read_bytes()
