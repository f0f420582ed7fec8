"""Who may write to a run directory: one at a time, and nobody waits for the dead."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from moso.errors import MosoError
from moso.storage import lease_backend, process_lock
from moso.storage.lease import EXPIRY_SECONDS, Holder, held, read_holder
from moso.storage.lease_backend import FileLease, read_lease
from moso.storage.process_lock import exclusive
from refusals import refusal


def write(path, holder: Holder) -> None:
    path.write_text(json.dumps(asdict(holder)))


def elsewhere(**changes) -> Holder:
    return replace(Holder.myself(), machine="another machine", host="far", **changes)


def test_a_lease_belongs_to_one_at_a_time_and_is_given_back(tmp_path):
    path = tmp_path / ".lock"
    with held(path) as mine:
        assert read_holder(path).owner == mine.owner
        with refusal("run-locked", mine.process), held(path):
            pass
    assert read_holder(path) is None
    with held(path):
        pass


def locking(descriptor: int, mode: int, _: int) -> None:
    """As Windows has it: a lock of one open file that another one is refused with EACCES, and that ends with it."""
    assert mode == 2
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise PermissionError(errno.EACCES, "Permission denied") from problem


@pytest.fixture
def windows(monkeypatch):
    """The locks of Windows in place of those of Linux."""
    monkeypatch.setattr(process_lock, "_fcntl", None)
    monkeypatch.setattr(process_lock, "_msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))


def test_turns_of_windows_are_one_at_a_time_and_leave_nothing(windows, tmp_path):
    inside, most, together = [], [], threading.Barrier(4)

    def enter():
        together.wait()
        with exclusive(tmp_path):
            inside.append(1)
            time.sleep(0.1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    # Windows keeps a file that somebody has open; Linux would let the next one lock a new file of the same name.
    kept = os.open(tmp_path / process_lock.TURN, os.O_CREAT | os.O_RDWR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda *_: (_ for _ in ()).throw(PermissionError()))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.close(kept)
    assert most == [1, 1, 1, 1]
    with exclusive(tmp_path):
        assert (tmp_path / process_lock.TURN).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lease_is_held_and_refused_by_the_locks_of_windows(windows, tmp_path):
    with held(tmp_path / ".lock"), refusal("run-locked", "out"), held(tmp_path / ".lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_gives_everybody_a_turn(windows, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(process_lock, "_msvcrt", SimpleNamespace(locking=refuse, LK_NBLCK=2))
    with exclusive(tmp_path), exclusive(tmp_path):
        pass
    monkeypatch.setattr(process_lock, "_msvcrt", None)
    with exclusive(tmp_path), exclusive(tmp_path):
        pass


def test_a_lease_that_cannot_be_read_for_a_moment_is_read_again(tmp_path, monkeypatch):
    """Windows refuses to read a file in the moment in which it is replaced."""
    lease, mine = FileLease(tmp_path / ".lock"), Holder.myself()
    write(lease.path, mine)
    refusals = iter([PermissionError(), PermissionError()])
    whole = FileLease.text

    def text(self):
        refusal = next(refusals, None)
        if refusal is not None:
            raise refusal
        return whole(self)

    monkeypatch.setattr(FileLease, "text", text)
    assert read_lease(lease) == mine
    monkeypatch.setattr(lease_backend, "_FILLING_SECONDS", 0.1)
    refusals = iter(lambda: PermissionError(), None)
    with pytest.raises(PermissionError):
        read_lease(lease)


@pytest.mark.filterwarnings("ignore:.*held by a moso on far; waiting")
def test_of_many_who_try_at_once_one_gets_it(tmp_path):
    path, got, refused = tmp_path / ".lock", [], []
    write(path, elsewhere())  # over: all of them want to take it away
    together = threading.Barrier(8)

    def try_it():
        together.wait()
        try:
            with held(path, expiry=0.5) as mine:
                got.append(mine.owner)
                time.sleep(0.5)
        except MosoError:
            refused.append(1)

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
    assert list(tmp_path.iterdir()) == []


def test_a_holder_of_this_machine_that_was_killed_holds_no_more(tmp_path):
    path = tmp_path / ".lock"
    code = (
        f"from pathlib import Path; from moso.storage.lease import held; l = held(Path({str(path)!r})); l.__enter__();"
    )
    subprocess.run([sys.executable, "-c", f"{code} import os; os.kill(os.getpid(), 9)"], check=False)
    dead = read_holder(path)
    assert dead is not None
    started = time.monotonic()
    with held(path) as mine:
        assert mine.owner != dead.owner
    assert time.monotonic() - started < EXPIRY_SECONDS / 2


def test_a_process_number_that_was_given_to_another_process_holds_nothing(tmp_path):
    path = tmp_path / ".lock"
    write(path, replace(Holder.myself(), started="long ago"))
    with held(path):
        pass


def test_a_holder_elsewhere_that_gives_no_sign_is_over_after_its_time(tmp_path):
    path = tmp_path / ".lock"
    # Its clock may be wrong by years, in either direction: what counts is that nothing changes.
    for renewed in (0.0, time.time() - 60, time.time(), time.time() + 60, time.time() + 1e9):
        write(path, elsewhere(renewed=renewed))
        with pytest.warns(UserWarning, match="held by a moso on far; waiting"), held(path, expiry=0.4):
            pass


@pytest.mark.parametrize("clock", [-1e9, -3600.0, -120.0, 3600.0])
def test_a_holder_elsewhere_that_gives_signs_keeps_its_lease_whatever_its_clock_says(tmp_path, clock):
    """A clock that was set back by an hour, or to 1970, makes a lease that is renewed look as if it was over."""
    path, over = tmp_path / ".lock", threading.Event()
    theirs = elsewhere(renewed=max(0.0, time.time() + clock))
    write(path, theirs)

    def renew():
        for number in range(1, 1000):
            if over.wait(0.1):
                return
            write(path.with_suffix(".new"), replace(theirs, renewals=number))
            path.with_suffix(".new").replace(path)

    thread = threading.Thread(target=renew)
    thread.start()
    with pytest.warns(UserWarning, match="waiting"), refusal("run-locked", "out"), held(path, expiry=5):
        pass
    over.set()
    thread.join()


def test_a_lease_that_was_never_filled_is_nobodys(tmp_path):
    path = tmp_path / ".lock"
    path.touch()  # what a kill between two steps leaves, and what older versions left
    with held(path):
        pass


def lose(path) -> None:
    with held(path, renew=0.05):
        write(path, elsewhere())
        time.sleep(10)  # work, which ends when it is of no more use
        raise AssertionError("nobody stopped it")


def test_who_ignores_interrupts_stops_too(tmp_path):
    # A shell starts what it puts into the background like this.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with refusal("run-locked"):
            lose(tmp_path / ".lock")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_lease_is_renewed_and_who_loses_it_stops(tmp_path):
    path = tmp_path / ".lock"
    with held(path, renew=0.05) as mine:
        deadline = time.monotonic() + 600
        while read_holder(path).renewals < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert read_holder(path).owner == mine.owner
        assert read_holder(path).renewals >= 3
    with refusal("run-locked"):
        lose(path)
    assert read_holder(path).host == "far"


def test_a_clock_that_is_set_back_while_a_lease_is_held_loses_nothing(tmp_path, monkeypatch):
    path, hour = tmp_path / ".lock", 3600.0
    now = time.time
    with held(path, renew=0.05) as mine:
        monkeypatch.setattr("moso.storage.lease.time.time", lambda: now() - hour)
        deadline = time.monotonic() + 600
        while not (found := read_holder(path)) or found.renewed > now() - hour / 2:
            assert time.monotonic() < deadline, "it was not renewed"
            time.sleep(0.01)
        assert found.owner == mine.owner
        with refusal("run-locked", mine.process), held(path):
            pass
    assert read_holder(path) is None
