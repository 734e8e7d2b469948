"""Schedules with a disk: over a restart and a power cut, paged out, and in one group with what comes of them."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.broker.schedules import Page
from leveret.queues import classic
from leveret.wire.methods import BasicAck, ConfirmSelect, ExchangeDeclare, QueueBind
from tests.support.peer_pair import Client
from tests.support.stored_house import StoredHouse

SCHEDULE = "amq.leveret.schedule"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is read at once, and few are sent on."""
    monkeypatch.setattr(pager, "WORTH_IT", 1)
    monkeypatch.setattr(pager, "LOAD_BYTES", 200)
    monkeypatch.setattr(pager, "LOOK_AGAIN", 1)
    monkeypatch.setattr(classic, "ON_DISK_AT_ONCE", 7)


def new_house(**more: int) -> StoredHouse:
    house = StoredHouse(**more)
    prepared(house)
    return house


def prepared(house: StoredHouse) -> Client:
    client = house.client()
    client.declare("q", durable=True)
    return client


def later(house: StoredHouse, seconds: float, *bodies: bytes, mode: int = 2) -> None:
    client = house.client()
    at = round((house.clock.wall() + seconds) * 1000)
    client.publish("q", *bodies, headers={"x-deliver-at": at}, delivery_mode=mode)


def bodies(house: StoredHouse) -> list[bytes]:
    client = house.client()
    found = []
    while (content := client.get("q", no_ack=True)) is not None:
        found.append(content.body)
    return found


def listed(house: StoredHouse, limit: int = 1000, after: int | None = None) -> Page:
    pages: list[Page] = []
    house.vhost.schedules.list(limit, after, pages.append)
    house.rest()
    return pages[0]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_schedule_survives_the_end_of_the_broker(is_clean: bool) -> None:
    house = new_house()
    later(house, 100, b"a")
    later(house, 50, b"b")
    life = house.stopped(20) if is_clean else house.crashed(20)
    house = life.again()
    assert house.vhost.schedules.count == 2
    assert [round(each.due - house.clock.wall()) for each in listed(house).messages] == [30, 80]
    house.advance(30)
    assert bodies(house) == [b"b"]
    house.advance(50)
    assert bodies(house) == [b"a"]
    assert not house.queue("q").counters.redelivered, "nobody was given these before"
    assert house.stopped().again().restored == 0


def test_what_became_due_while_the_broker_was_down_is_sent_at_once() -> None:
    house = new_house()
    later(house, 10, *numbers(20))
    house = house.crashed(1000).again()
    assert sorted(bodies(house)) == sorted(numbers(20))


def test_a_transient_message_does_not_survive() -> None:
    house = new_house()
    later(house, 10, b"m", mode=1)
    assert house.vhost.schedules.count == 1
    assert house.stopped().again().vhost.schedules.count == 0


def test_a_confirm_waits_until_the_schedule_is_on_disk() -> None:
    house = new_house()
    client = house.client()
    client.ask(ConfirmSelect())
    house.is_slow = True
    client.publish("q", b"m", headers={"x-deliver-at": 1 << 50}, delivery_mode=2)
    assert client.heard() == []
    house.write()
    assert client.heard() == [BasicAck(1)]


@pytest.mark.parametrize("image", range(6))
def test_a_crash_shows_it_in_the_schedule_or_in_its_queue(image: int) -> None:
    """In one group: never in both, never in neither."""
    house = new_house()
    later(house, 10, *numbers(5))
    house.is_slow = True
    house.advance(10)
    house.store.write()
    house = house.crashed(image=image).again()
    house.advance(10)
    assert sorted(bodies(house)) == numbers(5)
    assert house.vhost.schedules.count == 0


