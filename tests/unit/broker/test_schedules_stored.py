"""Schedules with a disk: over a restart and a power cut, paged out, and in one group with what comes of them."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.broker.schedules import Page
from leveret.message import Message
from leveret.queues import classic
from leveret.wire.content import body_of
from leveret.wire.methods import BasicAck, ConfirmSelect, ExchangeDeclare, QueueBind
from tests.support.peer_pair import Client
from tests.support.stored_harness import StoredHarness

SCHEDULE = "amq.leveret.schedule"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is read at once, and few are sent on."""
    monkeypatch.setattr(pager, "WORTH_IT", 1)
    monkeypatch.setattr(pager, "LOAD_BYTES", 200)
    monkeypatch.setattr(pager, "LOOK_AGAIN", 1)
    monkeypatch.setattr(classic, "ON_DISK_AT_ONCE", 7)


def new_harness(**more: int) -> StoredHarness:
    harness = StoredHarness(**more)
    prepared(harness)
    return harness


def prepared(harness: StoredHarness) -> Client:
    client = harness.client()
    client.declare("q", durable=True)
    return client


def later(harness: StoredHarness, seconds: float, *bodies: bytes, mode: int = 2) -> None:
    client = harness.client()
    at = round((harness.clock.wall() + seconds) * 1000)
    client.publish("q", *bodies, headers={"x-deliver-at": at}, delivery_mode=mode)


def bodies(harness: StoredHarness) -> list[bytes]:
    client = harness.client()
    found = []
    while (content := client.get("q", no_ack=True)) is not None:
        found.append(content.body)
    return found


def listed(harness: StoredHarness, limit: int = 1000, after: int | None = None) -> Page:
    pages: list[Page] = []
    harness.vhost.schedules.list(limit, after, pages.append)
    harness.rest()
    return pages[0]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_schedule_survives_the_end_of_the_broker(is_clean: bool) -> None:
    harness = new_harness()
    later(harness, 100, b"a")
    later(harness, 50, b"b")
    life = harness.stopped(20) if is_clean else harness.crashed(20)
    harness = life.again()
    assert harness.vhost.schedules.count == 2
    assert [round(each.due - harness.clock.wall()) for each in listed(harness).messages] == [30, 80]
    harness.advance(30)
    assert bodies(harness) == [b"b"]
    harness.advance(50)
    assert bodies(harness) == [b"a"]
    assert not harness.queue("q").counters.redelivered, "nobody was given these before"
    assert harness.stopped().again().restored == 0


def test_what_became_due_while_the_broker_was_down_is_sent_at_once() -> None:
    harness = new_harness()
    later(harness, 10, *numbers(20))
    harness = harness.crashed(1000).again()
    assert sorted(bodies(harness)) == sorted(numbers(20))


def test_a_transient_message_does_not_survive() -> None:
    harness = new_harness()
    later(harness, 10, b"m", mode=1)
    assert harness.vhost.schedules.count == 1
    assert harness.stopped().again().vhost.schedules.count == 0


def test_a_confirm_waits_until_the_schedule_is_on_disk() -> None:
    harness = new_harness()
    client = harness.client()
    client.ask(ConfirmSelect())
    harness.is_slow = True
    client.publish("q", b"m", headers={"x-deliver-at": 1 << 50}, delivery_mode=2)
    assert client.heard() == []
    harness.write()
    assert client.heard() == [BasicAck(1)]


@pytest.mark.parametrize("image", range(6))
def test_a_crash_shows_it_in_the_schedule_or_in_its_queue(image: int) -> None:
    """In one group: never in both, never in neither."""
    harness = new_harness()
    later(harness, 10, *numbers(5))
    harness.is_slow = True
    harness.advance(10)
    harness.store.write()
    harness = harness.crashed(image=image).again()
    harness.advance(10)
    assert sorted(bodies(harness)) == numbers(5)
    assert harness.vhost.schedules.count == 0


