"""Commands in processes that are killed on purpose: `kill -9` at a moment, or before the n-th change of a file.

A server imports all once and forks a process per command, so that a hundred kills are not a hundred imports. A forked
process counts what it changes below a folder (files opened for writing, renamed, removed; folders made and removed) and
may be told to kill itself before one of these changes: no moment between two changes leaves other files behind, so
those are all moments there are.
"""

import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (-9 if it was killed), and the changes of files that it had made."""

    code: int
    changes: int


class CommandServer:
    """Runs commands of moso in forked processes; use it as a context manager.

    Args:
        setup: Code that a process runs before its command.
    """

    def __init__(self, setup: str = "") -> None:
        self.setup = setup

    def __enter__(self) -> "CommandServer":
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._said() == {"ready": True}
        return self

    def __exit__(self, *problem: object) -> None:
        self._process.communicate()  # it ends with its input
        assert self._process.returncode == 0

    def _said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def run(
        self, folder: Path, *arguments: str, at: int | None = None, after: Callable[[int], object] | None = None
    ) -> Ended:
        """Run a command to its end.

        Args:
            folder: Its working directory, below which changes are counted.
            arguments: The command without `moso`.
            at: The change before which it is killed; None lets it live.
            after: Called with its process id while it runs.
        """
        assert self._process.stdin is not None
        asked = {"folder": str(folder), "arguments": arguments, "at": at, "setup": self.setup}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        begun = self._said()
        if after is not None:
            after(begun["pid"])
        return Ended(**self._said())

    def kill_after(self, folder: Path, seconds: float, *arguments: str, signs: Callable[[], object]) -> Ended:
        """Run a command and kill it some seconds after its first sign of work, which is a change of `signs()`."""
        before = signs()

        def kill(process: int) -> None:
            deadline = time.monotonic() + 600
            while signs() == before and _runs(process) and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(seconds)
            if _runs(process):  # the server has not waited for it, so the number is still this process's
                os.kill(process, signal.SIGKILL)

        return self.run(folder, *arguments, after=kill)


def killed_until_done(server: CommandServer, folder: Path, draw: random.Random, kills: int, *arguments: str) -> int:
    """Kill a command several times before changes drawn at random, then let it end; return how many kills met it.

    Changes are drawn anew from those that a command in an untouched folder makes; later ones have fewer left to make.
    """
    met, most = 0, 60
    for _ in range(kills):
        ended = server.run(folder, *arguments, at=draw.randrange(most))
        assert ended.code in (0, -signal.SIGKILL), ended
        if ended.code == 0:
            most = max(1, min(most, ended.changes))
        met += ended.code != 0
    ended = server.run(folder, *arguments)
    assert ended.code == 0, ended
    return met


def _runs(process: int) -> bool:
    try:
        state = (
            Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
        )
    except OSError:
        return False
    return state not in "ZX"


def _serve() -> None:
    import moso.cli.main
    import moso.executors
    import moso.report.page.page
    import moso.run.stages  # noqa: F401 - what commands import when they are called

    counted = mmap.mmap(-1, 8)
    # What a command prints goes where errors go: the server's own words must be alone in their stream.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        counted[:8] = struct.pack("<q", 0)
        process = os.fork()
        if process == 0:
            answers.close()
            _command(asked, counted)
        print(json.dumps({"pid": process}), file=answers, flush=True)
        _, status = os.waitpid(process, 0)
        changes = struct.unpack("<q", counted[:8])[0]
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "changes": changes}), file=answers, flush=True)


def _command(asked: dict[str, Any], counted: mmap.mmap) -> None:
    """Run a command in this process, and end the process."""
    code: object = 70
    try:
        os.setpgid(0, 0)
        os.chdir(asked["folder"])
        exec(asked["setup"], {})
        sys.addaudithook(_counting(str(Path(asked["folder"]).resolve()), asked["at"], counted))
        from moso.cli.main import main

        main(asked["arguments"])
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _counting(folder: str, at: int | None, counted: mmap.mmap) -> Callable[[str, tuple[Any, ...]], None]:
    def changes(event: str, arguments: tuple[Any, ...]) -> bool:
        if event != "open":
            return event in _CHANGES
        mode, flags = arguments[1], arguments[2]
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        return writes or bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if (event == "open" or event in _CHANGES) and changes(event, arguments):
            path = arguments[0]
            if not isinstance(path, (str, bytes, os.PathLike)):
                return
            if not str(Path.cwd() / os.fsdecode(path)).startswith(folder):
                return
            number = struct.unpack("<q", counted[:8])[0]
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)
            counted[:8] = struct.pack("<q", number + 1)

    return hook


if __name__ == "__main__":
    _serve()