def test_a_message_never_leaves_the_schedule_before_it_is_safe_elsewhere() -> None:
    house = new_house()
    later(house, 10, b"m")
    house.is_slow = True
    house.advance(10)
    assert house.vhost.schedules.count == 0
    house = house.crashed().again()  # nothing of that was written
    assert bodies(house) == [b"m"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_long_schedule_waits_on_disk_and_comes_back_in_time(is_restarted: bool) -> None:
    house = new_house(queue_memory=600)
    for number in range(60):
        later(house, 10 + number * 37 % 60, b"%d" % number)
    house.turn()
    if is_restarted:
        house = house.crashed().again()
    queue = house.vhost.schedules.queue
    assert queue.lane.paged > 30
    assert queue.bytes - (queue.pager.bytes if queue.pager else 0) < 2_000
    expected = [b"%d" % number for number in sorted(range(60), key=lambda number: number * 37 % 60)]
    seen = []
    for _ in range(80):
        house.advance(1)
        seen += bodies(house)
    assert seen == expected
    assert (house.vhost.schedules.count, queue.bytes, queue.lane.paged) == (0, 0, 0)
    assert house.waiting_on_disk("q") == []


def test_all_due_at_once_are_read_in_stretches_and_each_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    house = new_house(queue_memory=600)
    later(house, 10, *numbers(500))
    house.turn()
    queue = house.vhost.schedules.queue
    assert queue.lane.paged > 450
    reads = 0
    load = house.store.pages.load

    def counted(*arguments: object) -> None:
        nonlocal reads
        reads += 1
        load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(classic, "ON_DISK_AT_ONCE", 4096)
    monkeypatch.setattr(house.store.pages, "load", counted)
    house.advance(10)
    assert sorted(bodies(house)) == sorted(numbers(500))
    assert reads < 200
    assert (house.vhost.schedules.sent, house.vhost.schedules.count, queue.bytes) == (500, 0, 0)


def test_the_list_reads_what_is_on_disk() -> None:
    house = new_house(queue_memory=600)
    for number in range(40):
        later(house, 100 - number, b"m" * number)
    house.turn()
    assert house.vhost.schedules.queue.lane.paged > 20
    found = []
    after = None
    while True:
        page = listed(house, 7, after)
        found += page.messages
        if page.next is None:
            break
        after = page.next
    assert [round(each.due - house.clock.wall()) for each in found] == list(range(61, 101))
    assert [each.size for each in found] == sorted([each.size for each in found], reverse=True)


@pytest.mark.parametrize("is_paged", [False, True])
def test_what_was_cancelled_stays_away_after_a_crash(is_paged: bool) -> None:
    house = new_house(queue_memory=600 if is_paged else 64 << 20)
    later(house, 10, *numbers(50))
    house.turn()
    schedules = house.vhost.schedules
    last = listed(house).messages[40]
    assert schedules.queue.lane.is_paged(int(last.id.split("-")[2])) is is_paged
    issued = house.broker.log.issued
    assert schedules.cancel(last.id) is True
    assert house.broker.log.issued > issued, "whoever is told of it waits for the disk"
    assert schedules.cancel(last.id) is False
    assert schedules.count == 49
    house.turn()
    house = house.crashed().again()
    assert house.vhost.schedules.count == 49
    house.advance(10)
    assert len(bodies(house)) == 49


def test_what_is_being_sent_cannot_be_cancelled() -> None:
    house = new_house(queue_memory=600)
    later(house, 10, *numbers(50))
    house.turn()
    last = listed(house).messages[-1]
    house.is_slow = True
    house.advance(10)
    ids = [f"{last.id.rsplit('-', 1)[0]}-{sequence}" for sequence in range(1, 51)]
    cancelled = [id_ for id_ in ids if house.vhost.schedules.cancel(id_)]
    house.is_slow = False
    house.work()
    assert len(bodies(house)) + len(cancelled) == 50
    assert house.vhost.schedules.count == 0


def test_transient_messages_that_memory_could_not_hold_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "SQUEEZED", 600)
    house = new_house()
    later(house, 10, *numbers(50), mode=1)
    gauge = house.broker.gauge
    gauge.is_short = True
    house.vhost.schedules.queue.touch()
    house.vhost.schedules.queue.drain()  # as in a turn; a turn of the broker would see that all is well
    house.rest()
    assert house.vhost.schedules.queue.lane.paged > 20
    gauge.is_short = False
    house.advance(10)
    assert bodies(house) == numbers(50)
    assert house.vhost.schedules.count == 0


def test_a_delayed_exchange_and_its_inner_type_survive() -> None:
    house = new_house()
    client = house.client()
    arguments = {"x-delayed-type": "topic"}
    client.ask(ExchangeDeclare("later", "x-delayed-message", durable=True, arguments=arguments))
    client.ask(QueueBind("q", "later", "a.#"))
    client.feed(client.published("later", "a.b", b"m", headers={"x-delay": 5000}, delivery_mode=2))
    house = house.stopped().again()
    house.advance(5)
    assert bodies(house) == [b"m"]


def test_a_deleted_vhost_takes_its_schedule_along() -> None:
    house = new_house()
    later(house, 10, b"m")
    house.broker.delete_vhost("/")
    house.rest()
    assert house.disk.queues() == set()
    assert house.broker.gauge.used == 0
    house.broker.add_vhost("/")
    house.user("guest", "/")
    house.vhost = house.broker.vhost("/")
    house.advance(10)
    assert house.vhost.schedules.count == 0


def test_two_vhosts_have_schedules_of_their_own() -> None:
    house = new_house()
    house.broker.add_vhost("other")
    later(house, 10, b"m")
    house.rest()
    assert house.broker.vhost("other").schedules.count == 0
    assert house.vhost.schedules.count == 1
