"""From a turn to records: how much is written for what, and where a record's room for numbers ends."""

from __future__ import annotations

import pytest

from leveret.message import Address
from leveret.store import drafts, journal, records
from leveret.store.journal import LARGE
from leveret.store.records import PUBLISH, SEGMENT_HEAD, SETTLE, Record, read_entries, read_publish
from leveret.store.scan import scan
from tests.support.store_harness import StoreHarness, look, message


def begun(queues: int = 1) -> StoreHarness:
    """A harness with queues from 1 on."""
    harness = StoreHarness()
    harness.begin()
    for _ in range(queues):
        harness.declare()
    harness.rest()
    return harness


def written(harness: StoreHarness, kind: int) -> list[tuple[bytes, Record]]:
    """The records of a kind, each with the data it is in."""
    found: list[tuple[bytes, Record]] = []
    for name in harness.segments:
        data = harness.disk.content(f"journal/{name}")
        for item in scan(data, int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            if item.kind == kind:
                found.append((data, item))
    return found


@pytest.mark.feature("S4-16")
def test_a_run_for_many_queues_is_written_once() -> None:
    """Appended to one file, with a place for each queue."""
    harness = begun(10)
    queues = list(range(1, 11))
    harness.publish(queues, b"c" * 1000, b"d" * 1000)
    harness.rest()
    ((data, record),) = written(harness, PUBLISH)
    assert record.end - record.at < 2500
    assert [place.queue for place in read_publish(data, record).places] == queues
    found = look(harness.disk.copy())
    assert all(found.bodies(queue) == [b"c" * 1000, b"d" * 1000] for queue in queues)


def test_neighbours_are_settled_by_one_entry() -> None:
    harness = begun()
    harness.publish([1], *(b"%d" % n for n in range(100)))
    harness.rest()
    harness.settle(1, *range(1, 51))
    harness.rest()
    ((data, record),) = written(harness, SETTLE)
    assert read_entries(data, record) == [(1, 0, 1, 50, 1)]


def test_many_settles_do_not_wait_for_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_ENTRIES", 20)
    monkeypatch.setattr(drafts, "ENTRIES_PER_RECORD", 8)
    harness = begun()
    harness.publish([1], *(b"%d" % n for n in range(50)))
    harness.rest()
    harness.settle(1, *range(1, 40, 2))
    harness.turn()
    assert not harness.waiting
    harness.settle(1, 41)
    harness.turn()
    assert harness.waiting
    harness.write()
    settles = written(harness, SETTLE)
    assert [len(read_entries(data, record)) for data, record in settles] == [8, 8, 5]
    assert len(look(harness.disk.copy()).messages) == 29


def test_a_group_of_more_records_than_a_number_can_count_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LARGEST_PLACE", 7)
    harness = begun(31)
    with harness.journal.group():
        for n in range(30):
            harness.publish([1 + n], b"%d" % n)  # to one queue they would share a record
    receipt = harness.publish([1], b"behind it")
    harness.rest()
    assert harness.journal.granted == receipt
    assert max(record.place for _, record in written(harness, PUBLISH)) == 7
    found = look(harness.disk.copy())
    assert found.bodies(1) == [b"0", b"behind it"]
    assert [found.bodies(1 + n) for n in range(1, 30)] == [[b"%d" % n] for n in range(1, 30)]


def test_small_appends_of_a_group_share_a_record_too() -> None:
    harness = begun()
    with harness.journal.group():
        for n in range(30):
            harness.publish([1], b"%d" % n)
    harness.rest()
    assert len(written(harness, PUBLISH)) == 1
    assert look(harness.disk.copy()).bodies(1) == [b"%d" % n for n in range(30)]


def test_a_message_for_more_queues_than_a_record_can_name_reaches_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """In several records that are one whole: after a crash all of its queues have it, or none."""
    monkeypatch.setattr(drafts, "MOST_PLACES", 7)
    harness = begun(30)
    queues = list(range(1, 31))
    receipt = harness.publish(queues, b"to all", b"of them")
    harness.rest()
    assert harness.journal.granted == receipt
    publishes = [record for _, record in written(harness, PUBLISH)]
    assert [record.ends_group for record in publishes] == [False, False, False, False, True]
    found = look(harness.disk.copy())
    assert all(found.bodies(queue) == [b"to all", b"of them"] for queue in queues)


def test_the_limits_fit_into_their_fields() -> None:
    assert records.RECORD_HEAD.pack(records.MARK, 0, PUBLISH, 0, records.LARGEST_PLACE, 0)
    assert records.PUBLISH_HEAD.pack(records.MOST_PLACES, 0.0)


# ---- neighbours


def test_small_appends_that_follow_each_other_share_a_record() -> None:
    harness = begun()
    harness.publish([1], b"a")
    harness.publish([1], b"b", b"c")
    last = harness.publish([1], b"d")
    harness.rest()
    assert len(written(harness, PUBLISH)) == 1
    assert harness.journal.granted >= last
    assert look(harness.disk.copy()).bodies(1) == [b"a", b"b", b"c", b"d"]


def test_appends_to_other_queues_or_of_other_durability_do_not_share_a_record() -> None:
    harness = begun(2)
    harness.publish([1], b"a")
    harness.publish([2], b"b")
    harness.publish([1, 2], b"c")
    harness.publish([1], b"d", synced=False)
    harness.publish([1], b"e")
    harness.rest()
    assert len(written(harness, PUBLISH)) == 5
    assert look(harness.disk.copy()).bodies(1) == [b"a", b"c", b"d", b"e"]


def test_small_appends_of_many_addresses_in_turns_share_a_record_for_each_queue() -> None:
    """Keys that change with every message are what a super stream gets."""
    harness = begun(2)
    addresses = [Address("ex", f"key {n % 7}", 1, 131072) for n in range(40)]
    for n, address in enumerate(addresses):
        last = harness.send([1 + n % 2], [message(b"%d" % n, address=address)])
    harness.rest()
    assert len(written(harness, PUBLISH)) == 2
    assert harness.journal.granted >= last
    found = look(harness.disk.copy())
    for queue in (1, 2):
        kept = [found.messages[key] for key in sorted(found.messages) if key[0] == queue]
        wanted = [(b"%d" % n, "ex", f"key {n % 7}") for n in range(queue - 1, 40, 2)]
        assert found.bodies(queue) == [body for body, _, _ in wanted]
        assert [(address.exchange, address.key) for _, address, _ in kept] == [pair[1:] for pair in wanted]


def test_a_group_finds_what_it_settles_though_it_was_joined_just_before() -> None:
    harness = begun(2)
    harness.publish([1], b"a")
    harness.publish([2], b"b")
    harness.publish([1], b"c")
    with harness.journal.group():
        harness.settle(1, 1)
        harness.publish([2], b"a, moved")
    harness.rest()
    found = look(harness.disk.copy())
    assert (found.bodies(1), found.bodies(2)) == ([b"c"], [b"b", b"a, moved"])


# ---- large contents


@pytest.mark.feature("S4-29")
def test_what_is_settled_before_the_writer_is_free_is_never_written() -> None:
    """Large contents only: while the writer is busy they are not even drafted."""
    harness = begun()
    harness.publish([1], bytes(LARGE))
    harness.turn()
    early: set[int] = set()
    harness.listener.on_early = early.update
    gone = harness.publish([1], b"gone".ljust(LARGE))
    kept = harness.publish([1], b"kept".ljust(LARGE))
    harness.turn()
    assert len(harness.waiting) == 1
    harness.settle(1, 2)
    harness.turn()
    assert early == {gone}
    harness.rest()
    assert harness.journal.granted >= kept
    assert b"gone" not in b"".join(harness.disk.content(f"journal/{name}") for name in harness.segments)
    assert [body[:4] for body in look(harness.disk.copy()).bodies(1)] == [bytes(4), b"kept"]


def test_settles_that_come_while_large_contents_wait_are_not_forgotten() -> None:
    harness = begun()
    harness.publish([1], bytes(LARGE))
    harness.turn()
    harness.publish([1], b"first".ljust(LARGE), b"second".ljust(LARGE))
    harness.turn()
    harness.settle(1, 1, 2)
    harness.turn()
    harness.rest()
    assert [body[:6] for body in look(harness.disk.copy()).bodies(1)] == [b"second"]
