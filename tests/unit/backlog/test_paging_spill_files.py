"""Paging with the real spill: what no journal keeps is written, read back and removed (store/spill.py)."""

from __future__ import annotations

from errno import EIO

import pytest

from leveret.backlog import pager
from leveret.message import Address
from leveret.queues.classic import ClassicQueue
from leveret.store.pages import Loaded
from tests.support.hand_store import DiskHouse
from tests.support.shelf import SIZE, assert_counted, bodies, consumer_of, paged, passing, shrink_steps
from tests.support.spies import SpyConsumer, message


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def house() -> DiskHouse:
    """Four messages fit into a queue's memory."""
    return DiskHouse(4 * SIZE)


def assert_gone(house: DiskHouse, queue: ClassicQueue) -> None:
    """Nothing of the queue is anywhere, neither in memory nor on disk."""
    assert_counted(house, queue, ready=0, on_disk_only=0)
    house.store.write()
    assert all(not len(log.index) for log in house.log.lanes.values())
    assert all(house.store.pages.next_sequence(queue.id, lane.number, 0) is None for lane in queue.lanes)


def drain(house: DiskHouse, queue: ClassicQueue) -> SpyConsumer:
    consumer = consumer_of(queue, no_ack=True)
    house.read_all()
    assert_gone(house, queue)
    return consumer


def consumer_read(house: DiskHouse, queue: ClassicQueue) -> list[bytes]:
    consumer = consumer_of(queue, no_ack=True)
    house.read_all()
    return consumer.bodies


@pytest.mark.feature("S4-26")
def test_transient_messages_go_to_the_spill_and_back(house: DiskHouse) -> None:
    """Unaltered, and the file goes with the last of them."""
    deadline = house.clock.now() + 60
    address = Address("amq.direct", "key", 3, 131072)
    queue = house.queue(max_priority=1)
    run = [message(b"%02d" % n, priority=n % 2, deadline=deadline, address=address) for n in range(16)]
    house.put(queue, *run)
    house.squeeze(queue)
    assert paged(queue) >= 10
    assert house.disk.names("spill") == ["0000000001.seg"]
    given = drain(house, queue).given
    assert [each.body for each in given] == bodies(*range(1, 16, 2), *range(0, 16, 2))
    for each in given:
        assert (each.message[1].exchange, each.message[1].key) == ("amq.direct", "key")
        assert (each.message[2].priority, each.message[2].persistent) == (each.lane, False)
        assert each.message[2].deadline == pytest.approx(deadline)


def test_spill_files_go_when_nothing_in_them_is_wanted(house: DiskHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.store.spill.FILE_SIZE", 1)
    queue = house.queue()
    for first in range(0, 30, 10):
        house.put(queue, *passing(*range(first, first + 10)))
        house.squeeze(queue)
    assert len(house.disk.names("spill")) == 3
    assert drain(house, queue).bodies == bodies(*range(30))
    house.read_all()
    assert len(house.disk.names("spill")) <= 1


def test_a_damaged_spill_costs_only_itself(house: DiskHouse) -> None:
    queue = house.queue()
    house.put(queue, *passing(*range(10)))
    house.squeeze(queue)
    path = "spill/0000000001.seg"
    house.disk.put(path, house.disk.content(path).replace(b"05", b"!!"))
    house.put(queue, *passing(10))
    assert consumer_read(house, queue) == bodies(0, 1, 10)
    assert_gone(house, queue)


def test_what_the_disk_refuses_is_not_lost(house: DiskHouse) -> None:
    """The spill cannot be written: its messages come back all the same, and what is spilled later too."""
    house.disk.fault = lambda kind, path: OSError(EIO, "Input/output error") if path.startswith("spill/") else None
    queue = house.queue()
    house.put(queue, *passing(*range(10)))
    house.squeeze(queue)
    house.put(queue, *passing(*range(10, 20)))
    house.squeeze(queue)
    house.disk.fault = lambda kind, path: None
    house.put(queue, *passing(*range(20, 30)))
    house.squeeze(queue)
    assert paged(queue) >= 20
    assert drain(house, queue).bodies == bodies(*range(30))


def test_large_persistent_and_small_transient_messages_keep_their_order(house: DiskHouse) -> None:
    """Each kind is read from its own file: as far as the bytes of one load allow, and never past the other kind."""
    queue = house.queue(durable=True)
    expected = []
    for number in range(0, 40, 2):
        expected += [b"%02d" % number + b"x" * 2 * SIZE, b"%02d" % (number + 1)]
        house.put(queue, message(expected[-2], persistent=True), message(expected[-1]))
    house.store.write()
    house.squeeze(queue)
    assert paged(queue) >= 35
    assert consumer_read(house, queue) == expected
    assert queue.ready == queue.bytes == 0


@pytest.mark.parametrize("again", [[8], [5, 8], [1, 2], [8, 11, 12], [1, 12]])
def test_what_is_spilled_around_an_older_stretch_hides_nothing_of_it(house: DiskHouse, again: list[int]) -> None:
    """Of messages 3 to 10, those up to 8 were loaded; some are squeezed out again, with others on either side."""
    pages = house.store.pages
    pages.spill(1, 0, [(number, message(b"%02d" % number)) for number in range(3, 11)])
    pages.drop(1, 0, 3, 6)
    pages.spill(1, 0, [(number, message(b"%02d" % number)) for number in again])
    there = sorted([9, 10, *again])
    for number in range(14):
        expected = min((each for each in there if each >= number), default=None)
        assert pages.next_sequence(1, 0, number) == expected
        assert (pages.size_of(1, 0, number) is not None) == (number in there)
    found: list[Loaded] = []
    pages.load(1, 0, 1, 99, 1 << 20, found.extend)
    house.read_all()
    assert [each.sequence for each in found] == there
    pages.drop(1, 0, 1, 99)
    assert pages.next_sequence(1, 0, 0) is None


@pytest.mark.parametrize("load", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("persistent", [0, 2, 3], ids=["transient", "every second", "every third"])
@pytest.mark.feature("S4-26")
def test_a_backlog_survives_any_mix_of_squeezes_and_loads(
    house: DiskHouse, monkeypatch: pytest.MonkeyPatch, load: int, prefetch: int, persistent: int
) -> None:
    """Loaded, acked, published and squeezed out again, round after round; nothing is lost or out of order."""
    monkeypatch.setattr(pager, "LOAD_BYTES", load * SIZE)
    queue = house.queue(durable=True)
    consumer, expected, published = consumer_of(queue, credit=prefetch), [], 0

    def publish(number: int) -> None:
        nonlocal published
        for each in range(published, published + number):
            is_kept = bool(persistent) and each % persistent == 0
            house.put(queue, message(b"%02d" % each, persistent=is_kept))
        published += number

    publish(20)
    for turn in range(60):
        house.gauge.is_short = turn % 3 != 0
        if turn % 4 == 0:
            publish(3)
        if turn % 5 == 0:
            house.store.write()
        for body in consumer.bodies[: 1 + turn % prefetch]:
            expected.append(body)
            consumer.ack(body)
        queue.touch()
        house.turn()
        if turn % 2:
            house.read()
        assert queue.ready + queue.unacked + len(expected) == published
    house.read_all()
    while consumer.bodies:
        for body in consumer.bodies:
            expected.append(body)
            consumer.ack(body)
        house.read_all()
    assert expected == bodies(*range(published))
    assert_gone(house, queue)
