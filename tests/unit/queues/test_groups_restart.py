"""Message groups after a restart: order holds, also for what was out, and for what waits for another try."""

from __future__ import annotations

from leveret.message import PERSISTENT
from tests.support.broker_house import BrokerHouse
from tests.support.choices import consumer_of, given, of_groups
from tests.support.spies import SpyConsumer
from tests.support.store_house import FULL_SIZE


def filled(text: str, **arguments: object) -> BrokerHouse:
    house = BrokerHouse()
    house.begin()
    house.make("q", message_groups=True, **arguments)
    house.post_run("q", [(content, address, PERSISTENT) for content, address, _ in of_groups(text)])
    house.rest()
    return house


def reborn(house: BrokerHouse, *, crash: bool) -> BrokerHouse:
    house.rest()
    if not crash:
        house.stop()
    again = BrokerHouse(house.disk, full_size=FULL_SIZE, ledger=house.ledger)
    again.begin()
    return again


def worked_off(house: BrokerHouse, *consumers: SpyConsumer) -> list[str]:
    """What the consumers get, one after the other, each acking the first it holds."""
    done: list[str] = []
    house.rest()
    while any(consumer.given for consumer in consumers):
        for consumer in consumers:
            if consumer.given:
                done.append(consumer.bodies[0].decode())
                consumer.ack(consumer.bodies[0])
        house.rest()
    return done


def in_order(done: list[str], text: str) -> bool:
    names = text.split()
    return sorted(done) == sorted(names) and all(
        [name for name in done if name[0] == group] == [name for name in names if name[0] == group]
        for group in {name[0] for name in names}
    )


def test_order_holds_after_a_stop_and_after_a_crash() -> None:
    text = " ".join(f"{'abcd'[number % 4]}{number:02}" for number in range(40))
    for crash in (False, True):
        house = filled(text)
        first = consumer_of(house.queue("q"), 6)
        house.rest()
        assert len(first.given) == 6
        again = reborn(house, crash=crash)
        queue = again.queue("q")
        done = worked_off(again, consumer_of(queue, 2), consumer_of(queue, 1))
        assert in_order(done, text), done
        assert (queue.ready, queue.unacked) == (0, 0)


def test_one_that_waits_for_another_try_holds_up_its_group_after_a_restart() -> None:
    house = filled("a1 b1 a2 b2", retry_delays=[60_000])
    first = consumer_of(house.queue("q"), 1)
    house.rest()
    first.requeue(b"a1")
    first.credit = -1
    again = reborn(house, crash=False)
    second = consumer_of(again.queue("q"))
    again.rest()
    assert given(second) == "b1 b2"
    again.broker.timers.advance(61, again.rest)
    assert given(second) == "b1 b2 a1 a2"
