"""Paging with the real journal and the real records: what was forgotten in memory is read back from disk."""

from __future__ import annotations

from errno import EMFILE

import pytest

from leveret.broker.publishes import write_run
from leveret.message import Address
from leveret.queues.classic import ClassicQueue
from tests.support.manual_store import DiskHarness
from tests.support.memory_pages import SIZE, assert_counted, bodies, consumer_of, kept, paged, passing, shrink_steps
from tests.support.spies import SpyConsumer, message, size_of


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def harness() -> DiskHarness:
    """Four messages fit into a queue's memory."""
    return DiskHarness(4 * SIZE)


def backlog(harness: DiskHarness, number: int = 10, **arguments: object) -> ClassicQueue:
    """Each message by a turn of its own, all on disk."""
    queue = harness.queue(durable=True, **arguments)
    for each in kept(*range(number)):
        harness.put(queue, each)
    harness.sync(queue)
    return queue


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


@pytest.mark.feature("S4-26")
def test_a_backlog_is_read_back_from_the_journal(harness: DiskHarness) -> None:
    queue = backlog(harness)
    assert_counted(harness, queue, ready=10, on_disk_only=6)
    assert drain(harness, queue).bodies == bodies(*range(10))


def test_a_backlog_of_several_segments_is_read_back() -> None:
    harness = DiskHarness(4 * SIZE, segment_size=300)
    queue = backlog(harness, 40)
    assert len(harness.disk.names("journal")) > 5
    assert_counted(harness, queue, ready=40, on_disk_only=36)
    assert drain(harness, queue).bodies == bodies(*range(40))


def test_what_was_published_in_one_run_is_read_back_in_parts(harness: DiskHarness) -> None:
    queue = harness.queue(durable=True)
    harness.put(queue, *kept(*range(20)))
    harness.sync(queue)
    assert_counted(harness, queue, ready=20, on_disk_only=16)
    assert drain(harness, queue).bodies == bodies(*range(20))


@pytest.mark.feature("S4-26")
def test_messages_come_back_unaltered(harness: DiskHarness) -> None:
    """Content, address, priority and deadline."""
    deadline = harness.clock.now() + 60
    address = Address("amq.topic", "a.b", 7, 4096)
    run = [message(b"%02d" % n, persistent=True, priority=n % 3, deadline=deadline, address=address) for n in range(12)]
    queue = harness.queue(durable=True, max_priority=2)
    harness.put(queue, *run)
    harness.sync(queue)
    assert [lane.paged for lane in queue.lanes] == [4, 4, 0]
    given = drain(harness, queue).given
    assert [each.body for each in given] == bodies(2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9)
    for each in given:
        original = next(other for other in run if other[0] == each.message[0])
        assert (each.message[1].exchange, each.message[1].key) == ("amq.topic", "a.b")
        assert each.message[1].tail == original[1].tail
        assert (each.message[2].priority, each.lane) == (original[2].priority, original[2].priority)
        assert each.message[2].deadline == pytest.approx(deadline)
        assert each.message[2].persistent


def test_a_message_in_two_queues_is_read_back_by_each(harness: DiskHarness) -> None:
    one, two = harness.queue("one", durable=True), harness.queue("two", durable=True, max_priority=1)
    run = kept(*range(10))
    write_run([one, two], harness.log, run, size_of(run), False)
    harness.turn()
    harness.sync(one, two)
    assert (paged(one), paged(two)) == (6, 6)
    assert consumer_read(harness, one) == consumer_read(harness, two) == bodies(*range(10))


def consumer_read(harness: DiskHarness, queue: ClassicQueue) -> list[bytes]:
    consumer = consumer_of(queue, no_ack=True)
    harness.read_all()
    return consumer.bodies


def test_a_message_dies_on_disk_while_the_next_load_begins(harness: DiskHarness) -> None:
    """In one and the same turn: what died a moment ago must not be read back, nor counted twice."""
    queue = harness.queue(durable=True)
    harness.put(queue, *kept(0, 1, 2, 3), *kept(4))
    harness.put(queue, *kept(5, deadline=harness.clock.now() + 5), *kept(6, 7, 8, 9))
    harness.sync(queue)
    consumer = consumer_of(queue, no_ack=True)
    harness.clock.move_to(harness.clock.now() + 5)
    harness.turn()
    assert_counted(harness, queue, ready=5, on_disk_only=5)
    harness.read_all()
    assert consumer.bodies == bodies(0, 1, 2, 3, 4, 6, 7, 8, 9)
    assert queue.counters.expired == 1
    assert_gone(harness, queue)


