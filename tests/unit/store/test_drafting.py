"""From a turn to records: how much is written for what, and where a record's room for numbers ends."""

from __future__ import annotations

import pytest

from leveret.store import drafting, journal, records
from leveret.store.records import PUBLISH, SEGMENT_HEAD, SETTLE, Record, read_entries, read_publish
from leveret.store.scan import scan
from tests.support.store_house import StoreHouse, look


def begun(queues: int = 1) -> StoreHouse:
    """A house with queues from 1 on."""
    house = StoreHouse()
    house.begin()
    for _ in range(queues):
        house.declare()
    house.rest()
    return house


def written(house: StoreHouse, kind: int) -> list[tuple[bytes, Record]]:
    """The records of a kind, each with the data it is in."""
    found: list[tuple[bytes, Record]] = []
    for name in house.segments:
        data = house.disk.content(f"journal/{name}")
        for item in scan(data, int(name[:-4]), SEGMENT_HEAD.size):
            assert isinstance(item, Record)
            if item.kind == kind:
                found.append((data, item))
    return found


def test_s4_16_a_run_for_many_queues_is_written_once() -> None:
    """S4-16: appended to one file, with a place for each queue."""
    house = begun(10)
    queues = list(range(1, 11))
    house.publish(queues, b"c" * 1000, b"d" * 1000)
    house.rest()
    ((data, record),) = written(house, PUBLISH)
    assert record.end - record.at < 2500
    assert [place.queue for place in read_publish(data, record).places] == queues
    found = look(house.disk.copy())
    assert all(found.bodies(queue) == [b"c" * 1000, b"d" * 1000] for queue in queues)


def test_neighbours_are_settled_by_one_entry() -> None:
    house = begun()
    house.publish([1], *(b"%d" % n for n in range(100)))
    house.rest()
    house.settle(1, *range(1, 51))
    house.rest()
    ((data, record),) = written(house, SETTLE)
    assert read_entries(data, record) == [(1, 0, 1, 50, 1)]


def test_many_settles_do_not_wait_for_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_ENTRIES", 20)
    monkeypatch.setattr(drafting, "ENTRIES_PER_RECORD", 8)
    house = begun()
    house.publish([1], *(b"%d" % n for n in range(50)))
    house.rest()
    house.settle(1, *range(1, 40, 2))
    house.turn()
    assert not house.waiting
    house.settle(1, 41)
    house.turn()
    assert house.waiting
    house.write()
    settles = written(house, SETTLE)
    assert [len(read_entries(data, record)) for data, record in settles] == [8, 8, 5]
    assert len(look(house.disk.copy()).messages) == 29


def test_a_group_of_more_records_than_a_number_can_count_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LARGEST_PLACE", 7)
    house = begun()
    with house.journal.group():
        for n in range(30):
            house.publish([1], b"%d" % n)
    receipt = house.publish([1], b"behind it")
    house.rest()
    assert house.journal.granted == receipt
    assert max(record.place for _, record in written(house, PUBLISH)) == 7
    assert look(house.disk.copy()).bodies(1) == [*(b"%d" % n for n in range(30)), b"behind it"]


def test_a_message_for_more_queues_than_a_record_can_name_reaches_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """In several records that are one whole: after a crash all of its queues have it, or none."""
    monkeypatch.setattr(drafting, "MOST_PLACES", 7)
    house = begun(30)
    queues = list(range(1, 31))
    receipt = house.publish(queues, b"to all", b"of them")
    house.rest()
    assert house.journal.granted == receipt
    publishes = [record for _, record in written(house, PUBLISH)]
    assert [record.ends_group for record in publishes] == [False, False, False, False, True]
    found = look(house.disk.copy())
    assert all(found.bodies(queue) == [b"to all", b"of them"] for queue in queues)


def test_the_limits_fit_into_their_fields() -> None:
    assert records.RECORD_HEAD.pack(records.MARK, 0, PUBLISH, 0, records.LARGEST_PLACE, 0)
    assert records.PUBLISH_HEAD.pack(records.MOST_PLACES, 0.0)
