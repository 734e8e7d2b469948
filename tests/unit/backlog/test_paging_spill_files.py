"""Paging with the real spill: what no journal keeps is written, read back and removed (store/spill.py)."""

from __future__ import annotations

from errno import EIO

import pytest

from leveret.backlog import pager
from leveret.message import Address
from leveret.queues.classic import ClassicQueue
from leveret.store.pages import Loaded
from tests.support.manual_store import DiskHarness
from tests.support.memory_pages import SIZE, assert_counted, bodies, consumer_of, paged, passing, shrink_steps
from tests.support.spies import SpyConsumer, message


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def harness() -> DiskHarness:
    """Four messages fit into a queue's memory."""
    return DiskHarness(4 * SIZE)


def assert_gone(harness: DiskHarness, queue: ClassicQueue) -> None:
    """Nothing of the queue is anywhere, neither in memory nor on disk."""
    assert_counted(harness, queue, ready=0, on_disk_only=0)
    harness.store.write()
    assert all(not len(log.index) for log in harness.log.lanes.values())
    assert all(harness.store.pages.next_sequence(queue.id, lane.number, 0) is None for lane in queue.lanes)


def drain(harness: DiskHarness, queue: ClassicQueue) -> SpyConsumer:
    consumer = consumer_of(queue, no_ack=True)
    harness.read_all()
    assert_gone(harness, queue)
    return consumer


def consumer_read(harness: DiskHarness, queue: ClassicQueue) -> list[bytes]:
    consumer = consumer_of(queue, no_ack=True)
    harness.read_all()
    return consumer.bodies


@pytest.mark.feature("S4-26")
def test_transient_messages_go_to_the_spill_and_back(harness: DiskHarness) -> None:
    """Unaltered, and the file goes with the last of them."""
    deadline = harness.clock.now() + 60
    address = Address("amq.direct", "key", 3, 131072)
    queue = harness.queue(max_priority=1)
    run = [message(b"%02d" % n, priority=n % 2, deadline=deadline, address=address) for n in range(16)]
    harness.put(queue, *run)
    harness.squeeze(queue)
    assert paged(queue) >= 10
    assert harness.disk.names("spill") == ["0000000001.seg"]
    given = drain(harness, queue).given
    assert [each.body for each in given] == bodies(*range(1, 16, 2), *range(0, 16, 2))
    for each in given:
        assert (each.message[1].exchange, each.message[1].key) == ("amq.direct", "key")
        assert (each.message[2].priority, each.message[2].persistent) == (each.lane, False)
        assert each.message[2].deadline == pytest.approx(deadline)


def test_spill_files_go_when_nothing_in_them_is_wanted(harness: DiskHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.store.spill.FILE_SIZE", 1)
    queue = harness.queue()
    for first in range(0, 30, 10):
        harness.put(queue, *passing(*range(first, first + 10)))
        harness.squeeze(queue)
    assert len(harness.disk.names("spill")) == 3
    assert drain(harness, queue).bodies == bodies(*range(30))
    harness.read_all()
    assert len(harness.disk.names("spill")) <= 1


def test_a_damaged_spill_costs_only_itself(harness: DiskHarness) -> None:
    queue = harness.queue()
    harness.put(queue, *passing(*range(10)))
    harness.squeeze(queue)
    path = "spill/0000000001.seg"
    harness.disk.put(path, harness.disk.content(path).replace(b"05", b"!!"))
    harness.put(queue, *passing(10))
    assert consumer_read(harness, queue) == bodies(0, 1, 10)
    assert_gone(harness, queue)


def test_what_the_disk_refuses_is_not_lost(harness: DiskHarness) -> None:
    """The spill cannot be written: its messages come back all the same, and what is spilled later too."""
    harness.disk.fault = lambda kind, path: OSError(EIO, "Input/output error") if path.startswith("spill/") else None
    queue = harness.queue()
    harness.put(queue, *passing(*range(10)))
    harness.squeeze(queue)
    harness.put(queue, *passing(*range(10, 20)))
    harness.squeeze(queue)
    harness.disk.fault = lambda kind, path: None
    harness.put(queue, *passing(*range(20, 30)))
    harness.squeeze(queue)
    assert paged(queue) >= 20
    assert drain(harness, queue).bodies == bodies(*range(30))


def test_large_persistent_and_small_transient_messages_keep_their_order(harness: DiskHarness) -> None:
    """Each kind is read from its own file: as far as the bytes of one load allow, and never past the other kind."""
    queue = harness.queue(durable=True)
    expected = []
    for number in range(0, 40, 2):
        expected += [b"%02d" % number + b"x" * 2 * SIZE, b"%02d" % (number + 1)]
        harness.put(queue, message(expected[-2], persistent=True), message(expected[-1]))
    harness.store.write()
    harness.squeeze(queue)
    assert paged(queue) >= 35
    assert consumer_read(harness, queue) == expected
    assert queue.ready == queue.bytes == 0


@pytest.mark.parametrize("again", [[8], [5, 8], [1, 2], [8, 11, 12], [1, 12]])
def test_what_is_spilled_around_an_older_stretch_hides_nothing_of_it(harness: DiskHarness, again: list[int]) -> None:
    """Of messages 3 to 10, those up to 8 were loaded; some are squeezed out again, with others on either side."""
    pages = harness.store.pages
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
    harness.read_all()
    assert [each.sequence for each in found] == there
    pages.drop(1, 0, 1, 99)
    assert pages.next_sequence(1, 0, 0) is None


@pytest.mark.parametrize("load", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("prefetch", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("persistent", [0, 2, 3], ids=["transient", "every second", "every third"])
@pytest.mark.feature("S4-26")
def test_a_backlog_survives_any_mix_of_squeezes_and_loads(
    harness: DiskHarness, monkeypatch: pytest.MonkeyPatch, load: int, prefetch: int, persistent: int
) -> None:
    """Loaded, acked, published and squeezed out again, round after round; nothing is lost or out of order."""
    monkeypatch.setattr(pager, "LOAD_BYTES", load * SIZE)
    queue = harness.queue(durable=True)
    consumer, expected, published = consumer_of(queue, credit=prefetch), [], 0

    def publish(number: int) -> None:
        nonlocal published
        for each in range(published, published + number):
            is_kept = bool(persistent) and each % persistent == 0
            harness.put(queue, message(b"%02d" % each, persistent=is_kept))
        published += number

    publish(20)
    for turn in range(60):
        harness.gauge.is_short = turn % 3 != 0
        if turn % 4 == 0:
            publish(3)
        if turn % 5 == 0:
            harness.store.write()
        for body in consumer.bodies[: 1 + turn % prefetch]:
            expected.append(body)
            consumer.ack(body)
        queue.touch()
        harness.turn()
        if turn % 2:
            harness.read()
        assert queue.ready + queue.unacked + len(expected) == published
    harness.read_all()
    while consumer.bodies:
        for body in consumer.bodies:
            expected.append(body)
            consumer.ack(body)
        harness.read_all()
    assert expected == bodies(*range(published))
    assert_gone(harness, queue)
