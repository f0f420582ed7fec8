"""The lease on a run at an address: one at a time, as far as a store can say so."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from moso.errors import MosoError
from moso.results import RunDirectory
from moso.storage.lease import NAME, Holder, held
from moso.storage.lease_backend import StoreLease, read_lease
from moso.storage.store import Store
from refusals import refusal


@pytest.fixture(params=["file", "s3"])
def backend(request, tmp_path, monkeypatch) -> StoreLease:
    monkeypatch.setattr("moso.storage.lease_backend.SETTLING_SECONDS", 0.2)
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    address = f"{request.param}://{tmp_path / 'there'}"
    if request.param == "s3":
        address = request.getfixturevalue("bucket") + "/run"
    return StoreLease(Store.of(address), tmp_path)


def elsewhere(**changes) -> Holder:
    return replace(Holder.myself(), machine="another machine", host="far", **changes)


def until(happened: Callable[[], bool]) -> None:
    """Wait for something, and not for ever."""
    deadline = time.monotonic() + 600
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in ten minutes"
        time.sleep(0.02)


def test_a_lease_belongs_to_one_at_a_time_and_is_given_back(backend):
    with held(backend) as mine:
        assert read_lease(backend).owner == mine.owner
        with (
            refusal("run-locked", backend.store.address),
            held(backend),
        ):
            pass
    assert backend.store.versions() == {}
    with held(backend):
        pass


@pytest.mark.filterwarnings("ignore:.*held by a moso on far; waiting")
def test_of_many_who_try_at_once_one_gets_it(backend, monkeypatch, tmp_path):
    monkeypatch.setattr("moso.storage.lease_backend.SETTLING_SECONDS", 2.0)  # others may keep the machine busy
    backend.renew(elsewhere(renewed=0.0))  # over: all of them want to write over it
    got, refused, together = [], [], threading.Barrier(5)

    def try_it(number):
        folder = tmp_path / str(number)  # as if each was a machine of its own
        folder.mkdir()
        together.wait()
        try:
            with held(StoreLease(backend.store, folder), expiry=2.0) as mine:
                got.append(mine.owner)
                until(lambda: len(got) + len(refused) == 5)
        except MosoError as problem:
            refused.append(str(problem))

    threads = [threading.Thread(target=try_it, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 4)
    assert all("another moso is working" in sentence for sentence in refused)
    assert backend.store.versions() == {}


def test_a_holder_elsewhere_that_gives_no_sign_is_over_after_its_time(backend):
    backend.renew(elsewhere(renewed=time.time() + 60))  # whatever its clock says
    with pytest.warns(UserWarning, match="held by a moso on far; waiting"), held(backend, expiry=0.4) as mine:
        assert read_lease(backend).owner == mine.owner


def test_a_holder_elsewhere_that_gives_signs_keeps_its_lease(backend):
    theirs, over = elsewhere(renewed=0.0), threading.Event()

    def renew():
        for number in range(1000):
            backend.renew(replace(theirs, renewed=time.time(), renewals=number))
            if over.wait(0.2):
                return

    thread = threading.Thread(target=renew)
    backend.renew(replace(theirs, renewed=time.time()))
    thread.start()
    with pytest.warns(UserWarning, match="waiting"), refusal("run-locked", "out"), held(backend, expiry=5):
        pass
    over.set()
    thread.join()


def lose(backend: StoreLease) -> None:
    with held(backend, renew=0.1):
        until(lambda: read_lease(backend).renewals >= 2)
        for _ in range(600):  # a renewal that was on its way may write over the other's name, which comes again
            backend.renew(elsewhere())
            time.sleep(1)  # work, which is interrupted here when it is of no more use, and not in a store's own code
        raise AssertionError("nobody stopped it")


def test_a_lease_is_renewed_and_who_loses_it_stops(backend):
    with refusal("run-locked", backend.store.address, "far"):
        lose(backend)
    assert read_lease(backend).host == "far"


def test_an_address_that_is_silent_for_a_while_costs_a_sign_of_life_and_not_the_run(backend, monkeypatch):
    with held(backend, renew=0.05) as mine, monkeypatch.context() as broken:
        said = []

        def silent(self, name, text):
            said.append(text)
            raise MosoError("the network is gone")

        broken.setattr(Store, "write", silent)
        until(lambda: len(said) >= 3)
        broken.undo()
        until(lambda: read_lease(backend).renewals > len(said))
        assert read_lease(backend).owner == mine.owner


def test_what_is_no_lease_is_nobodys(backend, monkeypatch):
    monkeypatch.setattr("moso.storage.lease_backend._FILLING_SECONDS", 0.1)
    backend.store.write(NAME, "")
    with held(backend) as mine:
        assert read_lease(backend).owner == mine.owner


def test_a_second_run_at_the_same_address_is_refused_from_any_machine(backend, tmp_path):
    first = RunDirectory.at(backend.store.address, scratch=tmp_path / "one")
    second = RunDirectory.at(backend.store.address, scratch=tmp_path / "other")
    with first.locked():
        assert second.holder().process == first.holder().process
        with refusal("run-locked", "out"), second.locked():
            pass
    with second.locked():
        pass
