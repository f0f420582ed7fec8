"""The lease on a run at an address: one at a time, as far as a store can say so."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from moso.errors import MosoError
from moso.run import RunDirectory
from moso.run.lease import NAME, Holder, held
from moso.run.lease_slot import StoreSlot, read_slot
from moso.run.store import Store


@pytest.fixture(params=["file", "s3"])
def slot(request, tmp_path, monkeypatch) -> StoreSlot:
    monkeypatch.setattr("moso.run.lease_slot.SETTLING_SECONDS", 0.2)
    monkeypatch.setenv("MOSO_CACHE", str(tmp_path / "cache"))
    address = f"{request.param}://{tmp_path / 'there'}"
    if request.param == "s3":
        address = request.getfixturevalue("bucket") + "/run"
    return StoreSlot(Store.of(address), tmp_path)


def elsewhere(**changes) -> Holder:
    return replace(Holder.myself(), machine="another machine", host="far", **changes)


def until(happened: Callable[[], bool]) -> None:
    """Wait for something, and not for ever."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in a minute"
        time.sleep(0.02)


def test_a_lease_belongs_to_one_at_a_time_and_is_given_back(slot):
    with held(slot) as mine:
        assert read_slot(slot).owner == mine.owner
        with (
            pytest.raises(MosoError, match=f"another moso is working in {slot.store.address} .*wait for it"),
            held(slot),
        ):
            pass
    assert slot.store.versions() == {}
    with held(slot):
        pass


def test_of_many_who_try_at_once_one_gets_it(slot, monkeypatch, tmp_path):
    monkeypatch.setattr("moso.run.lease_slot.SETTLING_SECONDS", 2.0)  # others may keep the machine busy
    slot.renew(elsewhere(renewed=0.0))  # long over: all of them want to write over it
    got, refused, together = [], [], threading.Barrier(5)

    def try_it(number):
        folder = tmp_path / str(number)  # as if each was a machine of its own
        folder.mkdir()
        together.wait()
        try:
            with held(StoreSlot(slot.store, folder)) as mine:
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
    assert slot.store.versions() == {}


def test_a_holder_elsewhere_that_gives_no_sign_is_over_after_its_time(slot):
    slot.renew(elsewhere(renewed=time.time() + 60))  # whatever its clock says
    with pytest.warns(UserWarning, match="held by a moso on far; waiting"), held(slot, expiry=0.4) as mine:
        assert read_slot(slot).owner == mine.owner


def test_a_holder_elsewhere_that_gives_signs_keeps_its_lease(slot):
    theirs, over = elsewhere(renewed=0.0), threading.Event()

    def renew():
        for number in range(1000):
            slot.renew(replace(theirs, renewed=time.time(), renewals=number))
            if over.wait(0.2):
                return

    thread = threading.Thread(target=renew)
    slot.renew(replace(theirs, renewed=time.time()))
    thread.start()
    with pytest.warns(UserWarning, match="waiting"), pytest.raises(MosoError, match="on far"), held(slot, expiry=5):
        pass
    over.set()
    thread.join()


def lose(slot: StoreSlot) -> None:
    with held(slot, renew=0.1):
        until(lambda: read_slot(slot).renewals >= 2)
        for _ in range(60):  # a renewal that was on its way may write over the other's name, which comes again
            slot.renew(elsewhere())
            time.sleep(1)  # work, which is interrupted here when it is of no more use, and not in a store's own code
        raise AssertionError("nobody stopped it")


def test_a_lease_is_renewed_and_who_loses_it_stops(slot):
    with pytest.raises(MosoError, match=f"{slot.store.address} was taken over by a moso on far"):
        lose(slot)
    assert read_slot(slot).host == "far"


def test_an_address_that_is_silent_for_a_while_costs_a_sign_of_life_and_not_the_run(slot, monkeypatch):
    with held(slot, renew=0.05) as mine, monkeypatch.context() as broken:
        said = []

        def silent(self, name, text):
            said.append(text)
            raise MosoError("the network is gone")

        broken.setattr(Store, "write", silent)
        until(lambda: len(said) >= 3)
        broken.undo()
        until(lambda: read_slot(slot).renewals > len(said))
        assert read_slot(slot).owner == mine.owner


def test_what_is_no_lease_is_nobodys(slot, monkeypatch):
    monkeypatch.setattr("moso.run.lease_slot._FILLING_SECONDS", 0.1)
    slot.store.write(NAME, "")
    with held(slot) as mine:
        assert read_slot(slot).owner == mine.owner


def test_a_second_run_at_the_same_address_is_refused_from_any_machine(slot, tmp_path):
    first = RunDirectory.at(slot.store.address, scratch=tmp_path / "one")
    second = RunDirectory.at(slot.store.address, scratch=tmp_path / "other")
    with first.locked():
        assert second.holder().process == first.holder().process
        with pytest.raises(MosoError, match="another moso is working in"), second.locked():
            pass
    with second.locked():
        pass
