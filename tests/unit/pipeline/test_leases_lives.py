"""Leases over restarts and power cuts."""

from __future__ import annotations

import pytest

from leveret.backlog import lease_builder, lease_release, pager
from leveret.backlog.lease_builder import LeasedRun
from leveret.broker.lease_rows import Committed, pack_committed, pack_lease
from tests.support.lease_reader import (
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
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_keeps_leases_as_they_were(harness: StoredHarness, is_clean: bool) -> None:
    filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 3)
    reader.take(1, 3)
    reader.commit(1)
    for _ in range(2):
        harness = (harness.stopped() if is_clean else harness.crashed()).again()
        reader = LeaseReader(harness)
        assert reader.take(1) == 2
        assert reader.bodies(2) == TEN[3:6]
        assert harness.queue("q").unacked == 3
        assert browsed(harness) == TEN[6:]
        assert bodies_left(harness) == TEN[6:]
    assert reader.commit(2) == (2, 3)
    assert harness.waiting_on_disk("q") == TEN[6:]
    harness = harness.crashed().again()
    assert bodies_left(harness) == TEN[6:]


def test_a_lease_in_the_middle_is_stepped_over_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unacked messages on both sides come back, in order; then the lease does, to its place."""
    monkeypatch.setattr(pager, "LOAD_BYTES", 100)
    harness = StoredHarness(queue_memory=200)
    client = filled(harness)
    client.get("q")
    LeaseReader(harness).take(most=4)
    client.get("q")
    harness = harness.crashed().again()
    reader = LeaseReader(harness)
    assert reader.bodies(1) == TEN[1:5]
    assert bodies_left(harness) == [TEN[0], *TEN[5:]]
    harness = harness.crashed().again()
    reader = LeaseReader(harness)
    harness.is_slow = True
    harness.read()  # the front is being loaded, or is here
    harness.is_slow = False
    assert reader.release() == 4
    assert sorted(bodies_left(harness)) == TEN


def test_a_lease_that_still_lies_on_disk_after_a_restart_is_released_there() -> None:
    harness = StoredHarness(queue_memory=1)
    client = filled(harness, *[b"%03d" % number for number in range(500)])
    client.get("q")
    LeaseReader(harness).take(most=400)
    harness = harness.stopped().again()
    harness.vhost.pause_queue(harness.queue("q"))
    assert LeaseReader(harness).release() == 400
    assert [sequence for sequence, _, _ in harness.queue("q").lane.returned] == [1]
    harness.vhost.resume_queue(harness.queue("q"))
    found = taken(harness)
    assert [body for body, _ in found] == [b"%03d" % number for number in range(500)]
    assert [again for _, again in found] == [True] * 401 + [False] * 99


def test_what_is_released_while_the_next_stretch_is_read_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = StoredHarness(queue_memory=1)
    filled(harness)
    LeaseReader(harness).take(most=4)
    life = harness.crashed()
    with monkeypatch.context() as patch:
        patch.setattr(StoredHarness, "work", lambda self: None)
        harness = life.again()
    harness.is_slow = True
    harness.write()
    harness.turn()
    assert harness.queue("q").pager.is_loading(harness.queue("q").lane)
    released: list[int] = []
    harness.broker.leases.release(harness.queue("q"), "reader", None, released.append)
    harness.turn()
    harness.is_slow = False
    harness.turn()
    assert released == [4]
    assert harness.queue("q").ready == 10
    assert bodies_left(harness) == TEN


def test_a_backlog_on_disk_is_leased_without_being_read() -> None:
    harness = StoredHarness(queue_memory=1)
    filled(harness, *[b"%03d" % number for number in range(500)])
    harness = harness.stopped().again()
    harness.is_slow = True
    harness.vhost.pause_queue(harness.queue("q"))
    harness.store.jobs.clear()
    harness.vhost.resume_queue(harness.queue("q"))
    taking = lease_builder.LeaseBuilder(harness.queue("q"), 300, 1 << 40)
    assert taking.step() is lease_builder.Next.FULL
    assert taking.runs == [(0, 1, 300, False)]


@pytest.mark.parametrize("image", range(8))
def test_a_power_cut_around_a_commit_leaves_all_of_it_or_nothing(image: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_release, "STEP", 2)
    harness = StoredHarness()
    filled(harness)
    reader = LeaseReader(harness)
    reader.take(0, 6)
    harness.is_slow = True
    harness.broker.leases.commit(reader.queue, "reader", 1, lambda: None)
    for _ in range(image % 3):
        harness.turn()
        harness.write()
    harness = harness.crashed(image=image).again()
    reader = LeaseReader(harness)
    if ("q", "reader", 1) in open_leases(harness):
        assert reader.bodies(1) == TEN[:6]
        assert reader.commit(1) == (1, 6)
    assert "go on after 1" in refusal(reader, after=0)
    assert harness.waiting_on_disk("q") == TEN[6:]
    assert bodies_left(harness) == TEN[6:]
    assert rows_on_disk(harness) == ["1/reader"]


def test_sequences_of_leases_whose_rows_are_left_are_not_given_to_new_messages(harness: StoredHarness) -> None:
    """Rows of a commit may be left when nothing else is; what is new must not be settled by them in the next life."""
    harness.client().declare("q", durable=True)
    rows = harness.vhost.parameters
    rows.put("lease-consumer", "1/reader", pack_committed(Committed(1, 10)))
    rows.put("lease", "1/1/reader", pack_lease(10, 100, 0.0, [LeasedRun(0, 1, 10, False)]))
    harness.turn()
    harness = harness.crashed().again()
    assert harness.queue("q").lane.tail == 11
    assert rows_on_disk(harness) == ["1/reader"]
    put(harness.client(), b"new")
    harness = harness.crashed().again()
    assert bodies_left(harness) == [b"new"]


def test_a_row_that_cannot_be_read_costs_itself(harness: StoredHarness) -> None:
    filled(harness)
    LeaseReader(harness).take(most=3)
    harness.vhost.parameters.put("lease", "1/2/reader", b"\x07 of another version, and long enough to be one")
    harness.vhost.parameters.put("lease", "1/x", b"")
    harness.vhost.parameters.put("lease-consumer", "77/reader", b"{}")
    harness.turn()
    harness = harness.crashed().again()
    assert open_leases(harness) == {("q", "reader", 1): 3}
    assert bodies_left(harness) == TEN[3:]
