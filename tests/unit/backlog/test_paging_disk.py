"""Paging with the real journal and the real records: what was forgotten in memory is read back from disk."""

from __future__ import annotations

from errno import EMFILE

import pytest

from leveret.broker.publishes import write_run
from leveret.message import Address
from leveret.queues.classic import ClassicQueue
from tests.support.hand_store import DiskHouse
from tests.support.shelf import SIZE, assert_counted, bodies, consumer_of, kept, paged, passing, shrink_steps
from tests.support.spies import SpyConsumer, message, size_of


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)


@pytest.fixture
def house() -> DiskHouse:
    """Four messages fit into a queue's memory."""
    return DiskHouse(4 * SIZE)


def backlog(house: DiskHouse, number: int = 10, **arguments: object) -> ClassicQueue:
    """Each message by a turn of its own, all on disk."""
    queue = house.queue(durable=True, **arguments)
    for each in kept(*range(number)):
        house.put(queue, each)
    house.sync(queue)
    return queue


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


@pytest.mark.feature("S4-26")
def test_a_backlog_is_read_back_from_the_journal(house: DiskHouse) -> None:
    queue = backlog(house)
    assert_counted(house, queue, ready=10, on_disk_only=6)
    assert drain(house, queue).bodies == bodies(*range(10))


def test_a_backlog_of_several_segments_is_read_back() -> None:
    house = DiskHouse(4 * SIZE, segment_size=300)
    queue = backlog(house, 40)
    assert len(house.disk.names("journal")) > 5
    assert_counted(house, queue, ready=40, on_disk_only=36)
    assert drain(house, queue).bodies == bodies(*range(40))


def test_what_was_published_in_one_run_is_read_back_in_parts(house: DiskHouse) -> None:
    queue = house.queue(durable=True)
    house.put(queue, *kept(*range(20)))
    house.sync(queue)
    assert_counted(house, queue, ready=20, on_disk_only=16)
    assert drain(house, queue).bodies == bodies(*range(20))


@pytest.mark.feature("S4-26")
def test_messages_come_back_unaltered(house: DiskHouse) -> None:
    """Content, address, priority and deadline."""
    deadline = house.clock.now() + 60
    address = Address("amq.topic", "a.b", 7, 4096)
    run = [message(b"%02d" % n, persistent=True, priority=n % 3, deadline=deadline, address=address) for n in range(12)]
    queue = house.queue(durable=True, max_priority=2)
    house.put(queue, *run)
    house.sync(queue)
    assert [lane.paged for lane in queue.lanes] == [4, 4, 0]
    given = drain(house, queue).given
    assert [each.body for each in given] == bodies(2, 5, 8, 11, 1, 4, 7, 10, 0, 3, 6, 9)
    for each in given:
        original = next(other for other in run if other[0] == each.message[0])
        assert (each.message[1].exchange, each.message[1].key) == ("amq.topic", "a.b")
        assert each.message[1].tail == original[1].tail
        assert (each.message[2].priority, each.lane) == (original[2].priority, original[2].priority)
        assert each.message[2].deadline == pytest.approx(deadline)
        assert each.message[2].persistent


def test_a_message_in_two_queues_is_read_back_by_each(house: DiskHouse) -> None:
    one, two = house.queue("one", durable=True), house.queue("two", durable=True, max_priority=1)
    run = kept(*range(10))
    write_run([one, two], house.log, run, size_of(run), False)
    house.turn()
    house.sync(one, two)
    assert (paged(one), paged(two)) == (6, 6)
    assert consumer_read(house, one) == consumer_read(house, two) == bodies(*range(10))


def consumer_read(house: DiskHouse, queue: ClassicQueue) -> list[bytes]:
    consumer = consumer_of(queue, no_ack=True)
    house.read_all()
    return consumer.bodies


def test_a_message_dies_on_disk_while_the_next_load_begins(house: DiskHouse) -> None:
    """In one and the same turn: what died a moment ago must not be read back, nor counted twice."""
    queue = house.queue(durable=True)
    house.put(queue, *kept(0, 1, 2, 3), *kept(4))
    house.put(queue, *kept(5, deadline=house.clock.now() + 5), *kept(6, 7, 8, 9))
    house.sync(queue)
    consumer = consumer_of(queue, no_ack=True)
    house.clock.move_to(house.clock.now() + 5)
    house.turn()
    assert_counted(house, queue, ready=5, on_disk_only=5)
    house.read_all()
    assert consumer.bodies == bodies(0, 1, 2, 3, 4, 6, 7, 8, 9)
    assert queue.counters.expired == 1
    assert_gone(house, queue)