def test_a_message_never_leaves_the_schedule_before_it_is_safe_elsewhere() -> None:
    harness = new_harness()
    later(harness, 10, b"m")
    harness.is_slow = True
    harness.advance(10)
    assert harness.vhost.schedules.count == 0
    harness = harness.crashed().again()  # nothing of that was written
    assert bodies(harness) == [b"m"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_long_schedule_waits_on_disk_and_comes_back_in_time(is_restarted: bool) -> None:
    harness = new_harness(queue_memory=600)
    for number in range(60):
        later(harness, 10 + number * 37 % 60, b"%d" % number)
    harness.turn()
    if is_restarted:
        harness = harness.crashed().again()
    queue = harness.vhost.schedules.queue
    assert queue.lane.paged > 30
    assert queue.bytes - (queue.pager.bytes if queue.pager else 0) < 2_000
    expected = [b"%d" % number for number in sorted(range(60), key=lambda number: number * 37 % 60)]
    seen = []
    for _ in range(80):
        harness.advance(1)
        seen += bodies(harness)
    assert seen == expected
    assert (harness.vhost.schedules.count, queue.bytes, queue.lane.paged) == (0, 0, 0)
    assert harness.waiting_on_disk("q") == []


def test_all_due_at_once_are_read_in_stretches_and_each_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = new_harness(queue_memory=600)
    later(harness, 10, *numbers(500))
    harness.turn()
    queue = harness.vhost.schedules.queue
    assert queue.lane.paged > 450
    reads = 0
    load = harness.store.pages.load

    def counted(*arguments: object) -> None:
        nonlocal reads
        reads += 1
        load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(classic, "ON_DISK_AT_ONCE", 4096)
    monkeypatch.setattr(harness.store.pages, "load", counted)
    harness.advance(10)
    assert sorted(bodies(harness)) == sorted(numbers(500))
    assert reads < 200
    assert (harness.vhost.schedules.sent, harness.vhost.schedules.count, queue.bytes) == (500, 0, 0)


def test_the_list_reads_what_is_on_disk() -> None:
    harness = new_harness(queue_memory=600)
    for number in range(40):
        later(harness, 100 - number, b"m" * number)
    harness.turn()
    assert harness.vhost.schedules.queue.lane.paged > 20
    found = []
    after = None
    while True:
        page = listed(harness, 7, after)
        found += page.messages
        if page.next is None:
            break
        after = page.next
    assert [round(each.due - harness.clock.wall()) for each in found] == list(range(61, 101))
    assert [each.size for each in found] == sorted([each.size for each in found], reverse=True)
    read: list[Message | None] = []
    for id_ in (*(each.id for each in found), "1-0-1", found[0].id.replace("-0-", "-1-")):
        harness.vhost.schedules.read(id_, read.append)
        harness.turn()
    assert [message and body_of(message[0]) for message in read] == [*(b"m" * n for n in range(39, -1, -1)), None, None]


@pytest.mark.parametrize("is_paged", [False, True])
def test_what_was_cancelled_stays_away_after_a_crash(is_paged: bool) -> None:
    harness = new_harness(queue_memory=600 if is_paged else 64 << 20)
    later(harness, 10, *numbers(50))
    harness.turn()
    schedules = harness.vhost.schedules
    last = listed(harness).messages[40]
    assert schedules.queue.lane.is_paged(int(last.id.split("-")[2])) is is_paged
    issued = harness.broker.log.issued
    assert schedules.cancel(last.id) is True
    assert harness.broker.log.issued > issued, "whoever is told of it waits for the disk"
    assert schedules.cancel(last.id) is False
    assert schedules.count == 49
    harness.turn()
    harness = harness.crashed().again()
    assert harness.vhost.schedules.count == 49
    harness.advance(10)
    assert len(bodies(harness)) == 49


def test_what_is_being_sent_cannot_be_cancelled() -> None:
    harness = new_harness(queue_memory=600)
    later(harness, 10, *numbers(50))
    harness.turn()
    last = listed(harness).messages[-1]
    harness.is_slow = True
    harness.advance(10)
    ids = [f"{last.id.rsplit('-', 1)[0]}-{sequence}" for sequence in range(1, 51)]
    cancelled = [id_ for id_ in ids if harness.vhost.schedules.cancel(id_)]
    harness.is_slow = False
    harness.work()
    assert len(bodies(harness)) + len(cancelled) == 50
    assert harness.vhost.schedules.count == 0


def test_transient_messages_that_memory_could_not_hold_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "SQUEEZED", 600)
    harness = new_harness()
    later(harness, 10, *numbers(50), mode=1)
    gauge = harness.broker.gauge
    gauge.is_short = True
    harness.vhost.schedules.queue.touch()
    harness.vhost.schedules.queue.drain()  # as in a turn; a turn of the broker would see that all is well
    harness.rest()
    assert harness.vhost.schedules.queue.lane.paged > 20
    gauge.is_short = False
    harness.advance(10)
    assert bodies(harness) == numbers(50)
    assert harness.vhost.schedules.count == 0


def test_a_delayed_exchange_and_its_inner_type_survive() -> None:
    harness = new_harness()
    client = harness.client()
    arguments = {"x-delayed-type": "topic"}
    client.ask(ExchangeDeclare("later", "x-delayed-message", durable=True, arguments=arguments))
    client.ask(QueueBind("q", "later", "a.#"))
    client.feed(client.published("later", "a.b", b"m", headers={"x-delay": 5000}, delivery_mode=2))
    harness = harness.stopped().again()
    harness.advance(5)
    assert bodies(harness) == [b"m"]


def test_a_deleted_vhost_takes_its_schedule_along() -> None:
    harness = new_harness()
    later(harness, 10, b"m")
    harness.broker.delete_vhost("/")
    harness.rest()
    assert harness.disk.queues() == set()
    assert harness.broker.gauge.used == 0
    harness.broker.add_vhost("/")
    harness.user("guest", "/")
    harness.vhost = harness.broker.vhost("/")
    harness.advance(10)
    assert harness.vhost.schedules.count == 0


def test_two_vhosts_have_schedules_of_their_own() -> None:
    harness = new_harness()
    harness.broker.add_vhost("other")
    later(harness, 10, b"m")
    harness.rest()
    assert harness.broker.vhost("other").schedules.count == 0
    assert harness.vhost.schedules.count == 1
