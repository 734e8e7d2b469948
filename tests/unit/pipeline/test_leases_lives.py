"""Leases over restarts and power cuts."""

from __future__ import annotations

import pytest

from leveret.backlog import lease_builder, lease_release, pager
from leveret.backlog.lease_builder import LeasedRun
from leveret.broker.lease_rows import Committed, pack_committed, pack_lease
from leveret.broker.pause import pause, resume
from tests.support.leasing import (
    TEN,
    LeaseReader,
    bodies_left,
    browsed,
    filled,
    open_leases,
    put,
    refusal,
    rows_on_disk,
    taken,
)
from tests.support.stored_house import StoredHouse


@pytest.fixture
def house() -> StoredHouse:
    return StoredHouse()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_keeps_leases_as_they_were(house: StoredHouse, is_clean: bool) -> None:
    filled(house)
    reader = LeaseReader(house)
    reader.take(0, 3)
    reader.take(1, 3)
    reader.commit(1)
    for _ in range(2):
        house = (house.stopped() if is_clean else house.crashed()).again()
        reader = LeaseReader(house)
        assert reader.take(1) == 2
        assert reader.bodies(2) == TEN[3:6]
        assert house.queue("q").unacked == 3
        assert browsed(house) == TEN[6:]
        assert bodies_left(house) == TEN[6:]
    assert reader.commit(2) == (2, 3)
    assert house.waiting_on_disk("q") == TEN[6:]
    house = house.crashed().again()
    assert bodies_left(house) == TEN[6:]


def test_a_lease_in_the_middle_is_stepped_over_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unacked messages on both sides come back, in order; then the lease does, to its place."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 100)
    house = StoredHouse(queue_memory=200)
    client = filled(house)
    client.get("q")
    LeaseReader(house).take(most=4)
    client.get("q")
    house = house.crashed().again()
    reader = LeaseReader(house)
    assert reader.bodies(1) == TEN[1:5]
    assert bodies_left(house) == [TEN[0], *TEN[5:]]
    house = house.crashed().again()
    reader = LeaseReader(house)
    house.is_slow = True
    house.read()  # the front is being loaded, or is here
    house.is_slow = False
    assert reader.release() == 4
    assert sorted(bodies_left(house)) == TEN


def test_a_lease_that_still_lies_on_disk_after_a_restart_is_released_there() -> None:
    house = StoredHouse(queue_memory=1)
    client = filled(house, *[b"%03d" % number for number in range(500)])
    client.get("q")
    LeaseReader(house).take(most=400)
    house = house.stopped().again()
    pause(house.vhost, house.queue("q"))
    assert LeaseReader(house).release() == 400
    assert [sequence for sequence, _, _ in house.queue("q").lane.returned] == [1]
    resume(house.vhost, house.queue("q"))
    found = taken(house)
    assert [body for body, _ in found] == [b"%03d" % number for number in range(500)]
    assert [again for _, again in found] == [True] * 401 + [False] * 99


def test_what_is_released_while_the_next_stretch_is_read_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    house = StoredHouse(queue_memory=1)
    filled(house)
    LeaseReader(house).take(most=4)
    life = house.crashed()
    with monkeypatch.context() as patch:
        patch.setattr(StoredHouse, "work", lambda self: None)
        house = life.again()
    house.is_slow = True
    house.write()
    house.turn()
    assert house.queue("q").pager.is_loading(house.queue("q").lane)
    released: list[int] = []
    house.broker.leases.release(house.queue("q"), "reader", None, released.append)
    house.turn()
    house.is_slow = False
    house.turn()
    assert released == [4]
    assert house.queue("q").ready == 10
    assert bodies_left(house) == TEN


def test_a_backlog_on_disk_is_leased_without_being_read() -> None:
    house = StoredHouse(queue_memory=1)
    filled(house, *[b"%03d" % number for number in range(500)])
    house = house.stopped().again()
    house.is_slow = True
    pause(house.vhost, house.queue("q"))
    house.store.jobs.clear()
    resume(house.vhost, house.queue("q"))
    taking = lease_builder.LeaseBuilder(house.queue("q"), 300, 1 << 40)
    assert taking.step() is lease_builder.Next.FULL
    assert taking.runs == [(0, 1, 300, False)]


@pytest.mark.parametrize("image", range(8))
def test_a_power_cut_around_a_commit_leaves_all_of_it_or_nothing(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_release, "STEP", 2)
    house = StoredHouse()
    filled(house)
    reader = LeaseReader(house)
    reader.take(0, 6)
    house.is_slow = True
    house.broker.leases.commit(reader.queue, "reader", 1, lambda: None)
    for _ in range(image % 3):
        house.turn()
        house.write()
    house = house.crashed(image=image).again()
    reader = LeaseReader(house)
    if ("q", "reader", 1) in open_leases(house):
        assert reader.bodies(1) == TEN[:6]
        assert reader.commit(1) == (1, 6)
    assert "go on after 1" in refusal(reader, after=0)
    assert house.waiting_on_disk("q") == TEN[6:]
    assert bodies_left(house) == TEN[6:]
    assert rows_on_disk(house) == ["1/reader"]


def test_sequences_of_leases_whose_rows_are_left_are_not_given_to_new_messages(house: StoredHouse) -> None:
    """Rows of a commit may be left when nothing else is; what is new must not be settled by them in the next life."""
    house.client().declare("q", durable=True)
    rows = house.vhost.parameters
    rows.put("lease-consumer", "1/reader", pack_committed(Committed(1, 10)))
    rows.put("lease", "1/1/reader", pack_lease(10, 100, 0.0, [LeasedRun(0, 1, 10, False)]))
    house.turn()
    house = house.crashed().again()
    assert house.queue("q").lane.tail == 11
    assert rows_on_disk(house) == ["1/reader"]
    put(house.client(), b"new")
    house = house.crashed().again()
    assert bodies_left(house) == [b"new"]


def test_a_row_that_cannot_be_read_costs_itself(house: StoredHouse) -> None:
    filled(house)
    LeaseReader(house).take(most=3)
    house.vhost.parameters.put("lease", "1/2/reader", b"\x07 of another version, and long enough to be one")
    house.vhost.parameters.put("lease", "1/x", b"")
    house.vhost.parameters.put("lease-consumer", "77/reader", b"{}")
    house.turn()
    house = house.crashed().again()
    assert open_leases(house) == {("q", "reader", 1): 3}
    assert bodies_left(house) == TEN[3:]