def test_get_and_settle_of_loaded_messages_reach_the_journal(house: DiskHouse) -> None:
    queue = backlog(house)
    consumer = consumer_of(queue, credit=6)
    house.read_all()
    consumer.ack(b"04")
    queue.remove_consumer(consumer)
    consumer.requeue(b"05")
    house.turn()
    house.store.write()
    left = [number for number in range(10) if number != 4]
    index = house.log.lanes[queue.id << 8].index
    assert [run.sequence - 1 for run in index] == left
    assert house.store.pages.tries(queue.id, 0, 6) == 1


@pytest.mark.feature("S4-26")
def test_a_purge_of_a_paged_queue_reaches_the_journal(house: DiskHouse) -> None:
    queue = backlog(house)
    assert queue.purge() == 10
    house.turn()
    assert_gone(house, queue)


@pytest.mark.feature("S4-24")
def test_a_deleted_queue_has_nothing_in_the_journal(house: DiskHouse) -> None:
    queue = backlog(house)
    consumer_of(queue, credit=4)
    house.turn()
    assert queue.die() == 6
    house.read_all()
    assert house.gauge.used == 0
    assert queue.id << 8 not in house.log.lanes


# ---- damage and faults


def damage(house: DiskHouse, body: bytes) -> None:
    """One byte of the record with this body."""
    for name in house.disk.names("journal"):
        path = f"journal/{name}"
        data = house.disk.content(path)
        at = data.find(b"\x00\x00\x00\x02" + body)  # the head of a body frame
        if at >= 0:
            house.disk.put(path, data[: at + 4] + b"#" + data[at + 5 :])
            return
    raise AssertionError(f"{body!r} is not on disk")


@pytest.mark.parametrize("lost", [[4], [6], [9], [4, 5, 6], [4, 5, 6, 7, 8, 9]])
@pytest.mark.feature("S4-21")
def test_a_damaged_record_costs_only_itself(
    house: DiskHouse, lost: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    queue = backlog(house)
    for body in bodies(*lost):
        damage(house, body)
    house.put(queue, *passing(10))
    assert drain(house, queue).bodies == bodies(*[number for number in range(11) if number not in lost])
    assert "message on disk is damaged and lost" in caplog.text


def test_a_read_that_fails_for_a_while_costs_no_message(house: DiskHouse) -> None:
    """No handle to be had, say: the messages are sound and must not be given up."""
    queue = backlog(house)
    failures = iter(range(20))

    def fault(kind: str, path: str) -> OSError | None:
        return OSError(EMFILE, "Too many open files") if kind == "read" and next(failures, None) is not None else None

    house.disk.fault = fault
    consumer = consumer_of(queue, no_ack=True)
    for _ in range(30):
        house.read_all()
        house.store.pages.try_again()
    assert consumer.bodies == bodies(*range(10))
    assert_gone(house, queue)


def between_others(number: int) -> tuple[DiskHouse, ClassicQueue]:
    """A queue on disk whose messages lie between those of another that were just purged: worth to be reclaimed."""
    house = DiskHouse(4 * SIZE, segment_size=600)
    queue, other = house.queue(durable=True), house.queue("other", durable=True)
    for each in kept(*range(number)):
        house.put(queue, each)
        house.put(other, message(b"x" * 60, persistent=True))
    house.sync(queue)
    other.purge()
    house.turn()
    return house, queue


@pytest.mark.feature("S4-22")
def test_a_message_that_moves_while_we_go_to_read_it_is_found_in_its_new_place() -> None:
    """Its segment was reclaimed between the asking and the reading."""
    house, queue = between_others(20)
    consumer = consumer_of(queue, no_ack=True)
    house.turn()
    (waiting,) = house.store.jobs
    house.store.jobs.clear()
    before = house.disk.names("journal")
    for _ in range(100):
        if not house.store.write() and not house.read():
            break
    assert set(before) - set(house.disk.names("journal"))
    house.store.jobs.append(waiting)
    house.read_all()
    assert consumer.bodies == bodies(*range(20))


@pytest.mark.feature("S4-22")
def test_a_message_whose_new_place_is_not_written_yet_is_waited_for() -> None:
    """Reclaim has given it a place, and the writer is not that far."""
    house, queue = between_others(20)
    (home,) = house.log.lanes[queue.id << 8].index.live(5, 1)
    while house.log.lanes[queue.id << 8].index.live(5, 1) == [home]:
        house.store.write()
        house.read()
    assert house.store.batches, "copies are on their way"
    consumer = consumer_of(queue, no_ack=True)
    house.read_all()
    assert consumer.bodies == bodies(0, 1, 2, 3)
    for _ in range(100):
        if not house.store.write() and not house.read():
            break
    assert consumer.bodies == bodies(*range(20))
