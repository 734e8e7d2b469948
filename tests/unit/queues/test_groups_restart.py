"""Message groups after a restart: order holds, also for what was out, and for what waits for another try."""

from __future__ import annotations

from leveret.message import PERSISTENT
from tests.support.broker_harness import BrokerHarness
from tests.support.selector_consumers import consumer_of, given, of_groups
from tests.support.spies import SpyConsumer
from tests.support.store_harness import FULL_SIZE


def filled(text: str, **arguments: object) -> BrokerHarness:
    harness = BrokerHarness()
    harness.begin()
    harness.make("q", message_groups=True, **arguments)
    harness.post_run("q", [(content, address, PERSISTENT) for content, address, _ in of_groups(text)])
    harness.rest()
    return harness


def reborn(harness: BrokerHarness, *, crash: bool) -> BrokerHarness:
    harness.rest()
    if not crash:
        harness.stop()
    again = BrokerHarness(harness.disk, full_size=FULL_SIZE, ledger=harness.ledger)
    again.begin()
    return again


def worked_off(harness: BrokerHarness, *consumers: SpyConsumer) -> list[str]:
    """What the consumers get, one after the other, each acking the first it holds."""
    done: list[str] = []
    harness.rest()
    while any(consumer.given for consumer in consumers):
        for consumer in consumers:
            if consumer.given:
                done.append(consumer.bodies[0].decode())
                consumer.ack(consumer.bodies[0])
        harness.rest()
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
        harness = filled(text)
        first = consumer_of(harness.queue("q"), 6)
        harness.rest()
        assert len(first.given) == 6
        again = reborn(harness, crash=crash)
        queue = again.queue("q")
        done = worked_off(again, consumer_of(queue, 2), consumer_of(queue, 1))
        assert in_order(done, text), done
        assert (queue.ready, queue.unacked) == (0, 0)


def test_one_that_waits_for_another_try_holds_up_its_group_after_a_restart() -> None:
    harness = filled("a1 b1 a2 b2", retry_delays=[60_000])
    first = consumer_of(harness.queue("q"), 1)
    harness.rest()
    first.requeue(b"a1")
    first.credit = -1
    again = reborn(harness, crash=False)
    second = consumer_of(again.queue("q"))
    again.rest()
    assert given(second) == "b1 b2"
    again.broker.timers.advance(61, again.rest)
    assert given(second) == "b1 b2 a1 a2"