def test_get_and_settle_of_loaded_messages_reach_the_journal(harness: DiskHarness) -> None:
    queue = backlog(harness)
    consumer = consumer_of(queue, credit=6)
    harness.read_all()
    consumer.ack(b"04")
    queue.remove_consumer(consumer)
    consumer.requeue(b"05")
    harness.turn()
    harness.store.write()
    left = [number for number in range(10) if number != 4]
    index = harness.log.lanes[queue.id << 8].index
    assert [run.sequence - 1 for run in index] == left
    assert harness.store.pages.tries(queue.id, 0, 6) == 1


@pytest.mark.feature("S4-26")
def test_a_purge_of_a_paged_queue_reaches_the_journal(harness: DiskHarness) -> None:
    queue = backlog(harness)
    assert queue.purge() == 10
    harness.turn()
    assert_gone(harness, queue)


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_has_nothing_in_the_journal(harness: DiskHarness) -> None:
    queue = backlog(harness)
    consumer_of(queue, credit=4)
    harness.turn()
    assert queue.die() == 6
    harness.read_all()
    assert harness.gauge.used == 0
    assert queue.id << 8 not in harness.log.lanes


# ---- damage and faults


def damage(harness: DiskHarness, body: bytes) -> None:
    """One byte of the record with this body."""
    for name in harness.disk.names("journal"):
        path = f"journal/{name}"
        data = harness.disk.content(path)
        at = data.find(b"\x00\x00\x00\x02" + body)  # the head of a body frame
        if at >= 0:
            harness.disk.put(path, data[: at + 4] + b"#" + data[at + 5 :])
            return
    raise AssertionError(f"{body!r} is not on disk")


@pytest.mark.parametrize("lost", [[4], [6], [9], [4, 5, 6], [4, 5, 6, 7, 8, 9]])
@pytest.mark.feature("S4-21")
def test_a_damaged_record_costs_only_itself(
    harness: DiskHarness, lost: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    queue = backlog(harness)
    for body in bodies(*lost):
        damage(harness, body)
    harness.put(queue, *passing(10))
    assert drain(harness, queue).bodies == bodies(*[number for number in range(11) if number not in lost])
    assert "message on disk is damaged and lost" in caplog.text


def test_a_read_that_fails_for_a_while_costs_no_message(harness: DiskHarness) -> None:
    """No handle to be had, say: the messages are sound and must not be given up."""
    queue = backlog(harness)
    failures = iter(range(20))

    def fault(kind: str, path: str) -> OSError | None:
        return OSError(EMFILE, "Too many open files") if kind == "read" and next(failures, None) is not None else None

    harness.disk.fault = fault
    consumer = consumer_of(queue, no_ack=True)
    for _ in range(30):
        harness.read_all()
        harness.store.pages.try_again()
    assert consumer.bodies == bodies(*range(10))
    assert_gone(harness, queue)


def between_others(number: int) -> tuple[DiskHarness, ClassicQueue]:
    """A queue on disk whose messages lie between those of another that were just purged: worth to be reclaimed."""
    harness = DiskHarness(4 * SIZE, segment_size=600)
    queue, other = harness.queue(durable=True), harness.queue("other", durable=True)
    for each in kept(*range(number)):
        harness.put(queue, each)
        harness.put(other, message(b"x" * 60, persistent=True))
    harness.sync(queue)
    other.purge()
    harness.turn()
    return harness, queue


@pytest.mark.feature("S4-22")
def test_a_message_that_moves_while_we_go_to_read_it_is_found_in_its_new_place() -> None:
    """Its segment was reclaimed between the asking and the reading."""
    harness, queue = between_others(20)
    consumer = consumer_of(queue, no_ack=True)
    harness.turn()
    (waiting,) = harness.store.jobs
    harness.store.jobs.clear()
    before = harness.disk.names("journal")
    for _ in range(100):
        if not harness.store.write() and not harness.read():
            break
    assert set(before) - set(harness.disk.names("journal"))
    harness.store.jobs.append(waiting)
    harness.read_all()
    assert consumer.bodies == bodies(*range(20))


@pytest.mark.feature("S4-22")
def test_a_message_whose_new_place_is_not_written_yet_is_waited_for() -> None:
    """Reclaim has given it a place, and the writer is not that far."""
    harness, queue = between_others(20)
    (home,) = harness.log.lanes[queue.id << 8].index.live(5, 1)
    while harness.log.lanes[queue.id << 8].index.live(5, 1) == [home]:
        harness.store.write()
        harness.read()
    assert harness.store.batches, "copies are on their way"
    consumer = consumer_of(queue, no_ack=True)
    harness.read_all()
    assert consumer.bodies == bodies(0, 1, 2, 3)
    for _ in range(100):
        if not harness.store.write() and not harness.read():
            break
    assert consumer.bodies == bodies(*range(20))
